"""Destinations of hosts beside port 443 and their network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_modules.egress import Egress
from terradask_modules.ingress import EVERYWHERE, parse_ports
from terradask_stacks.settings.base import ClusterNames, Section
from terradask_stacks.settings.ingress import RULE_DESCRIPTION
from terradask_stacks.validators.addresses import (
    check_destination,
    check_gateway,
    check_ports,
    check_route,
    is_anywhere,
)
from terradask_stacks.validators.refusal import refuse

_HTTPS = (443, 443)


class EgressRule(Section):
    """A rule of ``network.egress``: a destination that tasks on hosts reach, such as a database."""

    destination: Annotated[str, AfterValidator(check_destination)] = Field(
        description="Addresses (10.1.0.0/16, 2001:db8::/56), a security group (sg-…, or "
        "ACCOUNT/sg-… in a peered VPC of another account), a prefix list (pl-…), or 'vpc', the "
        "blocks of the network's own VPC."
    )
    ports: list[Annotated[int | str, BeforeValidator(check_ports)]] = Field(
        min_length=1, description="Ports or ranges of ports, such as 5432 or '8000-8100'."
    )
    protocol: Literal["tcp", "udp"] = Field(default="tcp", description="Protocol of the ports.")
    reason: str = Field(
        pattern=RULE_DESCRIPTION,
        description="Purpose of the rule; AWS shows it, and so do plans.",
    )
    clusters: ClusterNames | None = Field(
        default=None,
        min_length=1,
        description="Names of the clusters whose hosts may, with workspace.isolation = 'cluster'. "
        "Unset: all clusters.",
    )

    @model_validator(mode="before")
    @classmethod
    def _has_a_reason(cls, value: Any) -> Any:
        if isinstance(value, dict) and not str(value.get("reason") or "").strip():
            destination = value.get("destination")
            whole = destination in EVERYWHERE
            raise refuse(
                f"the rule to {destination}{', the whole internet,' if whole else ''} has no "
                "reason",
                allowed="1 to 255 letters, digits, spaces and ._-:/()#,@[]+=&;{}!$*",
                advice='add what the rule is for, which a reviewer reads: reason = "orders '
                'database"',
            )
        return value

    @property
    def rules(self) -> list[Egress]:
        """One rule for each range of ports."""
        return [
            Egress(
                destination=self.destination,
                ports=parse_ports(ports),
                reason=self.reason,
                protocol=self.protocol,
                clusters=tuple(self.clusters or ()),
            )
            for ports in self.ports
        ]


def _rules_differ(rules: list[EgressRule]) -> list[EgressRule]:
    seen: dict[str, list[set[str]]] = {}
    for rule in (each for one in rules for each in one.rules):
        clusters = set(rule.clusters)
        for others in seen.setdefault(str(rule), []):
            if not clusters or not others or clusters & others:
                raise refuse(
                    f"{rule} is given twice, which AWS refuses",
                    allowed="each destination, protocol and ports once for a cluster",
                )
        seen[str(rule)].append(clusters)
    return rules


class EgressSettings(Section):
    """A network's settings for destinations of its hosts."""

    egress: Annotated[list[EgressRule], AfterValidator(_rules_differ)] = Field(
        default=[],
        description="Destinations of hosts beside port 443 and the network itself, such as "
        "databases, each with its reason.",
        examples=[[{"destination": "10.1.0.0/16", "ports": [5432], "reason": "orders database"}]],
    )

    routes: dict[
        Annotated[str, AfterValidator(check_route)], Annotated[str, AfterValidator(check_gateway)]
    ] = Field(
        default={},
        description="Routes of the network's own VPC to peered networks: block -> peering "
        "connection (pcx-…) or transit gateway (tgw-…). Rules of egress open their ports.",
        examples=[{"10.1.0.0/16": "pcx-0123456789abcdef0"}],
    )

    @property
    def all_egress(self) -> tuple[Egress, ...]:
        """The rules for security groups, all that follow from other settings included."""
        return tuple(rule for one in self.egress for rule in one.rules)


def check_egress_rules(
    rules: Iterable[Egress],
    routes: Iterable[str],
    *,
    isolated: bool,
    has_ipv6: bool,
    lets_out_to_https: bool,
) -> None:
    """Refuse rules that have no effect, or that each network has already."""
    ipv6 = next((block for block in routes if ":" in block), None)
    if ipv6 is not None and not has_ipv6:
        raise refuse(
            f"network.routes names {ipv6}, and hosts have no IPv6 address",
            allowed="IPv4 blocks, or network.dual_stack = true",
        )
    for rule in rules:
        if rule.clusters and not isolated:
            raise refuse(
                f"network.egress lets hosts of {', '.join(rule.clusters)} alone reach "
                f"{rule.destination}, and all clusters of this workspace share security groups",
                allowed='clusters with workspace.isolation = "cluster", or rules for all clusters',
                advice='set workspace.isolation = "cluster", or leave clusters out of the rule',
            )
        if rule.is_ipv6 and not has_ipv6:
            raise refuse(
                f"network.egress names {rule.destination}, and hosts have no IPv6 address",
                allowed="IPv4 blocks, or network.dual_stack = true",
                advice="set network.dual_stack = true, or name the IPv4 addresses",
            )
        if (
            lets_out_to_https
            and (rule.protocol, rule.ports) == ("tcp", _HTTPS)
            and rule.network is not None
            and is_anywhere(rule.destination)
        ):
            raise refuse(
                f"network.egress has {rule}, which every network lets its hosts reach",
                allowed="other ports, or other destinations",
                advice="leave the rule out; routes are network.nat's, not a rule's",
            )
