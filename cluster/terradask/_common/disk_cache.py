"""Cache a service's answers on disk."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from terradask_stacks.files import write_whole
from terradask_stacks.user_folders import cache_folder


class DiskCache:
    """JSON documents in the user's cache folder, one file each, safe for concurrent processes.

    An unreadable or invalid file counts as missing; a failed write is ignored.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._name = name
        self._folder = folder

    def read(self, *names: str) -> Any:
        """Return a document, or None."""
        try:
            return json.loads(self._file(names).read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, document: Any, *names: str) -> None:
        """Write a document atomically."""
        file = self._file(names)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(document, separators=(",", ":")))

    def _file(self, names: tuple[str, ...]) -> Path:
        if self._folder is None:
            self._folder = cache_folder() / self._name
        *folders, last = map(_safe, names)
        return self._folder.joinpath(*folders, f"{last}.json")


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).lstrip(".") or "_"
