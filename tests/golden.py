"""Golden files: what is made now against what was kept."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

#: Set to anything, it has the tests write their golden files again.
UPDATE_VARIABLE = "UPDATE_GOLDEN"


def check_golden(path: Path, shown: str) -> None:
    """Fail with the difference where a golden file has something else.

    After a change that is meant: ``UPDATE_GOLDEN=1 .venv/bin/pytest <the test's file>``, and read
    the difference in git.
    """
    if os.environ.get(UPDATE_VARIABLE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(shown.encode())
    kept = path.read_bytes().decode() if path.exists() else ""
    if kept == shown:
        return
    lines = difflib.unified_diff(
        kept.splitlines(keepends=True),
        shown.splitlines(keepends=True),
        f"{path.name} (kept)",
        f"{path.name} (made now)",
    )
    advice = (
        f"If the change is meant, run the test again with {UPDATE_VARIABLE}=1, and read the "
        "difference in git."
    )
    raise AssertionError(f"{''.join(lines)}\n{advice}")
