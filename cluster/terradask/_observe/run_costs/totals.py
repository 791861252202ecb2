"""Sum the costs of runs in a time span from their accounts, by cluster, owner and other keys."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from terradask._aws.session import Aws
from terradask._catalog.prices.prices import SMALLEST_USD
from terradask._common.clock import epoch_text, utc_text
from terradask._common.dollars import usd_text
from terradask._observe.logs.query import Moment, parse_period
from terradask._observe.run_costs.account import LEAST_SECONDS, Account, Use, UsePrice
from terradask._observe.run_costs.book import find_accounts
from terradask.errors import InvalidInput

_HOUR = Decimal(3600)

#: Keys to sum costs by, besides ``tag:KEY``.
BY = ("run", "cluster", "owner", "group", "type")

#: An instance's part of a row: its run, billed seconds, and price.
_Part = tuple[Account, int, UsePrice | None]


@dataclass(frozen=True)
class CostRow:
    """The costs of one run, cluster, owner, group, type or value of a tag."""

    #: The row's run, cluster, …; None for instances without such a tag, or of unknown type.
    key: str | None
    #: Numbers of runs and of their instances.
    runs: int = 0
    instances: int = 0
    #: Billed time of these instances.
    instance_seconds: int = 0
    #: Costs in US dollars, as far as prices are known.
    usd: Decimal = Decimal(0)
    #: Part of `instance_seconds` without a price, not included in `usd`.
    unpriced_seconds: int = 0
    #: Whether a run is active, or the end of an instance isn't known yet.
    is_going_on: bool = False
    #: Only for rows of runs: ``cluster``, ``owner``, ``started_at``, ``ended_at``.
    facts: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether `usd` includes all instances."""
        return not self.unpriced_seconds

    def as_dict(self, by: str) -> dict[str, Any]:
        """Return the row for ``--json`` and ``--csv``; amounts as text."""
        sums = {name: value for name, value in vars(self).items() if name not in ("key", "facts")}
        return {by: self.key, **self.facts, **sums, "usd": usd_text(self.usd)}


@dataclass(frozen=True)
class RunCosts:
    """The costs of runs."""

    #: Key of the rows: ``run``, ``cluster``, ``owner``, ``group``, ``type`` or ``tag:KEY``.
    by: str
    #: The rows, the largest amount first; runs in the order of time.
    rows: tuple[CostRow, ...]
    #: The counted time span; None: from the first run on, and until now.
    since: datetime.datetime | None
    until: datetime.datetime | None
    #: Source of prices -> dates of its oldest and newest price.
    sources: Mapping[str, tuple[str, str]]

    @property
    def usd(self) -> Decimal:
        """Sum in US dollars, as far as prices are known."""
        return sum((row.usd for row in self.rows), Decimal(0))

    @property
    def instance_seconds(self) -> int:
        """Billed time of all instances."""
        return sum(row.instance_seconds for row in self.rows)

    @property
    def unpriced_seconds(self) -> int:
        """Billed time without a price."""
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


def find_costs(
    aws: Aws, bucket: str, since: Moment | None, until: Moment | None, by: str
) -> RunCosts:
    """Return the costs of runs, as documented at `Workspace.costs`."""
    check_by(by)
    first, last = parse_period(since, until)
    return costs_of(find_accounts(aws, bucket, first), by=by, since=first, until=last)


def costs_of(
    accounts: Iterable[Account],
    *,
    by: str = "run",
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
) -> RunCosts:
    """Sum the costs of runs within a time span, by a key that `check_by` allows."""
    first = 0 if since is None else round(since.timestamp())
    last = None if until is None else round(until.timestamp())
    parts: dict[str | None, list[_Part]] = {}
    sources: dict[str, list[str]] = {}
    for account in accounts:
        for use in account.uses.values():
            if seconds := billed_seconds(use, account.looked_at, first, last):
                offer = account.offer(use)
                price = None if offer is None else account.prices.get(offer)
                parts.setdefault(_key(by, account, use), []).append((account, seconds, price))
                if price is not None:
                    sources.setdefault(price.source, []).append(price.as_of)
    rows = sorted((_row(key, each, by) for key, each in parts.items()), key=lambda r: r.key or "")
    if by != "run":
        rows.sort(key=lambda row: (-row.usd, -row.instance_seconds))
    dates = {source: (min(found), max(found)) for source, found in sources.items()}
    return RunCosts(by, tuple(rows), since, until, dates)


def billed_seconds(
    use: Use, looked_at: int | None, since: int = 0, until: int | None = None
) -> int:
    """Return the billed seconds of an instance within a time span; until the last observation, if
    it hasn't ended.
    """
    last = (looked_at or use.start) if use.end is None else use.end
    end = max(last, use.start + LEAST_SECONDS)
    return max(0, (end if until is None else min(end, until)) - max(use.start, since))


def check_by(by: str) -> None:
    """Check the key to sum costs by. Raises `InvalidInput`."""
    kind, _, tag = by.partition(":")
    if by not in BY and not (kind == "tag" and tag):
        allowed = f"{', '.join(BY)}, or tag:KEY"
        raise InvalidInput("costs can't be summed by this key", given=by, allowed=allowed)


def _key(by: str, account: Account, use: Use) -> str | None:
    if by == "group":
        return f"{account.cluster}/{use.group}"
    if by == "type":
        return use.instance_type
    keys = {"run": account.run_id, "cluster": account.cluster, "owner": account.owner}
    return keys[by] if by in keys else account.tags.get(by.removeprefix("tag:"))


def _row(key: str | None, parts: Sequence[_Part], by: str) -> CostRow:
    accounts = {account.key: account for account, _, _ in parts}
    first = parts[0][0]
    facts = {
        "cluster": first.cluster,
        "owner": first.owner,
        "started_at": epoch_text(first.started_at),
        "ended_at": epoch_text(first.last_end) if first.is_settled else None,
    }
    # Hourly US dollars times seconds: exact, so independent of the order.
    usd = [price.usd * seconds for _, seconds, price in parts if price is not None]
    return CostRow(
        key,
        runs=len(accounts),
        instances=len(parts),
        instance_seconds=sum(seconds for _, seconds, _ in parts),
        usd=(sum(usd, Decimal(0)) / _HOUR).quantize(SMALLEST_USD),
        unpriced_seconds=sum(seconds for _, seconds, price in parts if price is None),
        is_going_on=not all(account.is_settled for account in accounts.values()),
        facts=facts if by == "run" else {},
    )
