"""Zones, what they offer, and what AWS tells of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from terradask._catalog.instance_types.choose import Choice, choose
from terradask._catalog.instance_types.model import Supply
from terradask._catalog.instance_types.zones import ZoneFailure, ZoneOffer
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_facts import catalog

A, B, C = ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")

#: Named types are usable where all of them are.
TYPES = ("m6i.xlarge", "m5.xlarge", "m6a.xlarge")
ON_DEMAND, SPOT, BOTH = (
    frozenset({"on-demand"}),
    frozenset({"spot"}),
    frozenset({"spot", "on-demand"}),
)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NO_CAPACITY = LaunchProblem("InsufficientInstanceCapacity", "none", "m6i.xlarge")
NO_SPOT = LaunchProblem("UnfulfillableCapacity", "none")
NO_QUOTA = LaunchProblem("VcpuLimitExceeded", "too many")
NO_ADDRESS = LaunchProblem("InsufficientFreeAddressesInSubnet", "none free")


def in_order(names: tuple[str, ...]) -> Choice:
    """An ask of which these types, in this order, came out."""
    named = choose(HardwareRequest.of(vm_types=list(names)), Supply.of(catalog()))
    return replace(named, request=HardwareRequest.of(cpu=4))


def offering(**offered: tuple[str, ...]) -> Any:
    return replace(
        catalog(), zones={f"us-east-1{zone}": frozenset(names) for zone, names in offered.items()}
    )


def failed_in(
    zone: str, problem: LaunchProblem = NO_CAPACITY, market: Any = "on-demand"
) -> ZoneFailure:
    return ZoneFailure(zone, market, problem)


def usd_of(**each: str) -> dict[str, dict[str, Decimal]]:
    return {
        f"us-east-1{zone}": {name: Decimal(usd) for name in TYPES} for zone, usd in each.items()
    }


def order_of(offers: list[ZoneOffer]) -> str:
    return "".join(offer.zone[-1] for offer in offers if offer.usable)
