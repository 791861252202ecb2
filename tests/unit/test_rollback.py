"""A state that is older than what was applied last is refused; any other is none of this check's
business.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from terradask._terraform.state.model import StateVersion
from terradask._workspace.states import StackStates
from terradask.errors import StateConflict

from .network_folders import KEY, Folder

NOTED = StateVersion(12, "a-lineage")


@pytest.mark.parametrize(
    ("found", "is_older"),
    [
        (StateVersion(11, "a-lineage"), True),
        (NOTED, False),
        # An apply that was interrupted has written on.
        (StateVersion(15, "a-lineage"), False),
        # Destroyed and made again by another tool.
        (StateVersion(3, "another"), False),
    ],
)
def test_a_state_is_older_by_its_serial_in_its_own_lineage(
    found: StateVersion, is_older: bool
) -> None:
    assert found.is_before(NOTED) is is_older


class NotedState(StackStates):
    """A state of serial 11, and a note of the last apply, or none."""

    noted: StateVersion | None = NOTED

    @property
    def applied(self) -> Any:
        return self

    def version(self, stack: str) -> Any:
        return self.noted


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.objects[KEY] = b'{"serial": 11, "lineage": "a-lineage"}'
    return folder


@pytest.fixture
def states(folder: Folder) -> NotedState:
    return NotedState(folder.states._context)


def test_an_older_state_is_refused_with_both_serials_and_the_ways_on(states: NotedState) -> None:
    with pytest.raises(StateConflict, match="is older than after the last apply") as refused:
        states.check_not_rolled_back("network")
    told = str(refused.value)
    assert "network.tfstate has serial 11, the last apply left 12" in told
    assert "terradask plan network --accept-older-state" in told
    assert refused.value.exit_code == 5


def test_without_a_note_or_a_state_nothing_is_refused(states: NotedState, folder: Folder) -> None:
    states.noted = None
    # Deployed by another tool, or by an older version.
    states.check_not_rolled_back("network")
    states.noted = NOTED
    # Lost: what exists is imported, or found by its tags.
    folder.objects.clear()
    states.check_not_rolled_back("network")
