"""The markets on which AWS is asked for instances. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Market = Literal["on-demand", "spot"]
#: Where a group of workers comes from, as the settings say it.
SpotPolicy = Literal["on-demand", "spot", "spot_with_fallback"]

#: Markets by policy, in the order in which AWS is asked.
MARKETS_OF_POLICY: Mapping[SpotPolicy, tuple[Market, ...]] = {
    "on-demand": ("on-demand",),
    "spot": ("spot",),
    "spot_with_fallback": ("spot", "on-demand"),
}

ON_DEMAND_ALONE: frozenset[Market] = frozenset({"on-demand"})
