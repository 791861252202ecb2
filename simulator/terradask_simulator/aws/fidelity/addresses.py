"""Private addresses are unique and not reused soon; public ones lie in the simulator's own range.

moto gives a freed address to the next instance, while the previous instance's process may still
hold its ports; draws addresses of interfaces without an instance at random, so that they can
collide, and those of interface endpoints from beyond their subnets; raises ``StopIteration`` (an
HTTP 500) when a subnet is full; and draws public addresses from Amazon's real ranges.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install", "public_address_source"]


def public_address_source(cidr: str) -> Callable[[], str]:
    """Return a function that cycles through the addresses of a range."""
    network = ipaddress.IPv4Network(cidr)
    # The first and the last 256 stay free, for guards and for users' own programs.
    first, count = int(network.network_address) + 256, network.num_addresses - 512
    given = 0

    def another() -> str:
        nonlocal given
        address = ipaddress.IPv4Address(first + given % count)
        given += 1
        return str(address)

    return another


def install(public_cidr: str) -> None:
    """Replace moto's address functions."""
    from moto.ec2.models import (
        elastic_ip_addresses,
        elastic_network_interfaces,
        nat_gateways,
        subnets,
        vpcs,
    )

    another = public_address_source(public_cidr)
    elastic_network_interfaces.random_public_ip = another
    elastic_ip_addresses.random_ip = another
    # Then their interfaces take addresses of their subnets.
    nat_gateways.random_private_ip = vpcs.random_private_ip = lambda *_: None

    subnets.Subnet.get_available_subnet_ip = _available_address

    @around(elastic_network_interfaces.NetworkInterfaceBackend, "create_network_interface")
    def create_network_interface(
        create: Any, backend: Any, subnet: Any, private_ip_address: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if (
            not private_ip_address
            and not (args and args[0])
            and not kwargs.get("private_ip_addresses")
        ):
            holder = backend.get_subnet(subnet) if isinstance(subnet, str) else subnet
            if holder is not None and holder.cidr_block:
                private_ip_address = holder.get_available_subnet_ip(None)
        return create(backend, subnet, private_ip_address, *args, **kwargs)


def _available_address(subnet: Any, instance: Any) -> str:
    freed: dict[str, None] = subnet.__dict__.setdefault("_embedded_freed", {})
    freed.update(dict.fromkeys(sorted(subnet._unused_ips - freed.keys())))
    for address in list(freed):
        if address not in subnet._unused_ips:
            del freed[address]
    for candidate in subnet._subnet_ip_generator:
        address = str(candidate)
        if address not in subnet._subnet_ips and candidate != subnet.cidr.broadcast_address:
            break
    else:
        if not freed:
            raise ec2_error(
                "InsufficientFreeAddressesInSubnet",
                (
                    f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the "
                    "requested number of instances."
                ),
            )
        address = next(iter(freed))
        del freed[address]
        subnet._unused_ips.discard(address)
    subnet._subnet_ips[address] = instance
    return address
