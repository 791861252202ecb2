"""Which process of a run gets which files: those that share what takes long to make go to one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

#: What the files of each kind share, by a fixture: a deployed network, which takes half a minute,
#: and Node.js with the provider's bindings.
_KINDS = {"sim": "sim", "quick_provider": "synthesis", "synth_text": "synthesis"}

#: Which kinds the first process takes first, and so on; all others are like the last.
_ORDERS = (
    ("sim", "synthesis", ""),
    ("synthesis", "", "sim"),
    ("", "synthesis", "sim"),
)

#: With fewer files of `sim` left, the first process has run them before another has a network.
_FEW = 6


def kinds_of(items: Sequence[pytest.Item]) -> dict[str, str]:
    """Return the kind of each file that has one, by the start of its tests' ids."""
    found: dict[str, str] = {}
    for item in items:
        names = getattr(item, "fixturenames", ())
        for fixture, kind in _KINDS.items():
            if fixture in names and _is_of_session(item, fixture):
                found.setdefault(item.nodeid.partition("::")[0], kind)
                break
    return found


def _is_of_session(item: Any, name: str) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs.get(name)
    return bool(fixtures) and fixtures[-1].scope == "session"


class Distribution(LoadFileScheduling):
    """Give whole files to processes, the first that is left of the kind that each prefers.

    Parameters
    ----------
    kinds_file
        Where a process that has collected the tests writes what `kinds_of` returns.
    """

    def __init__(self, config: pytest.Config, log: Any, kinds_file: Path) -> None:
        super().__init__(config, log)
        self._kinds_file = kinds_file
        self._kinds: dict[str, str] = {}

    def schedule(self) -> None:
        """Begin, once all have collected."""
        if self.collection is None and self._kinds_file.exists():
            self._kinds = json.loads(self._kinds_file.read_text())
        super().schedule()

    def _assign_work_unit(self, node: Any) -> None:
        # Of the same rank the first is taken.
        self.workqueue.move_to_end(min(self.workqueue, key=self._rank_for(node)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        left = {self._kinds.get(file, "") for file in self.workqueue}
        if left == {"sim"} and len(self.workqueue) < _FEW and self._is_beside_first(node):
            node.shutdown()
        else:
            super()._reschedule(node)

    def _rank_for(self, node: Any) -> Callable[[str], int]:
        order = _ORDERS[min(_number(node), len(_ORDERS) - 1)]
        return lambda file: order.index(self._kinds.get(file, ""))

    def _is_beside_first(self, node: Any) -> bool:
        """Return whether the first process is there, and is another one."""
        return _number(node) > 0 and any(
            _number(other) == 0 and not other.shutting_down for other in self.nodes
        )


def _number(node: Any) -> int:
    return int(node.gateway.id.removeprefix("gw"))
