"""Tables ``[offers.NAME]``: saved settings of clusters, and what their users may choose."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from terradask_stacks.settings.base import Section
from terradask_stacks.settings.cluster import ClusterSettings


class OfferSettings(Section):
    """Saved settings of clusters, and their choices. Its table also takes every setting of
    ``[cluster]`` but ``offer``.
    """

    description: str = Field(
        default="", max_length=200, description="Purpose, shown by `terradask offers`."
    )
    choose: dict[str, Any] = Field(
        default={},
        description="Setting of [cluster] -> its allowed values: { min = 1, max = 8 } for numbers "
        "and sizes, a list of values for others, or 'any'.",
    )
    cluster: ClusterSettings = Field(
        default=ClusterSettings(), description="A cluster of which nothing is chosen."
    )
    fixed: list[str] = Field(default=[], description="The settings that its table has.")


#: What a table ``[offers.NAME]`` has beside settings of ``[cluster]``.
OFFER_KEYS = ("description", "choose")
