"""Explain failed imports of modules that exist only on the client's machine.

It imports only the standard library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Variable with the comma-separated names.
VARIABLE = "TERRADASK_LOCAL_NAMES"


class LocalNames(MetaPathFinder):
    """Runs after all other finders, so a module that reaches it isn't on this host."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing. Raises `ModuleNotFoundError` for a module of the client's machine."""
        if path is None and fullname in self._names:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: it is on the client's machine only, and hosts "
                "don't get it. Make the cluster in its folder with local_modules=True",
                name=fullname,
            )
        return None


def explain_local_names() -> None:
    """Install the finder in this process."""
    names = os.environ.get(VARIABLE, "")
    if names and not any(isinstance(each, LocalNames) for each in sys.meta_path):
        sys.meta_path.append(LocalNames(names.split(",")))
