"""The part of ``[cluster]`` that says when a running cluster ends by itself."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from terradask_stacks.settings.base import Number, Section
from terradask_stacks.validators.refusal import refuse

#: What holds where the settings are silent.
IDLE_TIMEOUT_SECONDS = 1200.0
NO_CLIENT_TIMEOUT_SECONDS = 120.0
SCHEDULER_SILENT_SECONDS = 600

#: For so long the keys of a run are valid; no client could connect to an older cluster.
MOST_LIFETIME_SECONDS = 30 * 86_400


def _limit(value: Any) -> float | Literal[False] | None:
    """Return a number of seconds, False for never, or None where nothing is said."""
    if value is None or value is False:
        return None if value is None else False
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise refuse(
            f"{value!r} is not a limit in seconds",
            allowed="a number of seconds greater than 0, or false for never",
        )
    return float(value)


Limit = Annotated[float | Literal[False] | None, BeforeValidator(_limit)]


class LifeSettings(Section):
    """When a running cluster ends by itself: its hosts decide that, without a client."""

    idle_timeout_seconds: Limit = Field(
        default=None,
        description="End an idle cluster after this time, in seconds; false: never. Unset: "
        "1200, unless scheduler_options or Dask's configuration set Dask's own timeout.",
        examples=[3600],
    )
    no_client_timeout_seconds: Limit = Field(
        default=None,
        description="End a cluster after this time without a client, in seconds; false: "
        "never. Unset: 120 for a cluster that closes with its Cluster object, otherwise never.",
        examples=[300],
    )
    max_lifetime_seconds: Number = Field(
        default=MOST_LIFETIME_SECONDS,
        gt=0,
        le=MOST_LIFETIME_SECONDS,
        allow_inf_nan=False,
        description="End a cluster this long after its start, in seconds, whatever it is "
        "running. At most 30 days, the lifetime of its keys.",
    )
    scheduler_silent_seconds: Number = Field(
        default=SCHEDULER_SILENT_SECONDS,
        gt=0,
        allow_inf_nan=False,
        description="Time after which a worker's host without a scheduler leaves, in seconds.",
    )
