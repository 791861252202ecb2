"""Orphans found by a sweep, and the results of their removal. Pure data."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from terradask._catalog.prices.estimate import price_text
from terradask._catalog.prices.prices import Quotes, hourly_usd
from terradask._cleanup.orphans import Kind, NotVisible, Orphan


@dataclass(frozen=True)
class Sweep:
    """The orphans that a scan has found.

    Parameters
    ----------
    workspace, region, account
        Place of the scan.
    looked_at
        Time of the scan, by AWS's clock.
    grace_seconds
        Age from which on an orphan may be removed, in seconds.
    strays
        The orphans. `Orphan.may_go` returns whether one may be removed already, `Orphan.held` why
        not.
    unseen
        What the caller has no permission to read.
    strange_keys
        Keys in the bucket, under ``clusters/``, that no cluster can have. They stay.
    quotes
        Prices of the orphans.
    first_seen
        When items without a date in AWS were first seen.
    """

    workspace: str
    region: str
    account: str
    looked_at: datetime.datetime
    grace_seconds: float
    strays: tuple[Orphan, ...]
    unseen: tuple[NotVisible, ...] = ()
    strange_keys: tuple[str, ...] = ()
    quotes: Quotes = field(default_factory=lambda: Quotes(""))
    first_seen: Mapping[tuple[Kind, str], datetime.datetime] = field(default_factory=dict)

    def hourly_usd(self, stray: Orphan) -> Decimal | None:
        """Return an orphan's hourly cost in US dollars, with its parts; None if a price
        is missing.
        """
        return hourly_usd(stray.parts, self.quotes)

    def age_seconds(self, stray: Orphan) -> float | None:
        """Return an orphan's age; None if AWS has no date for it."""
        return (
            None if stray.born is None else max(0.0, (self.looked_at - stray.born).total_seconds())
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what was found, for ``--json`` output; prices as text."""
        return {
            "workspace": self.workspace,
            "region": self.region,
            "account": self.account,
            "looked_at": self.looked_at.isoformat(),
            "grace_seconds": self.grace_seconds,
            "strays": [self._orphan(orphan) for orphan in self.strays],
            "strange_keys": list(self.strange_keys),
            "unseen": [{"what": one.what, "action": one.action} for one in self.unseen],
        }

    def _orphan(self, orphan: Orphan) -> dict[str, Any]:
        return {
            "kind": orphan.kind,
            "id": orphan.id,
            "cluster": orphan.cluster,
            "age_seconds": self.age_seconds(orphan),
            "reason": orphan.reason,
            "hourly_usd": price_text(self.hourly_usd(orphan)),
            "held": orphan.held,
            "removable": orphan.may_go(self.looked_at),
        }


@dataclass(frozen=True)
class Swept:
    """The results of removing orphans.

    Parameters
    ----------
    removed
        The removed orphans.
    kept
        Kept orphan -> reason: too young, locked by a command, or owned by now.
    failed
        Orphan that could not be removed -> reason.
    """

    removed: tuple[Orphan, ...]
    kept: Mapping[Orphan, str]
    failed: Mapping[Orphan, str]

    def as_dict(self) -> dict[str, Any]:
        """Return it for ``--json`` output."""
        return {
            "removed": [_name(orphan) for orphan in self.removed],
            "kept": [{**_name(orphan), "why": why} for orphan, why in self.kept.items()],
            "failed": [{**_name(orphan), "why": why} for orphan, why in self.failed.items()],
        }


def _name(orphan: Orphan) -> dict[str, Any]:
    return {"kind": orphan.kind, "id": orphan.id, "cluster": orphan.cluster}
