"""What runs have cost: accounts cut to a span of time, and summed by what is asked for. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from terradask._common.clock import epoch_text, utc_text
from terradask._deployments.accounts.account import Account, Use, UsePrice
from terradask._pricing.prices import SMALLEST_USD
from terradask.errors import InvalidInput

#: AWS bills instances by the second, and a minute at least:
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/concepts.html#on-demand-pricing
LEAST_SECONDS = 60

_HOUR = Decimal(3600)
_CENTS_OF_A_CENT = Decimal("0.0001")

#: What costs are summed by; and ``tag:KEY``.
BY = ("run", "cluster", "owner", "group", "type")


@dataclass(frozen=True)
class Span:
    """From when to when costs are counted, in seconds since the epoch."""

    since: int = 0
    #: None: without an end.
    until: int | None = None

    def seconds(self, use: Use, looked_at: int | None) -> int:
        """Return for how many seconds of the span an instance is billed; one that hasn't ended, up
        to when AWS was asked.
        """
        last = (looked_at or use.start) if use.end is None else use.end
        end = max(last, use.start + LEAST_SECONDS)
        end = end if self.until is None else min(end, self.until)
        return max(0, end - max(use.start, self.since))


@dataclass(frozen=True)
class CostRow:
    """What one run, cluster, owner, group, type or tag's value has cost.

    Parameters
    ----------
    key
        What it is the row of; None where instances have no such tag, or no known type.
    runs
        How many runs that are.
    instances
        How many instances they had.
    instance_seconds
        For how long these are billed.
    usd
        What that cost, in US dollars, as far as prices are known.
    unpriced_seconds
        Of `instance_seconds`, those that have no price, and are not in `usd`.
    is_going_on
        Whether a run goes on, or the end of an instance isn't known yet.
    facts
        Of a run alone: ``cluster``, ``owner``, ``started_at``, ``ended_at``.
    """

    key: str | None
    runs: int = 0
    instances: int = 0
    instance_seconds: int = 0
    usd: Decimal = Decimal(0)
    unpriced_seconds: int = 0
    is_going_on: bool = False
    facts: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether `usd` has all instances in it."""
        return not self.unpriced_seconds

    def as_dict(self, by: str) -> dict[str, Any]:
        """Return the row for ``--json`` and ``--csv``; amounts as text."""
        return {
            by: self.key,
            **self.facts,
            "runs": self.runs,
            "instances": self.instances,
            "instance_seconds": self.instance_seconds,
            "usd": usd_text(self.usd),
            "unpriced_seconds": self.unpriced_seconds,
            "is_going_on": self.is_going_on,
        }


@dataclass
class _Sum:
    """A row while it is summed."""

    facts: Mapping[str, str | None]
    runs: set[str] = field(default_factory=set)
    instances: int = 0
    instance_seconds: int = 0
    #: US dollars by the hour times seconds: exact, so that the order makes no difference.
    usd_seconds: Decimal = Decimal(0)
    unpriced_seconds: int = 0
    is_going_on: bool = False

    def add(self, account: Account, seconds: int, price: UsePrice | None) -> None:
        """Add an instance."""
        self.runs.add(f"{account.run_id}/{account.cluster}")
        self.instances += 1
        self.instance_seconds += seconds
        self.is_going_on = self.is_going_on or not account.is_settled
        if price is None:
            self.unpriced_seconds += seconds
        else:
            self.usd_seconds += price.usd * seconds

    def row(self, key: str | None) -> CostRow:
        """Return the row."""
        return CostRow(
            key,
            runs=len(self.runs),
            instances=self.instances,
            instance_seconds=self.instance_seconds,
            usd=(self.usd_seconds / _HOUR).quantize(SMALLEST_USD),
            unpriced_seconds=self.unpriced_seconds,
            is_going_on=self.is_going_on,
            facts=self.facts,
        )


@dataclass(frozen=True)
class RunCosts:
    """What runs have cost.

    Parameters
    ----------
    by
        What the rows are: ``run``, ``cluster``, ``owner``, ``group``, ``type`` or ``tag:KEY``.
    rows
        One for each, with the largest amount first; runs in the order of time.
    since, until
        The span that is counted; None: from the first run on, and until now.
    sources
        Whose prices these are, with the dates of the oldest and of the newest.
    """

    by: str
    rows: tuple[CostRow, ...]
    since: datetime.datetime | None
    until: datetime.datetime | None
    sources: Mapping[str, tuple[str, str]]

    @property
    def usd(self) -> Decimal:
        """Sum in US dollars, as far as prices are known."""
        return sum((row.usd for row in self.rows), Decimal(0))

    @property
    def instance_seconds(self) -> int:
        """For how long instances are billed."""
        return sum(row.instance_seconds for row in self.rows)

    @property
    def unpriced_seconds(self) -> int:
        """Of these, what has no price."""
        return sum(row.unpriced_seconds for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the costs for ``--json``; amounts as text."""
        return {
            "by": self.by,
            "since": None if self.since is None else utc_text(self.since),
            "until": None if self.until is None else utc_text(self.until),
            "usd": usd_text(self.usd),
            "instance_seconds": self.instance_seconds,
            "unpriced_seconds": self.unpriced_seconds,
            "prices": [
                {"source": source, "oldest": oldest, "newest": newest}
                for source, (oldest, newest) in sorted(self.sources.items())
            ],
            "rows": [row.as_dict(self.by) for row in self.rows],
        }


def costs_of(
    accounts: Iterable[Account],
    *,
    by: str = "run",
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
) -> RunCosts:
    """Return what runs have cost within a span of time. Raises `InvalidInput`."""
    keys = _keys(by)
    span = Span(
        0 if since is None else round(since.timestamp()),
        None if until is None else round(until.timestamp()),
    )
    sums: dict[str | None, _Sum] = {}
    sources: dict[str, tuple[str, str]] = {}
    for account in accounts:
        prices = {price.key: price for price in account.prices}
        for use in account.uses.values():
            seconds = span.seconds(use, account.looked_at)
            if not seconds:
                continue
            asked, key = account.price_key(use), keys(account, use)
            price = None if asked is None else prices.get(asked)
            sums.setdefault(key, _Sum(_facts(account) if by == "run" else {})).add(
                account, seconds, price
            )
            if price is not None:
                oldest, newest = sources.get(price.source, (price.as_of, price.as_of))
                sources[price.source] = min(oldest, price.as_of), max(newest, price.as_of)
    rows = [found.row(key) for key, found in sums.items()]
    return RunCosts(by, tuple(_sorted(rows, by)), since, until, sources)


def usd_text(usd: Decimal) -> str:
    """Return an amount with four digits behind the point."""
    return format(usd.quantize(_CENTS_OF_A_CENT), "f")


def check_by(by: str) -> None:
    """Check what costs are to be summed by. Raises `InvalidInput`."""
    kind, _, tag = by.partition(":")
    if not (by in BY or (kind == "tag" and tag)):
        raise InvalidInput(
            "costs can't be summed by that",
            given=by,
            allowed=f"{', '.join(BY)}, or tag:KEY",
        )


def _keys(by: str) -> Callable[[Account, Use], str | None]:
    check_by(by)
    tag = by.partition(":")[2]
    known: dict[str, Callable[[Account, Use], str | None]] = {
        "run": lambda account, use: account.run_id,
        "cluster": lambda account, use: account.cluster,
        "owner": lambda account, use: account.owner,
        "group": lambda account, use: f"{account.cluster}/{use.group}",
        "type": lambda account, use: use.instance_type,
    }
    return known.get(by, lambda account, use: account.tags.get(tag))


def _facts(account: Account) -> dict[str, str | None]:
    return {
        "cluster": account.cluster,
        "owner": account.owner,
        "started_at": epoch_text(account.started_at),
        "ended_at": epoch_text(account.last_end) if account.is_settled else None,
    }


def _sorted(rows: Iterable[CostRow], by: str) -> Iterator[CostRow]:
    if by == "run":
        yield from sorted(rows, key=lambda row: row.key or "")
    else:
        yield from sorted(rows, key=lambda row: (-row.usd, -row.instance_seconds, row.key or ""))
