"""The reasons for a cluster's instance types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._stacks.resolve_hardware import ClusterHardware


@dataclass(frozen=True)
class HardwareExplanation:
    """The requested hardware, today's choice for it, and the locked types."""

    cluster: str
    #: The choice with today's types and prices.
    chosen: ClusterHardware
    #: Group -> its locked types; empty if nothing is locked for this request.
    locked: Mapping[str, Sequence[str]]

    @property
    def changed(self) -> dict[str, Sequence[str]]:
        """The groups whose locked types differ from today's choice."""
        return {
            group: types
            for group, types in self.locked.items()
            if list(types) != self.chosen.types().get(group)
        }

    def explain(self) -> str:
        """Return it as several lines of plain text."""
        lines = [
            (
                f"{group} has had these since they were chosen: {', '.join(types)}; `terradask "
                f"plan --refresh {self.cluster}` chooses anew"
            )
            for group, types in self.changed.items()
        ]
        return "\n\n".join([self.chosen.explain(), *lines])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "cluster": self.cluster,
            **self.chosen.as_dict(),
            "locked": {group: list(types) for group, types in self.locked.items()},
        }
