"""AWS's answers on disk, so that it isn't asked each time."""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from terradask._aws.session import is_loopback_endpoint
from terradask._aws.translation import ENDPOINT_VARIABLE


class AnswerCache:
    """JSON documents, one file each, that several processes may read and write at once.

    A file that can't be read, or holds no JSON, counts as absent. One that can't be written is left out.
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
            handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(document, stream, separators=(",", ":"))
                Path(temporary).replace(file)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def _file(self, names: tuple[str, ...]) -> Path:
        if self._folder is None:
            from platformdirs import user_cache_path

            self._folder = user_cache_path("terradask") / self._name
        *folders, last = map(_safe, names)
        return self._folder.joinpath(*folders, f"{last}.json")


def endpoint_place(endpoint: str | None) -> str | None:
    """Return the name under which an endpoint's answers are kept; None for one on this machine, whose answers die with it."""
    if endpoint is None or is_aws(endpoint):
        return "aws"
    return None if is_loopback_endpoint({ENDPOINT_VARIABLE: endpoint}) else urlsplit(endpoint).netloc


def is_aws(endpoint: str) -> bool:
    """Tell whether an endpoint's URL is one of AWS's own."""
    return (urlsplit(endpoint).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).lstrip(".") or "_"
