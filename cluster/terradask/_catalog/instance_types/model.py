"""Instance types of a region in AWS's description, and the available ones by price and market.
Pure.

AWS (documented): An EC2 instance type's name has its series, generation, options and size.
https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, get_args

from terradask.errors import InvalidInput
from terradask_modules.markets import Market
from terradask_stacks.hardware.architecture import Architecture

# Series, generation, attributes, and the part after a dash: `c7gn`, `m7i-flex`, `u7in-16tb`,
# `p6-b200`, `mac2-m2pro`. Older high-memory types end with their generation (`u-6tb1`), newer
# Macs have none (`mac-m4`).
_FAMILIES = (
    re.compile(r"(?P<series>[a-z]+)(?P<generation>\d+)(?P<attributes>[a-z]*)(?:-(?P<variant>.+))?"),
    re.compile(r"(?P<series>u)-(?P<variant>\d+tb)(?P<generation>\d+)"),
    re.compile(r"(?P<series>[a-z]+)-(?P<variant>.+)"),
)


class TypeName(NamedTuple):
    """The parts of an instance type's name."""

    family: str
    size: str
    series: str
    generation: int
    attributes: str
    variant: str


@functools.cache
def parse_name(name: str) -> TypeName:
    """Parse a type's name; one outside AWS's conventions is its own series."""
    family, _, size = name.partition(".")
    parts = next(
        (match.groupdict("") for pattern in _FAMILIES if (match := pattern.fullmatch(family))),
        {"series": family},
    )
    return TypeName(
        family,
        size,
        parts["series"],
        int(parts.get("generation", 0)),
        parts.get("attributes", ""),
        parts.get("variant", ""),
    )


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of an instance type, all of one kind.

    Parameters
    ----------
    count
        Number of devices. A share of a GPU counts as one, with its own memory.
    name
        AWS's name of the model, such as ``A10G`` or ``T4``.
    manufacturer
        Such as ``NVIDIA``.
    memory_mib
        Memory of each, in MiB.
    share
        The part of a GPU that each is: 1 for full ones, 0.125 in ``g6f.large``.
    """

    count: int
    name: str
    manufacturer: str
    memory_mib: int
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type.

    Parameters
    ----------
    name
        Such as ``m6i.xlarge``.
    vcpus
        Virtual CPUs, which Dask counts as cores: mostly threads, two for a physical core.
    memory_mib
        Memory, in MiB.
    architecture
        ``x86_64`` or ``arm64``.
    network
        Speed of the network in AWS's words, such as ``Up to 12.5 Gigabit``.
    local_disk_gb
        Size of all local disks together, in GB; 0 without.
    gpus
        The GPUs; None without.
    bare_metal
        Whether it has no hypervisor, which makes starts slow.
    burstable
        Whether it is slower when its CPU credits are used up.
    current_generation
        Whether AWS counts it as current.
    spot, on_demand
        Whether AWS sells it on this market.
    cluster_placement
        Whether it supports the placement strategy `cluster`.
    """

    name: str
    vcpus: int
    memory_mib: int
    architecture: Architecture
    network: str = ""
    local_disk_gb: int = 0
    gpus: Gpus | None = None
    bare_metal: bool = False
    burstable: bool = False
    current_generation: bool = True
    spot: bool = True
    on_demand: bool = True
    cluster_placement: bool = True

    @property
    def family(self) -> str:
        """Part of the name before the point: ``m6i``, ``m7i-flex``."""
        return parse_name(self.name).family

    @property
    def size(self) -> str:
        """Part of the name after the point: ``xlarge``."""
        return parse_name(self.name).size

    @property
    def series(self) -> str:
        """First letters of the family: ``m``."""
        return parse_name(self.name).series

    @property
    def generation(self) -> int:
        """Number of the family: 6; 0 without one."""
        return parse_name(self.name).generation

    @property
    def attributes(self) -> str:
        """Letters after the family's number: ``i`` of ``m6i``, ``gn`` of ``c7gn``."""
        return parse_name(self.name).attributes

    @property
    def variant(self) -> str:
        """Part of the family after a dash: ``flex`` of ``m7i-flex``; mostly empty."""
        return parse_name(self.name).variant

    @property
    def memory_gib(self) -> float:
        """Memory, in GiB."""
        return self.memory_mib / 1024


@dataclass(frozen=True)
class Catalog:
    """The instance types of a region that Linux runs on."""

    region: str
    types: Mapping[str, InstanceType]
    #: Availability zone -> names of the types that AWS offers there.
    zones: Mapping[str, frozenset[str]]
    #: Time of AWS's answer, UTC.
    fetched_at: datetime

    def zones_with(self, name: str) -> tuple[str, ...]:
        """Return the zones in which AWS offers a type, sorted."""
        return tuple(sorted(zone for zone, offered in self.zones.items() if name in offered))


def read_types(described: Iterable[Mapping[str, Any]]) -> dict[str, InstanceType]:
    """Read the types in the answer of ``DescribeInstanceTypes`` that run Linux."""
    found = (_sound(one) for one in described)
    return {one.name: one for one in found if one is not None}


def _sound(described: Any) -> InstanceType | None:
    """Read a type; None if AWS's description isn't as documented."""
    try:
        found = read_type(described)
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return None
    if (
        found is None
        or not isinstance(found.name, str)
        or not all(type(n) is int for n in (found.vcpus, found.memory_mib))
    ):
        return None
    return found


def read_type(described: Mapping[str, Any]) -> InstanceType | None:
    """Read a type of ``DescribeInstanceTypes``; None for one without Linux."""
    supported = described.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
    architecture: Architecture | None = next(
        (known for known in get_args(Architecture) if known in supported), None
    )
    if architecture is None:
        return None
    usage = described.get("SupportedUsageClasses", ())
    return InstanceType(
        name=described["InstanceType"],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_mib=described["MemoryInfo"]["SizeInMiB"],
        architecture=architecture,
        network=described.get("NetworkInfo", {}).get("NetworkPerformance", ""),
        local_disk_gb=described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        gpus=_gpus(described.get("GpuInfo", {}).get("Gpus", ())),
        bare_metal=described.get("BareMetal", False),
        burstable=described.get("BurstablePerformanceSupported", False),
        current_generation=described.get("CurrentGeneration", False),
        spot="spot" in usage,
        on_demand="on-demand" in usage,
        cluster_placement="cluster"
        in described.get("PlacementGroupInfo", {}).get("SupportedStrategies", ()),
    )


def _gpus(described: Iterable[Mapping[str, Any]]) -> Gpus | None:
    """Return the GPUs: of the kind with the most memory, though no type has two kinds."""
    found = [
        Gpus(
            # A share of a GPU has a count of 0.
            count=one.get("LogicalGpuCount") or one.get("Count") or 0,
            name=one.get("Name", ""),
            manufacturer=one.get("Manufacturer", ""),
            memory_mib=one.get("MemoryInfo", {}).get("SizeInMiB", 0),
            share=float(one.get("GpuPartitionSize", 1)),
        )
        for one in described
    ]
    return max(
        (one for one in found if one.count),
        key=lambda one: one.count * one.memory_mib,
        default=None,
    )


@dataclass(frozen=True)
class Supply:
    """The available types. Made by `Supply.of`."""

    catalog: Catalog
    #: On-demand price in US dollars per hour by type; missing if unknown.
    prices: Mapping[str, Decimal]
    #: Zones of which one must offer a type. Empty: any in the region.
    zones: tuple[str, ...]
    #: Markets on which a type must be sold.
    markets: frozenset[Market]
    #: Names of the types that `zones` offer; None if `zones` is empty.
    offered: frozenset[str] | None

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        prices: Mapping[str, Decimal] | None = None,
        *,
        zones: Iterable[str] | None = None,
        markets: Iterable[Market] = ("on-demand",),
    ) -> Supply:
        """Build the supply. Raises `InvalidInput`."""
        wanted = tuple(zones or ())
        unknown = [zone for zone in wanted if zone not in catalog.zones]
        if unknown:
            raise InvalidInput(
                f"{catalog.region} has no such zone for this account",
                given=", ".join(unknown),
                allowed=", ".join(sorted(catalog.zones)),
                advice="choose one of these",
            )
        offered = frozenset().union(*(catalog.zones[zone] for zone in wanted)) if wanted else None
        return cls(catalog, prices or {}, wanted, frozenset(markets), offered)

    @cached_property
    def ranked(self) -> tuple[InstanceType, ...]:
        """The region's types in order of preference."""
        return tuple(sorted(self.catalog.types.values(), key=self.rank))

    @property
    def where(self) -> str:
        """The zones, or the region, in words."""
        *others, last = self.zones or (self.catalog.region,)
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def how(self) -> str:
        """The required markets in words: ``on demand``, ``on spot``, or both."""
        return " and ".join(
            "on demand" if market == "on-demand" else "on spot" for market in sorted(self.markets)
        )

    def has(self, name: str) -> bool:
        """Return whether the zones offer a type."""
        return self.offered is None or name in self.offered

    def sells(self, one: InstanceType) -> bool:
        """Return whether a type is sold on all required markets."""
        return (one.on_demand or "on-demand" not in self.markets) and (
            one.spot or "spot" not in self.markets
        )

    def rank(self, one: InstanceType) -> tuple[bool, Decimal, int, int, int, str]:
        """Return a type's sort key: price, newer generation, name; unpriced types last."""
        price = self.prices.get(one.name)
        if price is None:
            return (True, Decimal(), one.vcpus, one.memory_mib, -one.generation, one.name)
        return (False, price, 0, 0, -one.generation, one.name)
