"""Blocks of addresses, and ports."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Network, IPv6Network, NetmaskValueError, ip_network
from typing import Any

from terradask_modules.egress import VPC
from terradask_stacks.validators.refusal import matching, refuse, unique

#: The word for the caller's address, which differs on every machine.
ME = "me"

_GROUP = re.compile(r"([0-9]{12}/)?sg-([0-9a-f]{8}|[0-9a-f]{17})")
_PREFIX_LIST = re.compile(r"pl-([0-9a-f]{8}|[0-9a-f]{17})")
_GATEWAY = r"(pcx|tgw)-([0-9a-f]{8}|[0-9a-f]{17})"
_PORTS = re.compile(r"^([0-9]{1,5})(?:-([0-9]{1,5}))?$")
_NETWORK_PREFIXES = (16, 24)


def check_network_cidr(cidr: str) -> str:
    """Return a network's block: strict, IPv4, /16 to /24, and not reserved by AWS."""
    try:
        network = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise refuse(
            f"{cidr!r} is not an IPv4 block: {error}",
            allowed="a block such as 10.64.0.0/16, without host bits",
        ) from error
    low, high = _NETWORK_PREFIXES
    if "/" not in cidr or not low <= network.prefixlen <= high:
        raise refuse(f"{cidr!r} has the wrong size", allowed=f"/{low} (AWS's largest) to /{high}")
    if network.is_link_local or network.is_multicast or network.network_address.packed[0] == 0:
        raise refuse(
            f"{cidr!r} can't be used in a network",
            allowed="private addresses: in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16",
        )
    return cidr


def check_ports(value: Any) -> int | str:
    """Return a port or a range ``a-b``."""
    match = None if isinstance(value, bool) else _PORTS.fullmatch(str(value))
    bounds = [int(part) for part in match.groups() if part is not None] if match else []
    if not bounds or not 1 <= bounds[0] <= bounds[-1] <= 65535:
        raise refuse(
            f"{value!r} is not a port",
            allowed="a port from 1 to 65535, or a range such as '8786-8787'",
        )
    return bounds[0] if len(bounds) == 1 else f"{bounds[0]}-{bounds[1]}"


def check_ingress_cidr(cidr: str) -> str:
    """Return a normalized address block; `is_anywhere` detects the whole internet."""
    try:
        network: IPv4Network | IPv6Network = ip_network(cidr)
    except ValueError as error:
        raise refuse(
            f"{cidr!r} is not a CIDR block: {error}",
            allowed="a block such as 203.0.113.7/32 or 2001:db8::/56, without host bits",
        ) from error
    return str(network)


def check_destination(value: str) -> str:
    """Return a destination of hosts: a normalized block, a group, a prefix list, or ``vpc``."""
    if value == VPC or _GROUP.fullmatch(value) or _PREFIX_LIST.fullmatch(value):
        return value
    try:
        return str(ip_network(value))
    except ValueError as error:
        raise refuse(
            f"{value!r} is not a destination: {error}",
            allowed="a block such as 10.1.0.0/16 or 2001:db8::/56, without host bits; a security "
            "group, sg-… or ACCOUNT/sg-…; a prefix list, pl-…; or 'vpc'",
            advice="security groups know no names: for a host's name, give the block or the "
            "security group of what it resolves to",
        ) from error


check_gateway = matching(
    _GATEWAY,
    "a peering connection or a transit gateway",
    "pcx- or tgw-, and 8 or 17 hexadecimal digits",
)


def check_route(cidr: str) -> str:
    """Return the normalized block of a route to another network."""
    block = check_ingress_cidr(cidr)
    if is_anywhere(block):
        raise refuse(
            f"{block} is the default route, which network.nat makes",
            allowed="blocks of other networks, such as 10.1.0.0/16",
            advice="name the blocks of the peered networks",
        )
    return block


def check_sources(value: Any) -> list[str] | None:
    """Return address blocks from one or a list; None stays None."""
    if value is None:
        return None
    blocks = [value] if isinstance(value, str) else value
    allowed = "a block such as '203.0.113.7/32', or a list of them"
    if not isinstance(blocks, (list, tuple)) or not all(isinstance(block, str) for block in blocks):
        raise refuse(f"{value!r} is not an address block", allowed=allowed)
    if ME in blocks:
        raise refuse(
            "'me' is another address on every machine, and settings mean the same everywhere",
            allowed=allowed,
            advice=(
                "write your address as a block, such as 203.0.113.7/32; "
                "Cluster(allow_ingress_from='me') looks it up when it is called"
            ),
        )
    if "everyone" in blocks:
        raise refuse(
            "'everyone' is not an address block",
            allowed=allowed,
            advice=(
                "name the addresses that your clients come from: Dask runs any code that a "
                "client sends"
            ),
        )
    return unique([check_ingress_cidr(block) for block in blocks])


def is_anywhere(cidr: str) -> bool:
    """Return whether a block is the whole internet."""
    return ip_network(cidr).prefixlen == 0
