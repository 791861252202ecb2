"""The markets on which instances are requested. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Market = Literal["on-demand", "spot"]
#: Markets of a group of workers, in the settings' form.
SpotPolicy = Literal["on-demand", "spot", "spot_with_fallback"]

#: Markets by policy, in the order of requests.
MARKETS_OF_POLICY: Mapping[SpotPolicy, tuple[Market, ...]] = {
    "on-demand": ("on-demand",),
    "spot": ("spot",),
    "spot_with_fallback": ("spot", "on-demand"),
}

ON_DEMAND_ALONE: frozenset[Market] = frozenset({"on-demand"})
