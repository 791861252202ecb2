"""Why a cluster has the machines that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._stacks.resolve_hardware import ClusterHardware


@dataclass(frozen=True)
class HardwareExplanation:
    """What the settings ask for, what is chosen for it today, and what is locked."""

    #: The cluster's name.
    cluster: str
    #: What today's types and prices give.
    chosen: ClusterHardware
    #: Group -> the types that it has since they were chosen; empty where nothing is locked for what
    #: is asked.
    locked: Mapping[str, Sequence[str]]

    @property
    def changed(self) -> dict[str, Sequence[str]]:
        """The groups whose locked types are others than would be chosen today."""
        return {group: types for group, types in self.locked.items() if list(types) != self.chosen.types().get(group)}

    def explain(self) -> str:
        """Return it for people: several lines of plain text."""
        lines = [
            f"{group} has had these since they were chosen: {', '.join(types)}; `terradask plan --refresh {self.cluster}` chooses anew"
            for group, types in self.changed.items()
        ]
        return "\n\n".join([self.chosen.explain(), *lines])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {"cluster": self.cluster, **self.chosen.as_dict(), "locked": {group: list(types) for group, types in self.locked.items()}}
