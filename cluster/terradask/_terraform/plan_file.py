"""A saved plan: its file, and what ``terraform plan`` said of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PlanFile:
    """A saved plan."""

    #: The file. It holds the state and secrets in plain text: readable by its owner alone.
    path: Path
    #: Its checksum.
    sha256: str
    #: The addresses of the resources that it creates.
    creates: tuple[str, ...] = ()
    #: `add`, `change`, `remove`: terraform's counts; a replacement counts as one of each.
    add: int = 0
    change: int = 0
    remove: int = 0
    #: How many resources that exist it takes into the state.
    imports: int = 0

    @property
    def changed(self) -> bool:
        """Whether applying it would change a resource, or what the state knows."""
        return bool(self.add or self.change or self.remove or self.imports)
