"""Load the catalog of a region's instance types, and list them with their zones and prices."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from terradask._aws.endpoints import cache_name, own_cache
from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._catalog.instance_types.constraints import known_gpu, model_key
from terradask._catalog.instance_types.model import Catalog, Gpus, InstanceType, Supply, read_types
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._common.clock import is_younger
from terradask._common.disk_cache import DiskCache
from terradask.errors import InvalidInput
from terradask_stacks.hardware.quantities import ANY, Span, parse_cores, parse_memory, parse_span

if TYPE_CHECKING:
    from terradask._catalog.prices.prices import PriceSheet
    from terradask_modules.markets import Market


FORMAT = 2

MAX_AGE = datetime.timedelta(days=1)

_CATALOG = TypeAdapter(Catalog)
#: Version of the cached format.
_FIELDS = [field.name for cls in (InstanceType, Gpus) for field in fields(cls)]


def load_catalog(
    aws: Aws,
    *,
    refresh: bool = False,
    cache: DiskCache | None = None,
    now: Callable[[], datetime.datetime] | None = None,
) -> Catalog:
    """Return a region's instance types, and its zones' offers.

    Raises `AccessDenied`, `AwsError`.

    Permissions needed: ``ec2:DescribeInstanceTypes``, ``ec2:DescribeInstanceTypeOfferings``. A
    download takes some twenty calls.
    """
    asked_at = now() if now else datetime.datetime.now(datetime.UTC)
    moment = asked_at.astimezone(datetime.UTC).replace(microsecond=0)
    endpoint: str = aws.client("ec2").meta.endpoint_url
    place = cache_name(endpoint)
    kept_in = cache or own_cache("catalogs", endpoint)
    # A zone's name can mean another zone in another account.
    names = (place or urlsplit(endpoint).netloc, aws.account_id, aws.region)
    kept = None if kept_in is None or refresh else read_catalog(kept_in.read(*names), aws.region)
    if kept is not None and is_younger(kept.fetched_at, MAX_AGE, moment):
        return kept
    catalog = fetch_catalog(aws, now=moment)
    if kept_in is not None:
        kept_in.write(catalog_document(catalog), *names)
    return catalog


def priced_catalog(aws: Aws) -> tuple[Catalog, Mapping[str, Decimal]]:
    """Return the region's catalog, and each type's on-demand price per hour."""
    with ThreadPoolExecutor(1) as pool:
        sheet = pool.submit(AwsPriceList(aws).of_region, "on-demand")
        catalog = load_catalog(aws)
        return catalog, sheet.result().usd.get(aws.region, {})


def fetch_catalog(
    aws: Aws, names: Iterable[str] | None = None, *, now: datetime.datetime | None = None
) -> Catalog:
    """Return a catalog of all types or named ones, without those that no zone offers.

    Permissions needed: those of `load_catalog`.
    """
    types_asked: Mapping[str, Any] = {"MaxResults": 100}
    offers_asked: Mapping[str, Any] = {"MaxResults": 1000}
    if names is not None:
        filters = [{"Name": "instance-type", "Values": sorted(names)}]
        types_asked = offers_asked = {"Filters": filters}
    with ThreadPoolExecutor(2) as pool:
        offered = pool.submit(_zones, aws, offers_asked)
        method = "describe_instance_types"
        types = read_types([*listed(aws.client("ec2"), method, "InstanceTypes", **types_asked)])
        zones = offered.result()
    anywhere = frozenset[str]().union(*zones.values()) & types.keys()
    return Catalog(
        region=aws.region,
        types={name: one for name, one in types.items() if name in anywhere},
        zones={zone: names & anywhere for zone, names in sorted(zones.items())},
        fetched_at=now or datetime.datetime.now(datetime.UTC),
    )


def _zones(aws: Aws, asked: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    method, question = "describe_instance_type_offerings", {"LocationType": "availability-zone"}
    for offering in listed(aws.client("ec2"), method, "InstanceTypeOfferings", **question, **asked):
        found.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    # Local and wavelength zones, with longer names, have other prices, and no clusters.
    return {
        zone: frozenset(names)
        for zone, names in found.items()
        if re.fullmatch(f"{re.escape(aws.region)}[a-z]", zone)
    }


# ---- on disk -------------------------------------------------------------------------------------


def catalog_document(catalog: Catalog) -> dict[str, Any]:
    """Return a catalog as JSON for `read_catalog`."""
    known = {"format": FORMAT, "fields": _FIELDS}
    return {**known, **_CATALOG.dump_python(catalog, mode="json")}


def read_catalog(document: Any, region: str) -> Catalog | None:
    """Read a catalog from JSON; None unless `catalog_document` wrote it for this region."""
    try:
        if (document["format"], document["fields"]) != (FORMAT, _FIELDS):
            return None
        catalog = _CATALOG.validate_python(document)
    except (ValueError, KeyError, TypeError):
        return None
    sound = (
        catalog.region == region
        and catalog.fetched_at.tzinfo is not None
        and frozenset[str]().union(*catalog.zones.values()) == catalog.types.keys()
    )
    return catalog if sound else None


# ---- types with their zones and prices -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PricedInstanceType(InstanceType):
    """An `InstanceType` with its prices, for Linux on shared hardware.

    Parameters
    ----------
    zones
        Availability zones in which AWS offers it.
    hourly_usd
        On-demand price per hour, in US dollars; None if AWS lists none.
    spot_hourly_usd
        Zone -> present Spot price per hour, in US dollars, if AWS lists one. Empty without `spot`.
    """

    zones: tuple[str, ...] = ()
    hourly_usd: Decimal | None = None
    spot_hourly_usd: Mapping[str, Decimal] = field(default_factory=dict, hash=False)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON: prices as text, digits as AWS writes them."""
        return {
            **dataclasses.asdict(self),
            "memory_gib": self.memory_gib,
            "hourly_usd": _text(self.hourly_usd),
            "spot_hourly_usd": {zone: _text(usd) for zone, usd in self.spot_hourly_usd.items()},
        }


@dataclass(frozen=True)
class Listing:
    """The instance types of a search."""

    #: The types: cheapest on demand first, unpriced ones last.
    types: tuple[PricedInstanceType, ...]
    catalog: Catalog
    #: Sources of the prices: on demand, and Spot if requested.
    prices: tuple[PriceSheet, ...]


def find_types(
    aws: Aws,
    wanted: TypeFilter,
    *,
    zone: str | None = None,
    spot: bool = False,
    refresh: bool = False,
) -> Listing:
    """List instance types of a region. Raises `InvalidInput`, `AwsError`."""
    catalog = load_catalog(aws, refresh=refresh)
    supply = Supply.of(catalog, zones=[zone] if zone else None)
    if wanted.gpu_model is not None:
        known_gpu("gpu_type", wanted.gpu_model, catalog)
    prices = AwsPriceList(aws)
    markets: tuple[Market, ...] = ("on-demand", "spot") if spot else ("on-demand",)
    sheets = [prices.of_region(market, refresh=refresh) for market in markets]
    found = (one for one in catalog.types.values() if supply.has(one.name) and wanted.matches(one))
    return Listing(tuple(price_types(found, catalog, sheets, zone=zone)), catalog, tuple(sheets))


def price_types(
    types: Iterable[InstanceType],
    catalog: Catalog,
    sheets: Iterable[PriceSheet],
    *,
    zone: str | None = None,
) -> list[PricedInstanceType]:
    """Add prices to types, and sort them."""
    usd = {sheet.market: sheet.usd for sheet in sheets}
    on_demand = usd.get("on-demand", {}).get(catalog.region, {})
    spot = {
        where: prices
        for where, prices in sorted(usd.get("spot", {}).items())
        if zone in (None, where)
    }
    priced = [
        PricedInstanceType(
            **{each.name: getattr(one, each.name) for each in dataclasses.fields(InstanceType)},
            zones=catalog.zones_with(one.name),
            hourly_usd=on_demand.get(one.name),
            spot_hourly_usd={
                where: prices[one.name] for where, prices in spot.items() if one.name in prices
            },
        )
        for one in types
    ]
    return sorted(priced, key=Supply.of(catalog, on_demand).rank)


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else format(usd, "f")


# ---- filters for a listing -----------------------------------------------------------------------


_NUMBERS = "a number such as 4, a range such as [2, 8], '2-8', or '8+' for 8 and more"
_SIZES = (
    "a size such as '16 GiB', a range such as ['16 GiB', '64 GiB'], '16-64 GiB', or '64 "
    "GiB+' for that and more"
)


@dataclass(frozen=True, kw_only=True)
class TypeFilter:
    """Filters for instance types. Made by `TypeFilter.of`, which parses users' input."""

    #: Patterns for names, such as ``m6i.*``; one without a dot matches families. Empty: all.
    names: tuple[str, ...] = ()
    cores: Span = ANY
    #: Memory in bytes, including the tolerance.
    memory: Span = ANY
    gpus: Span = ANY
    #: The GPUs' model, in any spelling; None for any.
    gpu_model: str | None = None
    #: ARM processors, or x86-64; None for both.
    arm: bool | None = None
    #: Whether types must have local disks; None for both.
    local_disk: bool | None = None
    #: Whether AWS must count them as current.
    current_generation: bool = False

    @classmethod
    def of(
        cls,
        names: str | Sequence[str] = (),
        *,
        cores: Any = None,
        memory: Any = None,
        gpu: Any = None,
        gpu_type: str | None = None,
        arm: bool | None = None,
        local_disk: bool | None = None,
        current_generation: bool = False,
    ) -> TypeFilter:
        """Parse the arguments; None is no filter. Raises `InvalidInput`."""
        return cls(
            names=(names,) if isinstance(names, str) else tuple(names),
            cores=_span(
                "cores", cores, lambda one: parse_cores("cores", _number(one)).low, _NUMBERS
            ),
            memory=_span(
                "memory", memory, lambda one: parse_memory("memory", one).low, _SIZES
            ).within_a_tenth(),
            gpus=_gpus(gpu, gpu_type),
            gpu_model=gpu_type,
            arm=arm,
            local_disk=local_disk,
            current_generation=current_generation,
        )

    def matches(self, one: InstanceType) -> bool:
        """Return whether a type matches."""
        return (
            one.vcpus in self.cores
            and one.memory_mib << 20 in self.memory
            and (one.gpus.count if one.gpus else 0) in self.gpus
            and (
                self.gpu_model is None
                or (one.gpus is not None and model_key(one.gpus.name) == model_key(self.gpu_model))
            )
            and self.arm in (None, one.architecture == "arm64")
            and self.local_disk in (None, one.local_disk_gb > 0)
            and (one.current_generation or not self.current_generation)
            and (not self.names or any(_named(one, pattern) for pattern in self.names))
        )


def _named(one: InstanceType, pattern: str) -> bool:
    return fnmatchcase(one.name if "." in pattern else one.family, pattern)


def _gpus(given: Any, gpu_type: str | None) -> Span:
    if given is None:
        return ANY if gpu_type is None else Span(1, None)
    if isinstance(given, bool):
        return Span(1, None) if given else Span(0, 0)
    return _span("gpu", given, _count, f"True for any, {_NUMBERS}")


def _span(option: str, given: Any, read: Callable[[Any], int], allowed: str) -> Span:
    """Parse a number, a range of two, or either as text."""
    if given is None:
        return ANY
    if isinstance(given, str):
        text = given.rstrip()
        if text.endswith("+"):
            return Span(read(text[:-1]), None)
        return parse_span(option, _ends(text), read, allowed)
    return parse_span(option, given, read, allowed)


def _ends(text: str) -> str | tuple[str, str]:
    """Split ``16-64 GiB``; a missing unit is that of the other end."""
    low, dash, high = text.partition("-")
    if not dash:
        return text
    return low if re.search("[A-Za-z]", low) else low + "".join(re.findall("[A-Za-z]", high)), high


def _number(given: Any) -> Any:
    return int(given) if isinstance(given, str) and given.strip().isdecimal() else given


def _count(given: Any) -> int:
    number = _number(given)
    if isinstance(number, bool) or not hasattr(number, "__index__") or int(number) < 0:
        raise InvalidInput(
            "gpu is not a number of GPUs", given=repr(given), allowed=f"True for any, {_NUMBERS}"
        )
    return int(number)
