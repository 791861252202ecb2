"""How clients reach the scheduler, and what it lets in from outside: the part of ``[cluster]`` that
is about connections.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from terradask_modules.ingress import SSH_PORT
from terradask_modules.names import SCHEDULER_PORTS
from terradask_stacks.settings.base import Port, Section
from terradask_stacks.settings.ingress import Ingress, IngressRule
from terradask_stacks.validators.addresses import check_sources
from terradask_stacks.validators.refusal import refuse


class DashboardSettings(Section):
    """A cluster's settings for its dashboard."""

    dashboard_port: Port = Field(
        default=8787, description="Port of the dashboard, behind mutual TLS."
    )
    use_dashboard_https: bool = Field(
        default=False,
        description="Serve the dashboard also over HTTPS, with a token, for people without "
        "terradask (`terradask dashboard --shared`). ingress must admit them to "
        "dashboard_https_port.",
    )
    dashboard_https_port: Port = Field(
        default=8788,
        description="Port of the dashboard over HTTPS, with use_dashboard_https.",
    )
    jupyter: bool = Field(
        default=False,
        description="Run JupyterLab on the scheduler's host, behind mutual TLS (`terradask "
        "jupyter`), and with use_dashboard_https also over HTTPS with its own token. Hosts "
        "need the package jupyterlab.",
    )


#: How a client reaches a scheduler.
Connect = Literal["public", "private", "ssm"]


Sources = Annotated[list[str] | None, BeforeValidator(check_sources)]


class ConnectionSettings(DashboardSettings):
    """How clients reach the scheduler, and which addresses may reach it from outside."""

    connect: Connect | None = Field(
        default=None,
        description="Route to the scheduler: its public address, its private address from "
        "inside the VPC, VPN or peering, or Session Manager (needs network.session_manager and "
        "AWS's plugin). Unset: public.",
        examples=["ssm"],
    )
    use_scheduler_public_ip: bool | None = Field(
        default=None,
        description="Alias of connect: true is 'public', false 'private' or 'ssm'.",
        examples=[True],
    )
    ingress: Ingress | None = Field(
        default=None,
        description="Long form of allow_ingress_from, with ports of your own: rules instead of "
        "network.ingress; without workspace.isolation = 'cluster' they must lie within it. "
        "Unset: as network.ingress.",
        examples=[[{"ports": ["8786-8787"], "cidr": "203.0.113.7/32"}]],
    )
    allow_ingress_from: Sources = Field(
        default=None,
        description="Addresses that may reach the scheduler's and the dashboard's port from "
        "outside: a block such as '203.0.113.7/32', or a list; the argument of Cluster also "
        "accepts 'me'. Unset: as ingress.",
        examples=[["203.0.113.7/32"]],
    )
    allow_ssh: bool = Field(
        default=False,
        description="Also open port 22 of the scheduler's host, to allow_ssh_from; policy P4 "
        "warns. Log in with EC2 Instance Connect, or a key in your image.",
    )
    allow_ssh_from: Sources = Field(
        default=None,
        description="Addresses that may log in, with allow_ssh: a block or a list. Unset: as "
        "allow_ingress_from.",
        examples=[["203.0.113.7/32"]],
    )
    scheduler_port: Port = Field(default=8786, description="Port of the Dask scheduler.")

    @property
    def way(self) -> Connect:
        """How clients reach the scheduler."""
        if self.connect is not None:
            return self.connect
        return "private" if self.use_scheduler_public_ip is False else "public"

    @property
    def ports_for_workers(self) -> tuple[int, int]:
        """First and last of the ports on which workers reach the scheduler."""
        first, last = SCHEDULER_PORTS
        usual = first <= self.scheduler_port <= last
        return SCHEDULER_PORTS if usual else (self.scheduler_port, self.scheduler_port)

    @property
    def own_ingress(self) -> list[IngressRule] | None:
        """Who may reach the scheduler from outside, where the cluster says so itself, in whichever
        words. None: as the network says.
        """
        if self.allow_ingress_from is None:
            rules = None if self.ingress is None else list(self.ingress)
        else:
            first, last = sorted((self.scheduler_port, self.dashboard_port))
            ports: list[int | str] = [f"{first}-{last}"] if last == first + 1 else [first, last]
            ports += [self.dashboard_https_port] if self.use_dashboard_https else []
            rules = [IngressRule(ports=ports, cidr=cidr) for cidr in self.allow_ingress_from]
        return rules

    @property
    def ssh_ingress(self) -> list[IngressRule]:
        """Who may log in at the scheduler's host, beside what the cluster's or the network's rules
        let in.
        """
        sources = (self.allow_ssh_from or self.allow_ingress_from or []) if self.allow_ssh else []
        return [IngressRule(ports=[SSH_PORT], cidr=cidr, description="SSH") for cidr in sources]

    @model_validator(mode="after")
    def _one_way(self) -> ConnectionSettings:
        if (
            None not in (self.connect, self.use_scheduler_public_ip)
            and (self.connect == "public") != self.use_scheduler_public_ip
        ):
            said = str(self.use_scheduler_public_ip).lower()
            raise refuse(
                (
                    f"cluster.connect is {self.connect!r}, but cluster.use_scheduler_public_ip is "
                    f"{said}"
                ),
                allowed="true with 'public', false with 'private' and 'ssm'",
                advice="set only cluster.connect: it covers use_scheduler_public_ip",
            )
        if self.ingress is not None and self.allow_ingress_from is not None:
            raise refuse(
                "cluster.ingress and cluster.allow_ingress_from are both given",
                allowed="one of them",
                advice=(
                    "use ingress for different ports, allow_ingress_from if only addresses matter"
                ),
            )
        if self.scheduler_port == self.dashboard_port:
            raise refuse(
                f"cluster.scheduler_port and cluster.dashboard_port are both {self.scheduler_port}",
                allowed="two ports",
            )
        if self.use_dashboard_https and self.dashboard_https_port in (
            self.scheduler_port,
            self.dashboard_port,
        ):
            raise refuse(
                (
                    f"cluster.dashboard_https_port is {self.dashboard_https_port}, which is "
                    "cluster.scheduler_port or cluster.dashboard_port"
                ),
                allowed="a different port",
            )
        return self

    @model_validator(mode="after")
    def _ssh_from_somewhere(self) -> ConnectionSettings:
        if self.allow_ssh_from is not None and not self.allow_ssh:
            raise refuse(
                "cluster.allow_ssh_from is given without cluster.allow_ssh",
                allowed="both, or neither",
                advice="set allow_ssh = true, or leave allow_ssh_from out",
            )
        if self.allow_ssh and not (self.allow_ssh_from or self.allow_ingress_from):
            raise refuse(
                "cluster.allow_ssh is true, but no setting says from where",
                allowed="with cluster.allow_ssh_from, or cluster.allow_ingress_from",
                advice="name the addresses that you log in from in allow_ssh_from, such as "
                "203.0.113.7/32; Cluster(allow_ssh=True) takes this machine's by itself",
            )
        return self
