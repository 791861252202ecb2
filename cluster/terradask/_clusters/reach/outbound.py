"""Whether the rules of a deployed network let hosts out to an address. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Literal

from terradask_modules.egress import Egress, rules_to

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


def _answers(
    baseline: Baseline, cluster: str, address: IPv4Address | IPv6Address, port: int
) -> Iterator[Answer]:
    rules = [Egress(**one.model_dump()) for one in baseline.egress]
    for rule in rules_to(rules, address, port, cluster=cluster, vpc_blocks=[baseline.vpc_cidr]):
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


def is_private(address: str) -> bool:
    """Return whether an address is reached without the internet."""
    return ip_address(address).is_private
