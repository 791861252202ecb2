"""Modules that lie where the cluster was made, and that its hosts don't get: the error of an import
says how they do. It imports only the standard library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Their names, with commas between them.
VARIABLE = "TERRADASK_LOCAL_NAMES"


class LocalNames(MetaPathFinder):
    """Stands behind all finders: what it is asked for isn't on this host."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing. Raises `ModuleNotFoundError` for such a module."""
        if path is None and fullname in self._names:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: it lies where the cluster was made, and hosts "
                "don't get it. Make the cluster in its folder with local_modules=True",
                name=fullname,
            )
        return None


def tell_of_local_names() -> None:
    """Let imports in this process say it."""
    names = os.environ.get(VARIABLE, "")
    if names and not any(isinstance(each, LocalNames) for each in sys.meta_path):
        sys.meta_path.append(LocalNames(names.split(",")))
