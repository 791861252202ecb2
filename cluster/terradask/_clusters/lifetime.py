"""Derive a run's lifetime policy, for ``run.json``, from settings, and parse durations."""

from __future__ import annotations

import contextlib
import datetime
import math
from typing import TYPE_CHECKING, Literal

from terradask.errors import InvalidInput
from terradask_host.documents import LifetimePolicy

if TYPE_CHECKING:
    from terradask_stacks.settings.life import LifeSettings

#: A duration in arguments: ``"20 minutes"``, seconds, a `timedelta`, or False for never.
Duration = str | float | datetime.timedelta | Literal[False]


def lifetime_policy(
    settings: LifeSettings, *, closes_with_client: bool = False, destroyed_after: bool = False
) -> LifetimePolicy:
    """Return the lifetime policy of one run from the cluster's settings."""
    from terradask_stacks.settings import life as defaults

    idle = settings.idle_timeout_seconds
    no_client = settings.no_client_timeout_seconds
    if no_client is None:
        no_client = defaults.NO_CLIENT_TIMEOUT_SECONDS if closes_with_client else False
    return LifetimePolicy(
        idle_timeout_seconds=_or_never(defaults.IDLE_TIMEOUT_SECONDS if idle is None else idle),
        idle_timeout_yields=idle is None,
        no_client_timeout_seconds=_or_never(no_client),
        max_lifetime_seconds=settings.max_lifetime_seconds,
        scheduler_silent_seconds=settings.scheduler_silent_seconds,
        destroyed_after=destroyed_after,
    )


def parse_duration(
    name: str, value: Duration | None, *, never: bool = True, also: str = ""
) -> float | Literal[False] | None:
    """Return a duration in seconds, False for never, or None. Raises `InvalidInput`, with what is
    allowed `also`.
    """
    from dask.utils import parse_timedelta

    if value is None or (value is False and never):
        return None if value is None else False
    seconds = math.nan
    if isinstance(value, str | int | float | datetime.timedelta) and not isinstance(value, bool):
        # Also of an empty text, a text of blanks, and a number beyond all bounds.
        with contextlib.suppress(LookupError, ValueError, OverflowError):
            seconds = float(parse_timedelta(value))
    if not math.isfinite(seconds) or seconds <= 0:
        raise InvalidInput(
            f"{name} is not a duration.",
            given=value,
            allowed=(
                'a duration such as "20 minutes" or "30s", or seconds, greater than 0'
                + ("; False for never" if never else also)
            ),
            advice="to end the cluster at once, close it, stop it or shut it down"
            if never
            else "leave it out for the default",
        )
    return seconds


def _or_never(seconds: float | Literal[False]) -> float | None:
    return None if seconds is False else seconds
