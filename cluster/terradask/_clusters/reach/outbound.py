"""Whether the rules of a deployed network let hosts out to an address. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Literal

from terradask_modules.egress import Egress, rules_to
from terradask_modules.ingress import EVERY_PORT

if TYPE_CHECKING:
    from terradask._network.baseline import Baseline

#: Whether rules allow something; "maybe" where they name a security group or a prefix list, whose
#: addresses aren't known here.
Answer = Literal["yes", "no", "maybe"]

_HTTPS = 443


def lets_out(baseline: Baseline, cluster: str, address: str, port: int) -> Answer:
    """Return whether the network's rules let a cluster's worker's host out to a port of an
    address.
    """
    if "security_groups" in baseline.given:
        return "maybe"
    found = set(_answers(baseline, cluster, ip_address(address), port))
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def rules_let_out(baseline: Baseline, rules: Iterable[Egress], address: str, port: int) -> Answer:
    """Return whether rules of a host's security groups let it out to a port of an address.

    In groups of terradask, rules for groups that the settings don't name are for other hosts.
    """
    if "security_groups" not in baseline.given:
        named = {rule.destination.rpartition("/")[2] for rule in baseline.egress}
        rules = [rule for rule in rules if not rule.is_group or rule.destination in named]
    found = rules_to(rules, ip_address(address), port)
    if not found:
        return "no"
    return "maybe" if found[0].network is None else "yes"


def read_rules(found: Iterable[Mapping[str, Any]]) -> list[Egress]:
    """Return the outbound rules for TCP in EC2's ``SecurityGroupRules``."""
    rules = []
    for one in found:
        group = one.get("ReferencedGroupInfo", {}).get("GroupId")
        peer = one.get("CidrIpv4") or one.get("CidrIpv6") or one.get("PrefixListId") or group
        if one.get("IsEgress") and peer and one.get("IpProtocol") in ("tcp", "6", "-1"):
            every = one["IpProtocol"] == "-1"
            ports = EVERY_PORT if every else (int(one["FromPort"]), int(one["ToPort"]))
            rules.append(Egress(str(peer), ports, str(one.get("Description", ""))))
    return rules


def _answers(
    baseline: Baseline, cluster: str, address: IPv4Address | IPv6Address, port: int
) -> Iterator[Answer]:
    blocks = [baseline.vpc_cidr]
    for rule in rules_to(baseline.egress, address, port, cluster=cluster, vpc_blocks=blocks):
        yield "maybe" if rule.network is None else "yes"
    if "vpc" in baseline.given or baseline.isolation == "cluster":
        # Hosts reach each other, by their groups.
        yield "no"
    elif address in ip_network(baseline.vpc_cidr):
        yield "yes"
    if port == _HTTPS:
        yield "yes" if has_internet(baseline) else "maybe"


def has_internet(baseline: Baseline) -> bool:
    """Return whether the network gives workers' hosts a route to the internet."""
    return baseline.nat != "none" or baseline.public_workers


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def is_private(address: str) -> bool:
    """Return whether an address is reached without the internet."""
    return ip_address(address).is_private
