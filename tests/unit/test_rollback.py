"""A state that is older than what was applied last is refused; any other is none of this check's
business.
"""

from __future__ import annotations

import pytest

from terradask._terraform.state.model import StateVersion
from terradask._terraform.state.rollback import check_not_rolled_back
from terradask.errors import StateRolledBack

NOTED = StateVersion(12, "a-lineage")


@pytest.mark.parametrize(
    ("found", "noted"),
    [
        (NOTED, NOTED),
        # An apply that was interrupted has written on.
        (StateVersion(15, "a-lineage"), NOTED),
        # Lost: what exists is imported, or found by its tags.
        (None, NOTED),
        # Nobody noted anything: deployed by another tool, or by an older version.
        (StateVersion(1, "a-lineage"), None),
        # Destroyed and made again by another tool.
        (StateVersion(3, "another"), NOTED),
    ],
)
def test_what_is_not_older_passes(found: StateVersion | None, noted: StateVersion | None) -> None:
    check_not_rolled_back("etl", found, noted, place="s3://b/k", folder="/w/etl")


def test_an_older_state_is_refused_with_both_serials_and_the_ways_on() -> None:
    with pytest.raises(StateRolledBack) as refused:
        check_not_rolled_back(
            "etl", StateVersion(11, "a-lineage"), NOTED, place="s3://b/k", folder="/w/etl"
        )
    told = str(refused.value)
    assert "s3://b/k has serial 11, the last apply left 12" in told
    assert "terradask plan etl --accept-older-state" in told
    assert refused.value.exit_code == 5
