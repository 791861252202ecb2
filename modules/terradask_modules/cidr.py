"""CIDR arithmetic: the zones' subnets within the network's block. Imports no construct.

The block is cut into equal stretches, one for each slot. A stretch starts with the private subnet;
the public subnet follows it, so that both are aligned::

    10.64.0.0/16  slot 0: 10.64.0.0/20 private, 10.64.16.0/24 public  slot 1: 10.64.32.0/20 …

A zone keeps its slot for ever (in the lock file), so adding a zone moves no subnet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from terradask_modules.errors import InvalidInput

#: AWS (documented): EC2 reserves the first four addresses and the last of every subnet, and makes
#: subnets from /16 to /28. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSubnet.html
AWS_RESERVED_ADDRESSES = 5
MAX_SUBNET_PREFIX_LENGTH = 28


@dataclass(frozen=True)
class ZoneCidrs:
    """The blocks of one zone's subnets."""

    public: str
    private: str


def usable_addresses(prefix_length: int) -> int:
    """Return the number of hosts' addresses in a subnet of this size: five are reserved."""
    return int(2 ** (32 - prefix_length)) - AWS_RESERVED_ADDRESSES


def slot_prefix_length(public_prefix_length: int, private_prefix_length: int) -> int:
    """Return the prefix length of one zone's stretch: twice its larger subnet."""
    return min(public_prefix_length, private_prefix_length) - 1


def slot_count(cidr: str, *, public_prefix_length: int, private_prefix_length: int) -> int:
    """Return how many zones fit into a network's block, or zero."""
    network = IPv4Network(cidr)
    spare_bits = slot_prefix_length(public_prefix_length, private_prefix_length) - network.prefixlen
    return int(2**spare_bits) if spare_bits >= 0 else 0


def zone_cidrs(
    cidr: str, *, public_prefix_length: int, private_prefix_length: int, slots: Mapping[str, int]
) -> dict[str, ZoneCidrs]:
    """Return the blocks of each zone's public and private subnet, ordered by zone name. No two
    overlap, and a zone's blocks depend on its own slot alone.

    Raises `InvalidInput` if a slot is taken twice or lies outside the network's block.
    """
    _check_slots(cidr, public_prefix_length, private_prefix_length, slots)
    network = IPv4Network(cidr)
    first = int(network.network_address)
    stretch = int(2 ** (32 - slot_prefix_length(public_prefix_length, private_prefix_length)))
    placed: dict[str, ZoneCidrs] = {}
    for zone, slot in sorted(slots.items()):
        start = first + slot * stretch
        larger, smaller = start, start + stretch // 2
        private_first = private_prefix_length <= public_prefix_length
        private, public = (larger, smaller) if private_first else (smaller, larger)
        placed[zone] = ZoneCidrs(
            public=str(IPv4Network((public, public_prefix_length))),
            private=str(IPv4Network((private, private_prefix_length))),
        )
    return placed


def _check_slots(
    cidr: str, public_prefix_length: int, private_prefix_length: int, slots: Mapping[str, int]
) -> None:
    available = slot_count(
        cidr, public_prefix_length=public_prefix_length, private_prefix_length=private_prefix_length
    )
    if len(set(slots.values())) != len(slots):
        raise InvalidInput(
            "two zones share one slot",
            given=dict(sorted(slots.items())),
            allowed="a slot for each zone",
        )
    outside = sorted(zone for zone, slot in slots.items() if not 0 <= slot < available)
    if outside:
        raise InvalidInput(
            f"the network's block {cidr} has no space for zone {', '.join(outside)}",
            given=(
                f"subnets of /{public_prefix_length} (public) and /{private_prefix_length} "
                f"(private), zones {', '.join(sorted(slots))}"
            ),
            allowed=f"{available} zones with these sizes",
            advice="use a larger network.cidr, longer network.public_subnet_prefix_length and "
            "network.private_subnet_prefix_length, or name fewer network.zones",
        )
