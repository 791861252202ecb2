"""Ways out of hosts, beside port 443 and their network: destinations and ports that the settings
name. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_network

from terradask_modules.ingress import Network, Ports, is_within, ports_text

#: The destination that stands for the blocks of the network's VPC.
VPC = "vpc"
#: The IPv6 block of a VPC that terradask makes: AWS chooses it.
VPC_IPV6 = "vpc-ipv6"


@dataclass(frozen=True)
class Egress:
    """Hosts may reach these ports of a destination."""

    #: A CIDR block, ``sg-…``, ``ACCOUNT/sg-…``, ``pl-…``, or ``vpc``.
    destination: str
    #: The first and the last.
    ports: Ports
    #: Why; AWS shows it.
    reason: str
    #: ``tcp`` or ``udp``.
    protocol: str = "tcp"
    #: The isolated clusters whose hosts may. Empty: those of all clusters.
    clusters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.protocol} {ports_text(self.ports)} to {self.destination}"

    @property
    def network(self) -> Network | None:
        """The block of addresses; None for groups, prefix lists and ``vpc``."""
        return ip_network(self.destination) if "." in self.destination or self.is_ipv6 else None

    @property
    def is_ipv6(self) -> bool:
        """Whether the destination is an IPv6 block."""
        return ":" in self.destination

    @property
    def is_group(self) -> bool:
        """Whether the destination is a security group."""
        return self.destination.rpartition("/")[2].startswith("sg-")

    @property
    def is_prefix_list(self) -> bool:
        """Whether the destination is a prefix list."""
        return self.destination.startswith("pl-")


def in_vpc(rules: Iterable[Egress], blocks: Sequence[str]) -> list[Egress]:
    """Return rules in which the VPC's blocks replace ``vpc``."""
    return [
        replace(rule, destination=block)
        for rule in rules
        for block in (blocks if rule.destination == VPC else (rule.destination,))
    ]


def rules_of(rules: Iterable[Egress], cluster: str | None = None) -> list[Egress]:
    """Return the rules of the group for all clusters' hosts, or of the one for a single cluster's.

    A rule is in a group once, whatever its reason: the first one counts.

    AWS (documented, sg-duplicates): EC2 refuses a security group's second equal rule with
    InvalidPermission.Duplicate.
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
    """
    found: dict[str, Egress] = {}
    for rule in rules:
        if cluster in rule.clusters if cluster else not rule.clusters:
            found.setdefault(str(rule), rule)
    return list(found.values())


def named_clusters(rules: Iterable[Egress]) -> list[str]:
    """Return the clusters that have rules of their own."""
    return sorted({cluster for rule in rules for cluster in rule.clusters})


def outside_group(cluster: str) -> str:
    """Return the name of the network's group for destinations of one isolated cluster alone."""
    return f"hosts-{cluster}"


def rules_to(
    rules: Iterable[Egress],
    address: IPv4Address | IPv6Address,
    port: int,
    *,
    protocol: str = "tcp",
    cluster: str = "",
    vpc_blocks: Sequence[str] = (),
) -> list[Egress]:
    """Return the rules that let a cluster's hosts out to a port of an address: first those whose
    block has the address. One for a group or a prefix list may: its members aren't known here.
    """
    target = ip_network(address)
    found = [
        rule
        for rule in in_vpc(rules, vpc_blocks)
        if rule.protocol == protocol
        and rule.ports[0] <= port <= rule.ports[1]
        and (not rule.clusters or cluster in rule.clusters)
        and (rule.network is None or is_within(target, rule.network))
    ]
    return sorted(found, key=lambda rule: rule.network is None)
