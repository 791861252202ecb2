"""Resolve a cluster's hardware: types for each group, and a zone that offers them all."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.activities import zone_of
from terradask._aws.session import Aws
from terradask._catalog.instance_types.choose import (
    Choice,
    choose,
    choose_default,
    choose_scheduler,
    with_one_architecture,
)
from terradask._catalog.instance_types.listing import fetch_catalog, priced_catalog
from terradask._catalog.instance_types.model import Catalog, Supply
from terradask._catalog.instance_types.zones import ZoneEvidence, ZoneFailure, rank_zones, why_best
from terradask._catalog.prices.price_list import fetch_spot_prices
from terradask._catalog.prices.products import prices_in
from terradask._catalog.reservations import Reserved, reserved_for
from terradask._common.progress import Message, Progress, Warned
from terradask._synthesis.reserved_hardware import (
    reserved_misfit,
    with_reserved_types,
    zones_of_reserved,
)
from terradask.errors import AwsError, InvalidInput, NoMatchingType
from terradask_host.rules.launch_problem import launch_failure, read_problem
from terradask_modules.markets import ON_DEMAND_ALONE, Market
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP, resource_name
from terradask_stacks.groups import worker_groups_of
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.hardware.request import HardwareRequest
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.settings.hardware import (
    DEFAULT_ARM_INSTANCE_TYPES,
    DEFAULT_INSTANCE_TYPES,
    default_types,
)

Requests = Mapping[str, "HardwareRequest"]

#: Takes the types for Spot; returns the evidence on zones.
EvidenceOf = Callable[[Sequence[str]], ZoneEvidence]

_STAYS = "the cluster is already in it"
_OTHER_TYPES = (
    "the first zone with types for each group, as no zone has the best types over all zones"
)

#: Key of the zone among the groups' reasons; no group has this name.
ZONE = "zone"


@dataclass(frozen=True)
class ClusterHardware:
    """The hardware chosen for a cluster."""

    #: The zone that offers all of it; only the scheduler's if workers may be in several zones.
    zone: str
    #: Group -> its types, in order and with their reasons.
    choices: Mapping[str, Choice]
    why_zone: str = ""
    #: Group of workers -> the zones that offer any of its types. Empty: all are in `zone`.
    worker_zones: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Groups of workers in a capacity block.
    blocks: tuple[str, ...] = ()

    @property
    def architecture(self) -> Architecture:
        """The processor architecture of all machines."""
        return self.choices[SCHEDULER_GROUP].architecture

    def types(self) -> dict[str, list[str]]:
        """Return each group's types, in order."""
        return {group: list(choice.names) for group, choice in self.choices.items()}

    def gpus(self) -> dict[str, int]:
        """Return the number of GPUs of each type that has some."""
        return {
            one.type.name: one.type.gpus.count
            for choice in self.choices.values()
            for one in choice.types
            if one.type.gpus is not None
        }

    def reasons(self) -> dict[str, str]:
        """Return the reasons for groups' types and the zone, in a line each."""
        return {group: choice.reason for group, choice in self.choices.items()} | {
            ZONE: f"{self.zone}: {self.why_zone}"
        }

    def explain(self) -> str:
        """Return all choices as text."""
        spread = [f"  {group}: {', '.join(zones)}" for group, zones in self.worker_zones.items()]
        where = [
            f"zone: {self.reasons()[ZONE]}",
            *(["zones of workers (cluster.allow_cross_zone):", *spread] if spread else []),
        ]
        return "\n\n".join(
            [*(choice.explain() for choice in self.choices.values()), "\n".join(where)]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "zone": self.zone,
            "why_zone": self.why_zone,
            "worker_zones": {group: list(zones) for group, zones in self.worker_zones.items()},
            "groups": {group: choice.as_dict() for group, choice in self.choices.items()},
        }


def requested_hardware(cluster: ClusterSettings) -> dict[str, dict[str, Any]]:
    """Return the settings' request for each group's instances, as locked."""
    asked = {group: request.parameters() for group, request in cluster.hardware_requests.items()}
    # Some types are not sold on every market.
    for group in worker_groups_of(cluster):
        if group.spot_policy != "on-demand":
            asked[group.name]["spot_policy"] = group.spot_policy
        if group.reservation is not None:
            asked[group.name]["capacity_reservation"] = group.reservation
    # Some types can't be in a placement group.
    return (
        {group: {**request, "placement_group": True} for group, request in asked.items()}
        if cluster.placement_group
        else asked
    )


def find_hardware(
    cluster: ClusterSettings,
    zones: Sequence[str],
    aws: Aws,
    *,
    progress: Progress,
    preferred: str | None = None,
    workspace: str | None = None,
    with_catalog: bool = False,
) -> ClusterHardware:
    """Choose the machines of a cluster.

    Named types and the default need two calls. Other requests need the region's catalog and its
    prices.

    Raises `InvalidInput`, `NoMatchingType`, `UnknownInstanceType`.
    """
    reserved = reserved_for(aws, worker_groups_of(cluster))
    find = partial(
        _find_hardware,
        cluster,
        zones,
        aws,
        progress=progress,
        preferred=preferred,
        workspace=workspace,
        with_catalog=with_catalog,
    )
    blocks = tuple(sorted(group for group, one in reserved.items() if one.is_block))
    firm = {group: one for group, one in reserved.items() if one.is_firm}
    if firm.keys() != reserved.keys():
        try:
            return replace(find(reserved=reserved), blocks=blocks)
        except InvalidInput as error:
            # An open reservation is a preference.
            progress(Message(f"no open capacity reservation fits: {error.problem}"))
    return replace(find(reserved=firm), blocks=blocks)


def _find_hardware(
    cluster: ClusterSettings,
    zones: Sequence[str],
    aws: Aws,
    *,
    progress: Progress,
    preferred: str | None,
    workspace: str | None,
    with_catalog: bool,
    reserved: Mapping[str, Reserved],
) -> ClusterHardware:
    requests = with_reserved_types(cluster.hardware_requests, reserved)
    zones = zones if cluster.allow_cross_zone else zones_of_reserved(zones, reserved)
    markets = {group.name: frozenset(group.markets) for group in worker_groups_of(cluster)}

    def evidence(spot_types: Sequence[str]) -> ZoneEvidence:
        found = (
            ZoneEvidence() if workspace is None else read_zone_evidence(aws, workspace, spot_types)
        )
        for note in found.notes:
            progress(Warned(note))
        return found

    if not with_catalog and all(request.is_by_name for request in requests.values()):
        catalog = _catalog_of_names(cluster, requests, zones, aws)
        if catalog is not None:
            catalog = _placeable(catalog, requests) if cluster.placement_group else catalog
            one = with_one_architecture(requests, catalog)
            return _Chooser(cluster, one, catalog, {}, markets, preferred, evidence, reserved).best(
                zones
            )
    what = "the region's instance types and prices, which are cached for a day and a week"
    progress(Message(f"reading {what}"))
    catalog, prices = priced_catalog(aws)
    one = with_one_architecture(requests, catalog)
    chooser = _Chooser(cluster, one, catalog, prices, markets, preferred, evidence, reserved)
    if not cluster.placement_group:
        return chooser.best(zones)
    try:
        return replace(chooser, catalog=_placeable(catalog, requests)).best(zones)
    except NoMatchingType as error:
        given = f"placement_group=True, which allows no burstable types; {error.given}"
        raise NoMatchingType(
            error.problem, given=given, allowed=error.allowed, alternatives=error.alternatives
        ) from error


def _placeable(catalog: Catalog, requests: Mapping[str, HardwareRequest]) -> Catalog:
    """Return a catalog without types that can't be in a placement group. Raises `InvalidInput`."""
    types = {name: one for name, one in catalog.types.items() if one.cluster_placement}
    for request in requests.values():
        wrong = [name for name in request.vm_types if name in catalog.types and name not in types]
        if wrong:
            option = request.option("vm_types")
            raise InvalidInput(
                "AWS doesn't allow these instance types in a cluster placement group",
                given=f"placement_group = true, {option} = {', '.join(wrong)}",
                allowed="types that aren't burstable, such as m6i.xlarge",
                advice=f"name other types in {option}, or leave placement_group out",
            )
    return replace(
        catalog,
        types=types,
        zones={zone: names & types.keys() for zone, names in catalog.zones.items()},
    )


def _catalog_of_names(
    cluster: ClusterSettings, requests: Requests, zones: Sequence[str], aws: Aws
) -> Catalog | None:
    """Return the types if names suffice; None if types must be chosen from the region's catalog."""
    named = {name for request in requests.values() for name in request.vm_types}
    silent = any(request.is_silent for request in requests.values())
    # Named types determine the architecture of other groups.
    default_names = {*DEFAULT_INSTANCE_TYPES, *DEFAULT_ARM_INSTANCE_TYPES} if silent else set()
    catalog = fetch_catalog(aws, named | default_names)
    if not named <= catalog.types.keys():
        # The error names similar types.
        return None
    default = {
        name
        for request in with_one_architecture(requests, catalog).values()
        if request.is_silent
        for name in default_types(arm=request.arm)
    }
    if _follows_workers(requests[SCHEDULER_GROUP]) and any(
        catalog.types[name].gpus for name in requests[WORKER_GROUP].vm_types
    ):
        return None
    settled = _settled(cluster, zones) if zones else None
    if default and not any(
        default & catalog.zones.get(zone, frozenset())
        for zone in (zones or catalog.zones if settled is None else settled[:1])
    ):
        return None
    return catalog


def _settled(cluster: ClusterSettings, zones: Sequence[str]) -> tuple[str, str] | None:
    """Return the zone and the reason, if zones' offers don't matter; else None."""
    if cluster.zone_name is not None:
        return cluster.zone_name, "named by cluster.zone_name"
    if not cluster.use_best_zone:
        why = "the network's first zone by name, since cluster.use_best_zone is false"
        return zones[0], why
    return None


@dataclass(frozen=True)
class _Chooser:
    """Choose types for all groups of a cluster from one catalog. Pure, except for `evidence`."""

    cluster: ClusterSettings
    requests: Requests
    catalog: Catalog
    prices: Mapping[str, Decimal]
    #: Group of workers -> required markets. Schedulers are on demand.
    markets: Mapping[str, frozenset[Market]]
    #: The zone to keep.
    preferred: str | None
    evidence: EvidenceOf
    #: Group of workers -> the machines that are reserved for it.
    reserved: Mapping[str, Reserved] = field(default_factory=dict)

    def best(self, zones: Sequence[str]) -> ClusterHardware:
        """Return the choice in the best zone."""
        zones = zones or sorted(self.catalog.zones)
        catalog = replace(
            self.catalog, zones={zone: self.catalog.zones.get(zone, frozenset()) for zone in zones}
        )
        chooser = replace(self, catalog=catalog)
        settled = _settled(self.cluster, zones)
        if settled is not None:
            zone, why = settled
            return chooser._in(zone, zones, why)
        return chooser._in_best(zones)

    def _in_best(self, zones: Sequence[str]) -> ClusterHardware:
        everywhere = self._choices(zones)
        needed = (
            {SCHEDULER_GROUP: everywhere[SCHEDULER_GROUP]}
            if self.cluster.allow_cross_zone
            else everywhere
        )
        markets = [self.markets.get(group, ON_DEMAND_ALONE) for group in needed]
        rank = partial(rank_zones, self.catalog, list(needed.values()), zones, markets=markets)
        offers = rank()
        usable = [offer.zone for offer in offers if offer.usable]
        if len(usable) > 1 and self.preferred not in usable:
            both = zip(needed.values(), markets, strict=True)
            on_spot = [name for choice, of in both if "spot" in of for name in choice.names]
            offers = rank(evidence=self.evidence(on_spot))
            usable = [offer.zone for offer in offers if offer.usable]
        usable.sort(key=lambda zone: zone != self.preferred)
        # A zone may lack the best types over all zones, but offer other matching ones.
        for zone in usable or zones:
            try:
                why = (
                    _STAYS
                    if zone == self.preferred
                    else why_best(offers, zone)
                    if usable
                    else _OTHER_TYPES
                )
                return self._in(zone, zones, why)
            except NoMatchingType:
                if len(zones) == 1:
                    raise
        raise _in_no_zone(needed, self.catalog)

    def _in(self, zone: str, zones: Sequence[str], why: str) -> ClusterHardware:
        """Choose with the scheduler in a zone, and the workers there or in all zones allowed."""
        if not self.cluster.allow_cross_zone:
            return ClusterHardware(zone, self._choices([zone]), why)
        choices = self._choices(zones, scheduler_zones=[zone])
        spread = {
            group: tuple(
                sorted(
                    where
                    for where in zones
                    if self._catalog_of(group).zones[where] & set(choice.names)
                )
            )
            for group, choice in choices.items()
            if group != SCHEDULER_GROUP
        }
        return ClusterHardware(zone, choices, why, spread)

    def _choices(
        self, zones: Sequence[str], *, scheduler_zones: Sequence[str] | None = None
    ) -> dict[str, Choice]:
        """Choose for the workers first, since the scheduler follows the unnamed group's."""
        own = scheduler_zones or zones
        choices = {
            group: self._workers_choice(group, request, zones)
            for group, request in self.requests.items()
            if group != SCHEDULER_GROUP
        }
        scheduler, workers = self.requests[SCHEDULER_GROUP], choices[WORKER_GROUP]
        if scheduler.is_silent and not (workers.has_gpus and _follows_workers(scheduler)):
            choices[SCHEDULER_GROUP] = self._choice(scheduler, own, ON_DEMAND_ALONE)
        else:
            supply = Supply.of(self.catalog, self.prices, zones=own)
            choices[SCHEDULER_GROUP] = choose_scheduler(scheduler, workers, supply)
        return choices

    def _catalog_of(self, group: str) -> Catalog:
        """Return the types that a group's hosts may have: those reserved for it, if any are."""
        reserved, catalog = self.reserved.get(group), self.catalog
        if reserved is None:
            return catalog
        zones = {zone: names & reserved.types_in(zone) for zone, names in catalog.zones.items()}
        return replace(catalog, zones=zones)

    def _workers_choice(self, group: str, request: HardwareRequest, zones: Sequence[str]) -> Choice:
        reserved = self.reserved.get(group)
        if reserved is None:
            return self._choice(request, zones, self.markets[group])
        catalog = self._catalog_of(group)
        try:
            choice = replace(self, catalog=catalog)._choice(request, zones, self.markets[group])
        except NoMatchingType as error:
            raise reserved_misfit(request, reserved, catalog) from error
        return replace(choice, rule=reserved.rule)

    def _choice(
        self, request: HardwareRequest, zones: Sequence[str], markets: frozenset[Market]
    ) -> Choice:
        supply = Supply.of(self.catalog, self.prices, zones=zones, markets=markets)
        names = default_types(arm=request.arm)
        default = choose_default(request, names, supply) if request.is_silent else None
        return default or choose(request, supply)


def _follows_workers(scheduler: HardwareRequest) -> bool:
    """Return whether an unset scheduler gets a GPU because its workers have some."""
    return scheduler.is_silent and scheduler.gpu is None


def _in_no_zone(choices: Mapping[str, Choice], catalog: Catalog) -> NoMatchingType:
    names = sorted({name for choice in choices.values() for name in choice.names})
    where = "; ".join(
        f"{zone} lacks {', '.join(sorted(set(names) - offered))}"
        for zone, offered in catalog.zones.items()
    )
    return NoMatchingType(
        "no zone has types for all groups of the cluster",
        given="; ".join(
            f"{group}: {choice.request.describe()}" for group, choice in choices.items()
        ),
        allowed=f"types that one zone of the network offers together: {where}",
        advice="choose other types, request a wider range, or add a zone to network.zones",
    )


# ---- evidence on zones: failed launches, and Spot prices -----------------------------------------


T = TypeVar("T")

#: How long a failed launch counts.
#: AWS (believed): A lack of EC2 capacity in a zone lasts about half an hour.
FAILURES_COUNT_FOR = datetime.timedelta(minutes=30)

#: Number of pages of 100 activities to read, newest first.
#: AWS (documented): Auto Scaling's activities can't be filtered by failure without a group's name.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeScalingActivities.html
_PAGES = 2


def read_zone_evidence(aws: Aws, workspace: str, spot_types: Iterable[str]) -> ZoneEvidence:
    """Read recent failures by zone, and Spot prices, from AWS.

    Evidence that can't be read is left out, and reported.

    Two or three calls. Permissions needed: ``autoscaling:DescribeScalingActivities``;
    ``ec2:DescribeSpotPriceHistory`` for prices.
    """
    now = datetime.datetime.now(datetime.UTC)
    types = sorted(set(spot_types))
    with ThreadPoolExecutor(2) as pool:
        failed = pool.submit(
            _tried, lambda: tuple(_failures(aws, workspace, now - FAILURES_COUNT_FOR)), ()
        )
        priced = pool.submit(_tried, lambda: _prices(aws, types, now), {})
        (failures, no_failures), (prices, no_prices) = failed.result(), priced.result()
    notes = [
        f"{what} aren't considered: {problem}"
        for what, problem in (("recent failed launches", no_failures), ("spot prices", no_prices))
        if problem is not None
    ]
    return ZoneEvidence(failures, prices, tuple(notes))


def read_failures(
    activities: Iterable[Mapping[str, Any]], workspace: str, since: datetime.datetime
) -> Iterator[ZoneFailure]:
    """Yield the failed launches of a workspace's groups, with their zone.

    Includes groups of workspaces whose longer names begin with this one: they are in the same
    account and zones.
    """
    begins = resource_name(workspace, "")
    for activity in activities:
        name, text = activity["AutoScalingGroupName"], launch_failure(activity)
        zone = zone_of(activity)
        if text and name.startswith(begins) and zone and activity["StartTime"] >= since:
            yield ZoneFailure(
                zone,
                "spot" if name.endswith("-spot") else "on-demand",
                read_problem(text),
                activity["StartTime"],
            )


def _failures(aws: Aws, workspace: str, since: datetime.datetime) -> Iterator[ZoneFailure]:
    client, token = aws.client("autoscaling"), None
    for _ in range(_PAGES):
        answer = client.describe_scaling_activities(
            IncludeDeletedGroups=True,
            Filters=[
                {"Name": "StartTimeLowerBound", "Values": [since.strftime("%Y-%m-%dT%H:%M:%SZ")]}
            ],
            **({"NextToken": token} if token else {}),
        )
        yield from read_failures(answer["Activities"], workspace, since)
        token = answer.get("NextToken")
        if not token:
            return


def _prices(aws: Aws, types: list[str], now: datetime.datetime) -> dict[str, dict[str, Decimal]]:
    return prices_in(fetch_spot_prices(aws, now, types)) if types else {}


def _tried(call: Callable[[], T], nothing: T) -> tuple[T, str | None]:
    """Return a lookup's result, or the reason for its failure."""
    try:
        return call(), None
    except (AwsError, BotoCoreError, ClientError) as error:
        return nothing, " ".join(str(error).split())
