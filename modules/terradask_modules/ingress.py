"""Ports and addresses in the form of security groups' rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from terradask_modules.names import LOWEST_PORT, SCHEDULER_PORTS

#: The first and the last.
Ports = tuple[int, int]
Network = IPv4Network | IPv6Network

EVERY_PORT: Ports = (0, 65535)
ANYWHERE, ANYWHERE_IPV6 = "0.0.0.0/0", "::/0"
#: The blocks of the whole internet.
EVERYWHERE = (ANYWHERE, ANYWHERE_IPV6)
SSH_PORT = 22


@dataclass(frozen=True)
class Ingress:
    """Clients at these addresses may reach schedulers on these ports."""

    ports: Ports
    cidr: str
    description: str

    def __str__(self) -> str:
        return f"{ports_text(self.ports)} from {self.cidr}"


def parse_ports(ports: int | str) -> Ports:
    """Read a port, or a range such as ``8786-8787``."""
    first, _, last = str(ports).partition("-")
    return int(first), int(last or first)


def ports_text(ports: Ports) -> str:
    """Return ports in `parse_ports`'s form."""
    first, last = ports
    return str(first) if first == last else f"{first}-{last}"


def first_closed(ports: Ports, spans: Iterable[Ports]) -> int | None:
    """Return the first of some ports that is in none of the spans, or None."""
    first, last = ports
    for low, high in sorted(spans):
        if low <= first:
            first = max(first, high + 1)
    return first if first <= last else None


def shared_scheduler_ports(opened: Iterable[Ports]) -> list[Ports]:
    """Return the ports on which workers reach schedulers that share a group, never SSH's.

    The usual ones come first, then those that are opened to clients.
    """
    low, high = SCHEDULER_PORTS
    found: list[Ports] = []
    for first, last in sorted(opened):
        for lowest, end in ((first, min(last, low - 1)), (max(first, high + 1), last)):
            start = max(lowest, LOWEST_PORT, found[-1][1] + 1 if found else 0)
            if start <= end:
                found.append((start, end))
    return [SCHEDULER_PORTS, *found]


def is_within(inner: Network, outer: Network) -> bool:
    """Return whether a block of addresses is in another."""
    if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network):
        return inner.subnet_of(outer)
    return (
        isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network) and inner.subnet_of(outer)
    )
