"""What a sweep has found, and what became of it. Pure data."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from terradask._cleanup.inventory import Kind, NotVisible
from terradask._cleanup.orphans import Stray
from terradask._pricing.prices import Quotes
from terradask._pricing.running import hourly_usd


@dataclass(frozen=True)
class Sweep:
    """What a look has found that nobody owns.

    Parameters
    ----------
    workspace, region, account
        Where it looked.
    looked_at
        When, by AWS's clock.
    grace_seconds
        How long a thing is left alone.
    strays
        What nobody owns. `Stray.may_go` tells whether it may be removed already, `Stray.held` who works on it.
    unseen
        What the caller may not look at.
    quotes
        The prices of what costs among the strays.
    first_seen
        When that was seen first of which AWS has no date.
    """

    workspace: str
    region: str
    account: str
    looked_at: datetime.datetime
    grace_seconds: float
    strays: tuple[Stray, ...]
    unseen: tuple[NotVisible, ...] = ()
    quotes: Quotes = field(default_factory=lambda: Quotes(""))
    first_seen: Mapping[tuple[Kind, str], datetime.datetime] = field(default_factory=dict)

    def hourly_usd(self, stray: Stray) -> Decimal | None:
        """Return what a stray costs by the hour, in US dollars, with what goes with it; None where a price is missing."""
        return hourly_usd(stray.parts, self.quotes)

    def age_seconds(self, stray: Stray) -> float | None:
        """Return how old a stray is; None where AWS doesn't say."""
        return None if stray.born is None else max(0.0, (self.looked_at - stray.born).total_seconds())

    def as_dict(self) -> dict[str, Any]:
        """Return what was found, for ``--json`` output; prices as text."""
        return {
            "workspace": self.workspace,
            "region": self.region,
            "account": self.account,
            "looked_at": self.looked_at.isoformat(),
            "grace_seconds": self.grace_seconds,
            "strays": [self._stray(stray) for stray in self.strays],
            "unseen": [{"what": one.what, "action": one.action} for one in self.unseen],
        }

    def _stray(self, stray: Stray) -> dict[str, Any]:
        usd = self.hourly_usd(stray)
        return {
            "kind": stray.kind,
            "id": stray.id,
            "cluster": stray.cluster,
            "age_seconds": self.age_seconds(stray),
            "reason": stray.reason,
            "hourly_usd": None if usd is None else format(usd.normalize(), "f"),
            "held": stray.held,
            "removable": stray.may_go(self.looked_at),
        }


@dataclass(frozen=True)
class Swept:
    """What became of strays.

    Parameters
    ----------
    removed
        What is gone.
    kept
        What was left alone -> why: it is too young, somebody works on it, or somebody owns it by now.
    failed
        What could not be removed -> why.
    """

    removed: tuple[Stray, ...]
    kept: Mapping[Stray, str]
    failed: Mapping[Stray, str]

    def as_dict(self) -> dict[str, Any]:
        """Return it for ``--json`` output."""
        return {
            "removed": [_name(stray) for stray in self.removed],
            "kept": [{**_name(stray), "why": why} for stray, why in self.kept.items()],
            "failed": [{**_name(stray), "why": why} for stray, why in self.failed.items()],
        }


def _name(stray: Stray) -> dict[str, Any]:
    return {"kind": stray.kind, "id": stray.id, "cluster": stray.cluster}
