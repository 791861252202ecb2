"""Rules for addresses that somebody is let in from: each function returns the value or raises with what is allowed."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from terradask_stacks.rules import refuse, unique

#: The word for the address of whoever asks, which means something else on every machine.
ME = "me"


def check_ingress_cidr(cidr: str) -> str:
    """Return an address block, as it is written best; the whole internet is told apart by `is_anywhere`."""
    try:
        network: IPv4Network | IPv6Network = ip_network(cidr)
    except ValueError as error:
        raise refuse(
            f"{cidr!r} is no CIDR block: {error}",
            allowed="a block such as 203.0.113.7/32 or 2001:db8::/56, without host bits",
        ) from error
    return str(network)


def check_sources(value: Any) -> list[str] | None:
    """Return address blocks, given as one or as a list; None stays None."""
    if value is None:
        return None
    blocks = [value] if isinstance(value, str) else value
    allowed = "a block such as '203.0.113.7/32', or a list of them"
    if not isinstance(blocks, (list, tuple)) or not all(isinstance(block, str) for block in blocks):
        raise refuse(f"{value!r} is no address block", allowed=allowed)
    if ME in blocks:
        raise refuse(
            "'me' is another address on every machine, and settings mean the same everywhere",
            allowed=allowed,
            advice="write your address as a block, such as 203.0.113.7/32; Cluster(allow_ingress_from='me') looks it up where it is called",
        )
    if "everyone" in blocks:
        raise refuse(
            "'everyone' is no address block",
            allowed=allowed,
            advice="name the addresses that your clients come from: Dask runs whatever code a client sends",
        )
    return unique([check_ingress_cidr(block) for block in blocks])


def is_anywhere(cidr: str) -> bool:
    """Tell whether a block is the whole internet."""
    return ip_network(cidr).prefixlen == 0
