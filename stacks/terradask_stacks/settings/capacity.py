"""The part of ``[cluster]`` that says on which markets AWS is asked for workers."""

from __future__ import annotations

from pydantic import Field

from terradask_modules.markets import SpotPolicy
from terradask_stacks.settings.base import Section


class CapacitySettings(Section):
    """Where workers come from. The scheduler is always on-demand."""

    spot_policy: SpotPolicy = Field(
        default="on-demand",
        description="Market of the workers: on-demand; spot, which is cheaper and which AWS may "
        "interrupt; or spot_with_fallback: "
        "on-demand if there is no spot capacity. The scheduler is always on-demand.",
    )
    spot_fallback_seconds: float = Field(
        default=60,
        gt=0,
        description="With spot_with_fallback: how long the spot group may launch nothing before "
        "the missing instances are requested "
        "on-demand, in seconds. If AWS reports that it has no spot capacity, they are requested "
        "at once.",
    )
