"""Release a parent's connections, locks and processes in a forked child."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TypeVar

_Kept = TypeVar("_Kept")


def left_to_parent(leave: Callable[[_Kept], None]) -> weakref.WeakSet[_Kept]:
    """Return a set of objects; every forked child calls `leave` with each."""
    kept: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def leave_all() -> None:
        for each in list(kept):
            leave(each)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=leave_all)
    return kept
