"""The firewall: who talks to whom. Closed unless a rule here opens it, and every rule says why it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask_modules.aws import (
    Construct,
    SecurityGroup,
    VpcSecurityGroupEgressRule,
    VpcSecurityGroupIngressRule,
    at,
    literal,
)
from terradask_modules.names import SCHEDULER_PORTS, resource_name
from terradask_modules.network import ANYWHERE, ANYWHERE_IPV6

_HTTPS = (443, 443)
#: No process of a host's binds a lower one.
_UNPRIVILEGED = (1024, 65535)


@dataclass(frozen=True)
class Ingress:
    """Clients at these addresses may reach schedulers on these ports (first and last)."""

    ports: tuple[int, int]
    cidr: str
    description: str


class Firewall(Construct):
    """Security groups of schedulers and workers, and of interface endpoints where there are some.

    Schedulers are reached from the configured addresses and from workers; workers from schedulers and workers alone. Out go
    hosts to the network itself, to S3, and to port 443. In a VPC with other things in it, out to the network itself means to each other.

    Resources created: two or three security groups and their rules, one resource each. They cost nothing.

    Permissions needed: ``ec2:CreateSecurityGroup``, ``AuthorizeSecurityGroupIngress``, ``AuthorizeSecurityGroupEgress``,
    their ``Revoke``, ``Describe`` and ``Delete`` counterparts, ``CreateTags``.

    Parameters
    ----------
    scope
        The stack.
    workspace
        Name of the workspace.
    vpc_id
        The VPC.
    vpc_cidr
        Its block, all of which hosts may reach. None: hosts may reach each other alone, as in a VPC that has other things in it.
    s3_prefix_list_id
        Prefix list of the S3 endpoint. None: S3 is reached as every other service.
    ingress
        Who may reach schedulers.
    internet_for_workers
        Workers may reach port 443 anywhere; pointless where no route leads there.
    endpoints
        Make a group for interface endpoints.
    dual_stack
        Hosts may reach port 443 over IPv6 as well, wherever they may over IPv4.
    tags
        Tags of every group and rule.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        vpc_id: str,
        vpc_cidr: str | None,
        s3_prefix_list_id: str | None,
        ingress: Sequence[Ingress],
        internet_for_workers: bool,
        endpoints: bool,
        dual_stack: bool = False,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "firewall")
        self._workspace = workspace
        self._vpc_id = vpc_id
        self._tags = dict(tags)
        self.scheduler_id = self._group("scheduler", "Dask schedulers")
        self.worker_id = self._group("worker", "Dask workers")
        self._admit_to_scheduler(ingress)
        self._admit_to_workers()
        for role, group_id, internet in (
            ("scheduler", self.scheduler_id, True),
            ("worker", self.worker_id, internet_for_workers),
        ):
            self._let_out_to_network(role, group_id, vpc_cidr, s3_prefix_list_id)
            if internet:
                self._let_out_to_internet(role, group_id, dual_stack)
        self.endpoints_id: str | None = None
        if endpoints:
            self.endpoints_id = self._group("endpoints", "Interface endpoints of AWS services")
            for role, group_id in (("scheduler", self.scheduler_id), ("worker", self.worker_id)):
                self._in(
                    f"endpoints-from-{role}",
                    self.endpoints_id,
                    _HTTPS,
                    f"AWS services, called by {role} hosts",
                    referenced_security_group_id=group_id,
                )

    def _group(self, name: str, description: str) -> str:
        full_name = resource_name(self._workspace, name)
        group = SecurityGroup(
            self,
            name,
            name=full_name,
            description=f"{description} of terradask workspace {self._workspace}",
            vpc_id=self._vpc_id,
            tags={**self._tags, "Name": full_name},
        )
        at(name, group)
        group_id: str = group.id
        return group_id

    def _admit_to_scheduler(self, ingress: Sequence[Ingress]) -> None:
        for rule in ingress:
            first, last = rule.ports
            self._in(
                _address("scheduler-from", rule.cidr, f"{first}-{last}"),
                self.scheduler_id,
                rule.ports,
                literal(rule.description),
                **({"cidr_ipv6": rule.cidr} if ":" in rule.cidr else {"cidr_ipv4": rule.cidr}),
            )
        self._in(
            "scheduler-from-worker",
            self.scheduler_id,
            SCHEDULER_PORTS,
            "Workers join and report to the scheduler",
            referenced_security_group_id=self.worker_id,
        )

    def _admit_to_workers(self) -> None:
        # Dask's workers and nannies choose their ports; between the hosts of one workspace only.
        for source, group_id, why in (
            ("scheduler", self.scheduler_id, "The scheduler gives work to workers"),
            ("worker", self.worker_id, "Workers fetch results from each other"),
        ):
            self._in(
                f"worker-from-{source}",
                self.worker_id,
                _UNPRIVILEGED,
                why,
                referenced_security_group_id=group_id,
            )

    def _let_out_to_network(self, role: str, group_id: str, vpc_cidr: str | None, s3_prefix_list_id: str | None) -> None:
        if vpc_cidr is not None:
            self._out(f"{role}-to-vpc", group_id, None, "Hosts and endpoints in the network", cidr_ipv4=vpc_cidr)
        else:
            for peer, peer_id in (("scheduler", self.scheduler_id), ("worker", self.worker_id)):
                why = f"Dask {peer} hosts of the workspace"
                self._out(f"{role}-to-{peer}", group_id, _UNPRIVILEGED, why, referenced_security_group_id=peer_id)
        if s3_prefix_list_id is not None:
            self._out(
                f"{role}-to-s3",
                group_id,
                _HTTPS,
                "S3 through its gateway endpoint",
                prefix_list_id=s3_prefix_list_id,
            )

    def _let_out_to_internet(self, role: str, group_id: str, dual_stack: bool) -> None:
        self._out(
            f"{role}-to-https",
            group_id,
            _HTTPS,
            "AWS services and package indexes",
            cidr_ipv4=ANYWHERE,
        )
        if dual_stack:
            self._out(f"{role}-to-https-ipv6", group_id, _HTTPS, "AWS services and package indexes, over IPv6", cidr_ipv6=ANYWHERE_IPV6)

    def _in(self, name: str, group_id: str, ports: tuple[int, int], description: str, **peer: Any) -> None:
        first, last = ports
        rule = VpcSecurityGroupIngressRule(
            self,
            f"in-{name}",
            security_group_id=group_id,
            ip_protocol="tcp",
            from_port=first,
            to_port=last,
            description=description,
            tags=self._tags,
            **peer,
        )
        at(name, rule)

    def _out(self, name: str, group_id: str, ports: tuple[int, int] | None, description: str, **peer: Any) -> None:
        span: dict[str, Any] = {"ip_protocol": "-1"}
        if ports is not None:
            span = {"ip_protocol": "tcp", "from_port": ports[0], "to_port": ports[1]}
        rule = VpcSecurityGroupEgressRule(
            self,
            f"out-{name}",
            security_group_id=group_id,
            description=description,
            tags=self._tags,
            **span,
            **peer,
        )
        at(name, rule)


def _address(prefix: str, cidr: str, ports: str) -> str:
    """Return an address made of the rule itself: the order of rules in the settings then means nothing."""
    plain = "".join(character if character.isalnum() else "_" for character in cidr)
    return f"{prefix}-{plain}-{ports}"
