"""``Account``: the cost account of one run (``accounts/<run id>/<cluster>.json``), and the merge of
observations of AWS and hosts into it. No calls.

AWS's data has priority. Code on a host can write its report, so that only determines an instance's
type, and only among the types of its group. AWS (asg-six-weeks)
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from terradask._aws.activities import zone_of
from terradask._aws.tags import tags_of
from terradask._observe.events import LAUNCHING, PREPARING, TERMINATING
from terradask_host.documents import FORMAT, HostReport, moment_text, plain_lines
from terradask_modules.markets import Market
from terradask_modules.names import TAG_GROUP, TAG_PREFIX, TAG_RUN_PREFIX

if TYPE_CHECKING:
    from pydantic import TypeAdapter

#: Key of a price: an instance type, its market, and for Spot a zone.
Offer = tuple[str, Market, str | None]

#: AWS (documented): EC2 bills instances by the second, and for 60 seconds at least.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/concepts.html#on-demand-pricing
LEAST_SECONDS = 60

_INSTANCE_ID = re.compile(r"i-[0-9a-f]{1,32}", re.ASCII)
_MOST_SECONDS = 2**33


@dataclass(frozen=True)
class AccountGroup:
    """A group of the run: its market, and its possible instance types."""

    market: Market
    types: tuple[str, ...] = ()


class Use(NamedTuple):
    """One instance of a run, from its launch to its end: a row of the account, in this order."""

    instance_id: str
    group: str
    #: None: unknown to AWS and not reported, and its group has several.
    instance_type: str | None
    #: Source of the type: AWS, the settings (which allow only one), or its host.
    type_from: Literal["aws", "settings", "host"] | None
    zone: str | None
    #: Seconds since the epoch, by AWS's clock.
    start: int
    #: None: it hadn't ended at the last observation.
    end: int | None = None


@dataclass(frozen=True)
class UsePrice:
    """The hourly price of an instance at the time of the account."""

    instance_type: str
    market: Market
    #: Zone of a Spot price; None for On-Demand.
    zone: str | None
    usd: Decimal
    #: Date and source of the price.
    as_of: str
    source: str


@dataclass(frozen=True)
class Account:
    """One run: its owner, its instances and their hourly prices. Times are seconds since the epoch,
    by AWS's clock.
    """

    run_id: str
    cluster: str
    #: ARN of the caller that started it.
    owner: str
    started_at: int
    #: Its groups, by their names in the cluster.
    groups: Mapping[str, AccountGroup]
    #: Tags of its instances, without terradask's own.
    tags: Mapping[str, str] = field(default_factory=dict)
    #: None: the run is active.
    ended_at: int | None = None
    #: Time of the last observation.
    looked_at: int | None = None
    #: Its instances, by id.
    uses: Mapping[str, Use] = field(default_factory=dict)
    prices: Mapping[Offer, UsePrice] = field(default_factory=dict)
    #: Reason of its end; None while active, or if unknown.
    reason: str | None = None
    #: ETag of the version in the bucket that it was read from.
    etag: str | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """Its key under ``accounts/``."""
        return f"{self.run_id}/{self.cluster}.json"

    @property
    def is_settled(self) -> bool:
        """Whether the account is final: the run and all of its instances have ended."""
        return self.ended_at is not None and all(use.end is not None for use in self.uses.values())

    @property
    def last_end(self) -> int:
        """The end of its last instance, or the time at which the run was found to be over."""
        ends = [use.end for use in self.uses.values() if use.end is not None]
        return max(ends) if ends and self.is_settled else self.ended_at or self.started_at

    def offer(self, use: Use) -> Offer | None:
        """Return the key of an instance's price; None if unknown."""
        group = self.groups.get(use.group)
        if group is None or use.instance_type is None:
            return None
        if group.market == "on-demand":
            return use.instance_type, "on-demand", None
        return None if use.zone is None else (use.instance_type, "spot", use.zone)

    def unpriced(self) -> set[Offer]:
        """Return the keys of missing prices."""
        offers = map(self.offer, self.uses.values())
        return {offer for offer in offers if offer is not None} - self.prices.keys()

    def with_prices(self, found: Mapping[Offer, UsePrice]) -> Account:
        """Return the account with missing prices added; existing ones stay."""
        more = {offer: found[offer] for offer in self.unpriced() if offer in found}
        return replace(self, prices={**self.prices, **more})

    def to_document(self) -> dict[str, Any]:
        """Return the document of the account."""
        facts = asdict(self)
        prices = [{**each, "usd": format(each["usd"], "f")} for each in facts["prices"].values()]
        # An older terradask expects a flag for a guessed end in each row.
        instances = [[*use, 0] for use in self.uses.values()]
        for name in ("run_id", "cluster", "etag", "uses"):
            del facts[name]
        return {"format": FORMAT, **facts, "instances": instances, "prices": prices}


def read_account(key: str, document: Mapping[str, Any], etag: str | None = None) -> Account:
    """Read an account; its key identifies the run."""
    if document["format"] != FORMAT:
        raise ValueError("an account has another format")
    facts = plain_lines(document)
    run_id, _, name = key.partition("/")
    own = {"run_id": run_id, "cluster": name.removesuffix(".json"), "etag": etag}
    uses = {row[0]: row[:7] for row in facts["instances"]}
    prices = {(one["instance_type"], one["market"], one["zone"]): one for one in facts["prices"]}
    account = _adapter().validate_python({**facts, **own, "uses": uses, "prices": prices})
    own_uses, own_prices = account.uses.values(), account.prices.values()
    times = [account.started_at, account.ended_at, account.looked_at]
    times += [at for use in own_uses for at in (use.start, use.end)]
    if (
        not all(at is None or 0 <= at < _MOST_SECONDS for at in times)
        or not all(_INSTANCE_ID.fullmatch(use.instance_id) for use in own_uses)
        or any((use.end or use.start) < use.start for use in own_uses)
        or any(price.usd < 0 or not moment_text(price.as_of) for price in own_prices)
    ):
        raise ValueError("a time, an instance's id or a price of an account is invalid")
    return account


def next_starts(accounts: Iterable[Account]) -> dict[str, int]:
    """Return the start of each cluster's next run, by accounts' keys, without the last runs.

    Later launches of its groups belong to the next run.
    """
    runs = sorted(accounts, key=lambda one: (one.cluster, one.started_at))
    return {
        before.key: after.started_at
        for before, after in pairwise(runs)
        if before.cluster == after.cluster
    }


@cache
def _adapter() -> TypeAdapter[Account]:
    # pydantic is slow to import
    from pydantic import TypeAdapter

    return TypeAdapter(Account)


# ---- observations of AWS and hosts --------------------------------------------------------------


#: An instance that started longer ago and isn't listed has ended.
#: AWS (ec2-lists-ended)
_LISTED_SECONDS = 3_600

#: ``User initiated (2026-11-20 05:15:00 GMT)``
_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)", re.ASCII)


@dataclass(frozen=True)
class Observation:
    """The data of AWS and hosts about a run at one time."""

    #: Seconds since the epoch, by AWS's clock.
    at: int
    #: Group -> its scaling activities since the run's start.
    activities: Mapping[str, Sequence[Mapping[str, Any]]]
    #: The instances with the run's tag, as EC2 describes them.
    instances: Sequence[Mapping[str, Any]]
    #: The remaining reports of hosts.
    reports: Sequence[HostReport] = ()


def merge_observation(
    account: Account,
    observed: Observation,
    *,
    is_over: bool,
    next_start: int | None = None,
    reason: str | None = None,
) -> Account:
    """Return the account updated by an observation. A run that is over ends at the start of the
    cluster's next run, if there is one, and gets the reason, unless it has one.
    """
    ended_at, tags = account.ended_at, dict(account.tags)
    if ended_at is None and (is_over or next_start is not None):
        ended_at = min(observed.at, observed.at if next_start is None else next_start)
    # The next observation covers launches of the present second.
    last = observed.at if ended_at is None else ended_at
    launched, ends, prepared = _activities(account, observed, last)
    seen, described = {**launched, **account.uses}, {}
    for one in observed.instances:
        its, key = tags_of(one.get("Tags")), one["InstanceId"]
        group = its.get(TAG_GROUP, "")
        if its.get(f"{TAG_RUN_PREFIX}id") != account.run_id or group not in account.groups:
            continue
        described[key] = one
        # EC2's launch time is nearer to the billed time than the group's request.
        start, zone = _seconds(one["LaunchTime"]), one.get("Placement", {}).get("AvailabilityZone")
        if start >= last and key in prepared:
            # A prepared host keeps the tags of its launch, also after the run.
            continue
        end = seen[key].end if key in seen else None
        end = None if end is None or end < start else end
        seen[key] = Use(key, group, one["InstanceType"], "aws", zone, start, end)
        others = (tag for tag in its if not tag.startswith((TAG_PREFIX, "aws:")) and tag != "Name")
        tags.update({tag: its[tag] for tag in others})
    types = {report.instance_id: report.instance_type for report in observed.reports}
    uses = {}
    for key, use in seen.items():
        end = _end(use, account, observed.at, described.get(key), ends.get(key))
        stopped = prepared.get(key)
        if stopped is not None and use.start <= stopped:
            # EC2 knows only when it was terminated.
            end = stopped
        ended = use._replace(end=None if end is None else max(use.start, end))
        uses[key] = _with_type(ended, account, types.get(key))
    why = reason if account.reason is None and ended_at is not None else account.reason
    return replace(
        account, ended_at=ended_at, looked_at=observed.at, reason=why, uses=uses, tags=tags
    )


def _activities(
    account: Account, observed: Observation, last: int
) -> tuple[dict[str, Use], dict[str, int], dict[str, int | None]]:
    """Return what the groups launched during the run, the times of terminations, and prepared hosts
    with the time at which AWS stopped each; None before.
    """
    launched: dict[str, Use] = {}
    ends: dict[str, int] = {}
    prepared: dict[str, int | None] = {}
    for group, activities in observed.activities.items():
        for activity in activities:
            at = _seconds(activity["StartTime"])
            # A cancelled launch ends before the instance runs, and costs nothing.
            succeeded = activity["StatusCode"] not in ("Failed", "Cancelled")
            if ended := TERMINATING.match(activity["Description"]):
                ends[ended[1]] = at
            into = PREPARING.match(activity["Description"])
            if into:
                stopped = activity.get("EndTime")
                prepared[into[1]] = None if stopped is None else _seconds(stopped)
            started = into or LAUNCHING.match(activity["Description"])
            if started and succeeded and account.started_at <= at < last:
                # Of a prepared host that this run has started, the newer activity is its start.
                launched.setdefault(
                    started[1], Use(started[1], group, None, None, zone_of(activity), at)
                )
    return launched, ends, prepared


def _end(
    use: Use, account: Account, now: int, described: Mapping[str, Any] | None, ended: int | None
) -> int | None:
    """Return an instance's end, if known; `ended` is the time of its group's activity."""
    if described is not None:
        if described["State"]["Name"] in ("pending", "running"):
            return None
        if matched := _AT.search(described.get("StateTransitionReason") or ""):
            return _seconds(datetime.datetime.fromisoformat(f"{matched[1]}+00:00"))
    if use.end is not None:
        return use.end
    if ended is None and described is None and now - use.start > _LISTED_SECONDS:
        # The time of its end is unknown, but not before the last observation.
        return account.looked_at or 0
    return ended


def _with_type(use: Use, account: Account, reported: str | None) -> Use:
    """Return an instance with its type, if known."""
    if use.instance_type is not None and use.type_from != "host":
        return use
    types = account.groups[use.group].types if use.group in account.groups else ()
    if len(types) == 1:
        return use._replace(instance_type=types[0], type_from="settings")
    if reported not in types:
        return use
    return use._replace(instance_type=reported, type_from="host")


def _seconds(at: datetime.datetime) -> int:
    # Not rounded up: an end isn't after what followed it in the same second.
    return int(at.timestamp())
