"""The account of one run, as ``accounts/<run id>/<cluster>.json`` holds it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, Self

from terradask_host.documents import FORMAT, moment_text, plain_lines, plain_text
from terradask_modules.markets import Market

#: Who says which type an instance has: AWS; the settings, which allow one alone; its host.
TypeFrom = Literal["aws", "settings", "host"]

_INSTANCE_ID = re.compile(r"i-[0-9a-f]{1,32}", re.ASCII)


@dataclass(frozen=True)
class AccountGroup:
    """What a group of the run was: its market, and the instance types that it could have."""

    market: Market
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Use:
    """One instance of a run, from its launch to its end.

    Parameters
    ----------
    instance_id, group
        Which instance it was, and of which of the cluster's groups.
    instance_type
        None: neither AWS nor its host has said it, and its group could have several.
    type_from
        Who says so.
    zone
        Its availability zone; None if AWS didn't say it.
    start, end
        Seconds since the epoch, by AWS's clock. None: it hadn't ended when it was looked at.
    is_least
        Its end is when it was last seen: AWS had forgotten it, with its end.
    """

    instance_id: str
    group: str
    instance_type: str | None
    type_from: TypeFrom | None
    zone: str | None
    start: int
    end: int | None = None
    is_least: bool = False

    @classmethod
    def read(cls, row: Any) -> Self:
        """Read it from a row of the account."""
        instance_id, group, name, source, zone, start, end, least = row
        if not _INSTANCE_ID.fullmatch(instance_id) or not _is_time(start):
            raise ValueError("an instance's id or start isn't one")
        if end is not None and not (_is_time(end) and end >= start):
            raise ValueError("an instance has ended before its start")
        if source not in ("aws", "settings", "host", None):
            raise ValueError("an instance's type is from an unknown source")
        if name is not None and source is None:
            raise ValueError("an instance's type is from nowhere")
        return cls(
            instance_id,
            _text(group),
            _text_or_none(name),
            source,
            _text_or_none(zone),
            start,
            end,
            least == 1,
        )

    def to_row(self) -> list[Any]:
        """Return what `read` reads."""
        return [
            self.instance_id,
            self.group,
            self.instance_type,
            self.type_from,
            self.zone,
            self.start,
            self.end,
            int(self.is_least),
        ]


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

    @property
    def key(self) -> tuple[str, Market, str | None]:
        """What it is the price of."""
        return self.instance_type, self.market, self.zone

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read it from the account."""
        found = cls(
            instance_type=_text(document["instance_type"]),
            market=_market(document["market"]),
            zone=_text_or_none(document["zone"]),
            usd=Decimal(_text(document["usd"])),
            as_of=moment_text(document["as_of"]),
            source=_text(document["source"]),
        )
        if not (found.usd.is_finite() and found.usd >= 0):
            raise ValueError("a price is no amount")
        return found

    def to_document(self) -> dict[str, Any]:
        """Return what `read` reads."""
        return {**vars(self), "usd": format(self.usd, "f")}


@dataclass(frozen=True)
class Account:
    """One run: whose it was, which instances it had, and what they cost by the hour.

    Parameters
    ----------
    run_id, cluster, owner
        Which run, and the ARN of the caller that has started it.
    started_at, ended_at
        Seconds since the epoch, by AWS's clock. None: the run goes on.
    looked_at
        When AWS was asked last.
    groups
        The groups of the run, by their names in the cluster.
    tags
        Tags of its instances, without terradask's own.
    uses, prices
        Its instances, by id, and their prices.
    reason
        Why it has ended; None while it goes on, and where that isn't known.
    """

    run_id: str
    cluster: str
    owner: str
    started_at: int
    groups: Mapping[str, AccountGroup]
    tags: Mapping[str, str] = field(default_factory=dict)
    ended_at: int | None = None
    looked_at: int | None = None
    uses: Mapping[str, Use] = field(default_factory=dict)
    prices: tuple[UsePrice, ...] = ()
    reason: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing can be added: the run and all of its instances have ended."""
        return self.ended_at is not None and all(use.end is not None for use in self.uses.values())

    @property
    def last_end(self) -> int:
        """When its last instance has ended, or when the run was found to be over."""
        ends = [use.end for use in self.uses.values() if use.end is not None]
        return max(ends) if ends and self.is_settled else self.ended_at or self.started_at

    @property
    def state(self) -> str:
        """``running``, ``ending`` while an instance's end isn't known, or ``ended``."""
        return "running" if self.ended_at is None else "ended" if self.is_settled else "ending"

    def price_key(self, use: Use) -> tuple[str, Market, str | None] | None:
        """Return what an instance's price is looked up by; None if that isn't known."""
        group = self.groups.get(use.group)
        if group is None or use.instance_type is None:
            return None
        if group.market == "spot":
            return None if use.zone is None else (use.instance_type, "spot", use.zone)
        return use.instance_type, group.market, None

    def unpriced(self) -> list[tuple[str, Market, str | None]]:
        """Return what a price is still to be asked for: each once."""
        known = {price.key for price in self.prices}
        keys = (self.price_key(use) for use in self.uses.values())
        return list(dict.fromkeys(key for key in keys if key is not None and key not in known))

    def with_prices(self, prices: tuple[UsePrice, ...]) -> Account:
        """Return the account with more prices; those that it has stay."""
        known = {price.key for price in self.prices}
        return replace(
            self, prices=(*self.prices, *(one for one in prices if one.key not in known))
        )

    @classmethod
    def read(cls, document: Mapping[str, Any], run_id: str, cluster: str) -> Self:
        """Read an account, whose key says which run's it is."""
        if document["format"] != FORMAT:
            raise ValueError("an account isn't as format 1 says")
        uses = [Use.read(row) for row in document["instances"]]
        times = [document[name] for name in ("started_at", "ended_at", "looked_at")]
        if not _is_time(times[0]) or not all(at is None or _is_time(at) for at in times):
            raise ValueError("a time of an account is none")
        return cls(
            run_id,
            cluster,
            _text(document["owner"]),
            started_at=times[0],
            ended_at=times[1],
            looked_at=times[2],
            # An older terradask noted none.
            reason=_text_or_none(document.get("reason")),
            groups={
                _text(key): AccountGroup(_market(group["market"]), _texts(group["types"]))
                for key, group in document["groups"].items()
            },
            tags={_text(key): _text(value) for key, value in document["tags"].items()},
            uses={use.instance_id: use for use in uses},
            prices=tuple(UsePrice.read(one) for one in document["prices"]),
        )

    def to_document(self) -> dict[str, Any]:
        """Return what the account's object holds."""
        return {
            "format": FORMAT,
            "owner": self.owner,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "looked_at": self.looked_at,
            "reason": self.reason,
            "groups": {
                name: {"market": group.market, "types": list(group.types)}
                for name, group in self.groups.items()
            },
            "tags": dict(self.tags),
            "instances": [use.to_row() for use in self.uses.values()],
            "prices": [price.to_document() for price in self.prices],
        }


def next_starts(accounts: Iterable[Account]) -> dict[tuple[str, str], int]:
    """Return when the cluster's next run has started, by run and cluster; not of the last ones.

    What its groups launch from then on is the next run's.
    """
    by_cluster: dict[str, list[Account]] = {}
    for account in accounts:
        by_cluster.setdefault(account.cluster, []).append(account)
    return {
        (before.run_id, before.cluster): after.started_at
        for of_cluster in by_cluster.values()
        for before, after in pairwise(sorted(of_cluster, key=lambda one: one.started_at))
    }


def account_key(run_id: str, cluster: str) -> str:
    """Return an account's key under ``accounts/``."""
    return f"{run_id}/{cluster}.json"


def _text(value: object) -> str:
    return str(plain_lines(plain_text(value)))


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _market(value: object) -> Market:
    if value == "spot":
        return "spot"
    if value == "on-demand":
        return "on-demand"
    raise ValueError("there is no such market")


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**33
