"""Answers on disk, so that a service isn't asked each time."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from terradask_stacks.files import write_whole


class DiskCache:
    """JSON documents in the user's cache folder, one file each, that several processes may read and
    write at once.

    A file that can't be read, or holds no JSON, counts as absent. One that can't be written is left
    out.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._name = name
        self._folder = folder

    def read(self, *names: str) -> Any:
        """Return a document; None where there is none."""
        try:
            return json.loads(self._file(names).read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, document: Any, *names: str) -> None:
        """Keep a document: others read the old one, or all of the new one."""
        file = self._file(names)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(document, separators=(",", ":")))

    def _file(self, names: tuple[str, ...]) -> Path:
        if self._folder is None:
            from platformdirs import user_cache_path

            self._folder = user_cache_path("terradask") / self._name
        *folders, last = map(_safe, names)
        return self._folder.joinpath(*folders, f"{last}.json")


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).lstrip(".") or "_"
