"""A state older than what was applied last: it doesn't know what was made since."""

from __future__ import annotations

from terradask._terraform.state.model import StateVersion
from terradask.errors import StateRolledBack


def check_not_rolled_back(
    stack: str, found: StateVersion | None, noted: StateVersion | None, *, place: str, folder: str
) -> None:
    """Refuse a state older than the last apply's. Raises `StateRolledBack`."""
    # Of another lineage: the stack was destroyed and made again since, by whatever tool.
    if (
        found is None
        or noted is None
        or found.lineage != noted.lineage
        or found.serial >= noted.serial
    ):
        return
    raise StateRolledBack(
        (
            f"the state of {stack} is older than after the last apply: an earlier version "
            "was restored"
        ),
        verb="state",
        folder=folder,
        given=(
            f"{place} has serial {found.serial}, the last apply left {noted.serial} (lineage "
            f"{noted.lineage})"
        ),
        allowed=f"serial {noted.serial} or more",
        advice="restore the newest version (aws s3api list-object-versions, or your backup); to "
        "continue with the older one and see what "
        f"that changes: terradask plan {stack} --accept-older-state",
    )
