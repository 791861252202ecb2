"""The machines of a cluster: types for each of its groups, and a zone that has them all. The edge between asks, AWS and choosing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from terradask._progress import Message, Progress
from terradask._stacks.named_catalog import named_catalog
from terradask.errors import NoMatchingType, UnknownInstanceType
from terradask.hardware.architecture import with_one_architecture
from terradask.hardware.choice import Choice, choose, choose_scheduler
from terradask.hardware.default import choose_default
from terradask.hardware.zones import rank_zones
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP
from terradask_stacks.groups import worker_groups_of
from terradask_stacks.settings.hardware import DEFAULT_ARM_INSTANCE_TYPES, DEFAULT_INSTANCE_TYPES, default_types

if TYPE_CHECKING:
    from terradask._account.aws import Aws
    from terradask.cost.estimate import Market
    from terradask.hardware.instance_types import Catalog
    from terradask_stacks.hardware.architecture import Architecture
    from terradask_stacks.hardware.ask import HardwareAsk
    from terradask_stacks.settings import ClusterSettings

Asks = Mapping[str, "HardwareAsk"]


@dataclass(frozen=True)
class ClusterHardware:
    """What was chosen for a cluster.

    Parameters
    ----------
    zone
        The zone that has all of it.
    choices
        Group -> its types, in order and with their reasons.
    """

    zone: str
    choices: Mapping[str, Choice]

    @property
    def architecture(self) -> Architecture:
        """The processor architecture of all machines."""
        return self.choices[SCHEDULER_GROUP].architecture

    def types(self) -> dict[str, list[str]]:
        """Return each group's types, in order."""
        return {group: list(choice.names) for group, choice in self.choices.items()}

    def reasons(self) -> dict[str, str]:
        """Return why each group has its types, in a line."""
        return {group: choice.reason for group, choice in self.choices.items()}

    def explain(self) -> str:
        """Return all choices for people."""
        return "\n\n".join(choice.explain() for choice in self.choices.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {"zone": self.zone, "groups": {group: choice.as_dict() for group, choice in self.choices.items()}}


def find_hardware(
    cluster: ClusterSettings,
    zones: Sequence[str],
    aws: Aws,
    *,
    progress: Progress,
    preferred: str | None = None,
    with_catalog: bool = False,
) -> ClusterHardware:
    """Choose the machines of a cluster.

    Types that are named, or the default, are looked up by their names: two calls. Anything else takes the region's catalog and its prices.

    Parameters
    ----------
    cluster
        The settings, with what is asked.
    zones
        Zones that come into question, in order of preference where they offer the same. Empty: all of the region.
    aws
        Session for the region.
    progress
        Told when the catalog is looked up.
    preferred
        The zone to stay in, as long as it has the types.
    with_catalog
        Look at the catalog and prices in any case.

    Raises
    ------
    NoMatchingType
        If nothing is as asked for, with the nearest that is.
    UnknownInstanceType
        If a named type doesn't exist, or isn't offered where it has to be.
    ArgumentCombination
        If named types don't go together, such as ARM's with x86-64's.
    """
    asks = cluster.hardware_asks()
    markets = {group.name: frozenset(group.markets) for group in worker_groups_of(cluster)}
    if not with_catalog and all(ask.is_by_name for ask in asks.values()):
        catalog = _catalog_of_names(asks, zones, aws)
        if catalog is not None:
            return _Chooser(with_one_architecture(asks, catalog), catalog, {}, markets).best(zones, preferred)
    progress(Message("looking at the region's instance types and prices, which are kept for a day and a week"))
    catalog, prices = _catalog_and_prices(aws)
    return _Chooser(with_one_architecture(asks, catalog), catalog, prices, markets).best(zones, preferred)


def _catalog_of_names(asks: Asks, zones: Sequence[str], aws: Aws) -> Catalog | None:
    """Return what names alone decide; None where they don't: no zone has the default, or workers have GPUs and the scheduler is open."""
    named = {name for ask in asks.values() for name in ask.vm_types}
    silent = any(ask.is_silent for ask in asks.values())
    # Whether silent groups are for ARM is known when the named types are.
    catalog = named_catalog(aws, named, {*DEFAULT_INSTANCE_TYPES, *DEFAULT_ARM_INSTANCE_TYPES} if silent else (), zones)
    default = {name for ask in with_one_architecture(asks, catalog).values() if ask.is_silent for name in default_types(arm=ask.arm)}
    if _follows_workers(asks[SCHEDULER_GROUP]) and any(catalog.types[name].gpus for name in asks[WORKER_GROUP].vm_types):
        return None
    if default and not any(default & offered for offered in catalog.zones.values()):
        return None
    return catalog


def _catalog_and_prices(aws: Aws) -> tuple[Catalog, Mapping[str, Decimal]]:
    from terradask.cost.region_prices import RegionPrices
    from terradask.hardware.catalog import load_catalog

    with ThreadPoolExecutor(1) as pool:
        sheet = pool.submit(RegionPrices(aws).look_up, "on-demand")
        catalog = load_catalog(aws)
        return catalog, sheet.result().usd.get(aws.region, {})


@dataclass(frozen=True)
class _Chooser:
    """Chooses for all groups of a cluster, out of one catalog. Pure."""

    asks: Asks
    catalog: Catalog
    prices: Mapping[str, Decimal]
    #: Group of workers -> where its types have to be for sale. Schedulers are on demand.
    markets: Mapping[str, frozenset[Market]]

    def best(self, zones: Sequence[str], preferred: str | None) -> ClusterHardware:
        """Return the choice in the best zone."""
        zones = zones or sorted(self.catalog.zones)
        catalog = replace(self.catalog, zones={zone: self.catalog.zones.get(zone, frozenset()) for zone in zones})
        chooser = replace(self, catalog=catalog)
        everywhere = chooser._choices(zones)
        offers = rank_zones(catalog, list(everywhere.values()), zones)
        usable = sorted((offer.zone for offer in offers if offer.usable), key=lambda zone: zone != preferred)
        # What is best over all zones may be missing where something else would do.
        for zone in usable or zones:
            try:
                return ClusterHardware(zone, chooser._choices([zone]))
            except (NoMatchingType, UnknownInstanceType):
                if len(zones) == 1:
                    raise
        raise _in_no_zone(everywhere, catalog)

    def _choices(self, zones: Sequence[str]) -> dict[str, Choice]:
        """Choose for the workers first: the scheduler follows those that have no group with a name."""
        choices = {group: self._choice(ask, zones, self.markets[group]) for group, ask in self.asks.items() if group != SCHEDULER_GROUP}
        scheduler, workers = self.asks[SCHEDULER_GROUP], choices[WORKER_GROUP]
        if scheduler.is_silent and not (workers.has_gpus and _follows_workers(scheduler)):
            choices[SCHEDULER_GROUP] = self._choice(scheduler, zones, frozenset({"on-demand"}))
        else:
            choices[SCHEDULER_GROUP] = choose_scheduler(scheduler, workers, self.catalog, self.prices, zones=zones)
        return choices

    def _choice(self, ask: HardwareAsk, zones: Sequence[str], markets: frozenset[Market]) -> Choice:
        catalog, prices = self.catalog, self.prices
        names = default_types(arm=ask.arm)
        default = choose_default(ask, names, catalog, prices, zones=zones, markets=markets) if ask.is_silent else None
        return default or choose(ask, catalog, prices, zones=zones, markets=markets)


def _follows_workers(scheduler: HardwareAsk) -> bool:
    """Tell whether a scheduler of which nothing else is said has a GPU when its workers have some."""
    return scheduler.is_silent and scheduler.gpu is None


def _in_no_zone(choices: Mapping[str, Choice], catalog: Catalog) -> UnknownInstanceType:
    names = sorted({name for choice in choices.values() for name in choice.names})
    where = "; ".join(f"{zone} lacks {', '.join(sorted(set(names) - offered))}" for zone, offered in catalog.zones.items())
    return UnknownInstanceType(
        "no zone has types for all groups of the cluster",
        given="; ".join(f"{group}: {choice.ask.describe()}" for group, choice in choices.items()),
        allowed=f"types that one zone of the network offers together: {where}",
        advice="choose other types, ask for a wider range, or add a zone to network.zones",
    )
