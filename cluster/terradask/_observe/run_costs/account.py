"""The account of one run, as ``accounts/<run id>/<cluster>.json`` holds it, and how what AWS and
hosts say comes into it. Pure.

AWS's word comes first: EC2 lists an instance for about an hour after its end, Auto Scaling keeps
what a group has done for six weeks, also of a deleted one. Whatever runs on a host can write its
report, so that counts for an instance's type alone, and only among those that its group could have.
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
from terradask._observe.events.timeline import LAUNCHING, TERMINATING
from terradask_host.documents import FORMAT, HostReport, moment_text, plain_lines
from terradask_modules.markets import Market
from terradask_modules.names import TAG_GROUP, TAG_PREFIX, TAG_RUN_PREFIX

if TYPE_CHECKING:
    from pydantic import TypeAdapter

#: What has a price: an instance type, its market, and on spot a zone.
Offer = tuple[str, Market, str | None]

_INSTANCE_ID = re.compile(r"i-[0-9a-f]{1,32}", re.ASCII)
_MOST_SECONDS = 2**33


@dataclass(frozen=True)
class AccountGroup:
    """What a group of the run was: its market, and the instance types that it could have."""

    market: Market
    types: tuple[str, ...] = ()


class Use(NamedTuple):
    """One instance of a run, from its launch to its end: a row of the account, in this order."""

    instance_id: str
    group: str
    #: None: neither AWS nor its host has said it, and its group could have several.
    instance_type: str | None
    #: Who says so: AWS; the settings, which allow one alone; its host.
    type_from: Literal["aws", "settings", "host"] | None
    zone: str | None
    #: Seconds since the epoch, by AWS's clock.
    start: int
    #: None: it hadn't ended when it was looked at.
    end: int | None = None


@dataclass(frozen=True)
class UsePrice:
    """What an hour of an instance cost when the account was made."""

    instance_type: str
    market: Market
    #: Spot has a price in each zone; None on demand.
    zone: str | None
    usd: Decimal
    #: When AWS said so, and whose price it is.
    as_of: str
    source: str


@dataclass(frozen=True)
class Account:
    """One run: whose it was, which instances it had, and what they cost by the hour. Times are
    seconds since the epoch, by AWS's clock.
    """

    run_id: str
    cluster: str
    #: ARN of the caller that has started it.
    owner: str
    started_at: int
    #: Its groups, by their names in the cluster.
    groups: Mapping[str, AccountGroup]
    #: Tags of its instances, without terradask's own.
    tags: Mapping[str, str] = field(default_factory=dict)
    #: None: the run goes on.
    ended_at: int | None = None
    #: When AWS was asked last.
    looked_at: int | None = None
    #: Its instances, by id.
    uses: Mapping[str, Use] = field(default_factory=dict)
    prices: Mapping[Offer, UsePrice] = field(default_factory=dict)
    #: Why it has ended; None while it goes on, and where that isn't known.
    reason: str | None = None
    #: Of the version in the bucket that it was read from.
    etag: str | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """Its key under ``accounts/``."""
        return f"{self.run_id}/{self.cluster}.json"

    @property
    def is_settled(self) -> bool:
        """Whether nothing can be added: the run and all of its instances have ended."""
        return self.ended_at is not None and all(use.end is not None for use in self.uses.values())

    @property
    def last_end(self) -> int:
        """When its last instance has ended, or when the run was found to be over."""
        ends = [use.end for use in self.uses.values() if use.end is not None]
        return max(ends) if ends and self.is_settled else self.ended_at or self.started_at

    def offer(self, use: Use) -> Offer | None:
        """Return what has an instance's price; None if that isn't known."""
        group = self.groups.get(use.group)
        if group is None or use.instance_type is None:
            return None
        if group.market == "on-demand":
            return use.instance_type, "on-demand", None
        return None if use.zone is None else (use.instance_type, "spot", use.zone)

    def unpriced(self) -> list[Offer]:
        """Return what a price is still to be asked for: each once."""
        offers = dict.fromkeys(map(self.offer, self.uses.values()))
        return [offer for offer in offers if offer is not None and offer not in self.prices]

    def with_prices(self, found: Mapping[Offer, UsePrice]) -> Account:
        """Return the account with prices that it lacks; those that it has stay."""
        more = {offer: found[offer] for offer in self.unpriced() if offer in found}
        return replace(self, prices={**self.prices, **more})

    def to_document(self) -> dict[str, Any]:
        """Return what the account's object holds."""
        facts = asdict(self)
        prices = [{**each, "usd": format(each["usd"], "f")} for each in facts["prices"].values()]
        # An older terradask reads of each instance whether its end is a guess.
        instances = [[*use, 0] for use in self.uses.values()]
        for name in ("run_id", "cluster", "etag", "uses"):
            del facts[name]
        return {"format": FORMAT, **facts, "instances": instances, "prices": prices}


def read_account(key: str, document: Mapping[str, Any], etag: str | None = None) -> Account:
    """Read an account, whose key says which run's it is."""
    if document["format"] != FORMAT:
        raise ValueError("an account isn't as format 1 says")
    facts = plain_lines(document)
    run_id, _, name = key.partition("/")
    own = {"run_id": run_id, "cluster": name.removesuffix(".json"), "etag": etag}
    uses = {row[0]: row[:7] for row in facts["instances"]}
    prices = {(one["instance_type"], one["market"], one["zone"]): one for one in facts["prices"]}
    account = _adapter().validate_python({**facts, **own, "uses": uses, "prices": prices})
    times = [account.started_at, account.ended_at, account.looked_at]
    for use in account.uses.values():
        times += [use.start, use.end]
        if not _INSTANCE_ID.fullmatch(use.instance_id) or (use.end or use.start) < use.start:
            raise ValueError("an instance's id isn't one, or it has ended before its start")
    if not all(at is None or 0 <= at < _MOST_SECONDS for at in times):
        raise ValueError("a time of an account is none")
    for price in account.prices.values():
        moment_text(price.as_of)
        if price.usd < 0:
            raise ValueError("a price is no amount")
    return account


def next_starts(accounts: Iterable[Account]) -> dict[str, int]:
    """Return when the cluster's next run has started, by accounts' keys; not of the last ones.

    What its groups launch from then on is the next run's.
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


# ---- what AWS and hosts say ---------------------------------------------------------------------


#: EC2 lists an instance at least so long after its end.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/terminating-instances.html
_LISTED_SECONDS = 3_600

#: ``User initiated (2026-11-20 05:15:00 GMT)``
_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)", re.ASCII)


@dataclass(frozen=True)
class Look:
    """What AWS and hosts say of a run at one time."""

    #: Seconds since the epoch, by AWS's clock.
    at: int
    #: Group -> its scaling activities since the run's start, as AWS lists them.
    activities: Mapping[str, Sequence[Mapping[str, Any]]]
    #: The instances that carry the run's tag, as EC2 describes them.
    instances: Sequence[Mapping[str, Any]]
    #: Reports of hosts, as far as there still are any.
    reports: Sequence[HostReport] = ()


def looked(
    account: Account,
    look: Look,
    *,
    is_over: bool,
    next_start: int | None = None,
    reason: str | None = None,
) -> Account:
    """Return the account with what a look has shown; of a run that is over, up to the start of the
    cluster's next run, if there is one, and with the reason, unless one is known already.
    """
    ended_at, tags = account.ended_at, dict(account.tags)
    if ended_at is None and (is_over or next_start is not None):
        ended_at = look.at if next_start is None else min(look.at, next_start)
    # Launches of the present second are seen the next time.
    launched, ends = _activities(account, look, look.at if ended_at is None else ended_at)
    seen, described = {**launched, **account.uses}, {}
    for one in look.instances:
        its, instance_id = tags_of(one.get("Tags")), one["InstanceId"]
        group = its.get(TAG_GROUP, "")
        if its.get(f"{TAG_RUN_PREFIX}id") != account.run_id or group not in account.groups:
            continue
        described[instance_id] = one
        # EC2's time of the launch is nearer to what is billed than the group's request.
        start, zone = _seconds(one["LaunchTime"]), one.get("Placement", {}).get("AvailabilityZone")
        use = Use(instance_id, group, one["InstanceType"], "aws", zone, start)
        seen[instance_id] = use._replace(end=seen.get(instance_id, use).end)
        others = (key for key in its if not key.startswith((TAG_PREFIX, "aws:")) and key != "Name")
        tags.update({key: its[key] for key in others})
    types = {report.instance_id: report.instance_type for report in look.reports}
    uses = {}
    for key, use in seen.items():
        whole = _ended(use, account, look.at, described.get(key), ends.get(key))
        uses[key] = _typed(whole, account, types.get(key))
    why = reason if account.reason is None and ended_at is not None else account.reason
    return replace(account, ended_at=ended_at, looked_at=look.at, reason=why, uses=uses, tags=tags)


def _activities(account: Account, look: Look, last: int) -> tuple[dict[str, Use], dict[str, int]]:
    """Return the instances that the run's groups have launched while it went on, and when they have
    ended any.
    """
    launched: dict[str, Use] = {}
    ends: dict[str, int] = {}
    for group, activities in look.activities.items():
        for activity in activities:
            at = _seconds(activity["StartTime"])
            # One that was cancelled has ended before it ran, and costs nothing.
            went_on = activity["StatusCode"] not in ("Failed", "Cancelled")
            if ended := TERMINATING.match(activity["Description"]):
                ends[ended[1]] = at
            started = LAUNCHING.match(activity["Description"])
            if started and went_on and account.started_at <= at < last:
                launched[started[1]] = Use(started[1], group, None, None, zone_of(activity), at)
    return launched, ends


def _ended(
    use: Use, account: Account, now: int, described: Mapping[str, Any] | None, end: int | None
) -> Use:
    """Return an instance with its end, as far as that is known now; `end` is its group's word."""
    if described is not None:
        if described["State"]["Name"] in ("pending", "running"):
            return use._replace(end=None)
        if told := _AT.search(described.get("StateTransitionReason") or ""):
            at = _seconds(datetime.datetime.fromisoformat(f"{told[1]}+00:00"))
            return use._replace(end=max(use.start, at))
    if use.end is not None:
        return use
    if end is None and described is None and now - use.start > _LISTED_SECONDS:
        # It is gone, and when, is known no more: not before it was seen.
        end = account.looked_at or 0
    return use if end is None else use._replace(end=max(use.start, end))


def _typed(use: Use, account: Account, reported: str | None) -> Use:
    """Return an instance with its type, as far as that is known now."""
    if use.instance_type is not None and use.type_from != "host":
        return use
    types = account.groups[use.group].types if use.group in account.groups else ()
    if len(types) == 1:
        return use._replace(instance_type=types[0], type_from="settings")
    if reported not in types:
        return use
    return use._replace(instance_type=reported, type_from="host")


def _seconds(at: datetime.datetime) -> int:
    return round(at.timestamp())
