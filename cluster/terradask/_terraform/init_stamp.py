"""Whether a stack's folder is initialised, and for what, as a stamp in the folder says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask._common.json_text import read_object
from terradask._terraform.folder_contents import BACKEND_RECORD, DATA, STAMP


@dataclass(frozen=True)
class InitStamp:
    """Notes in a folder what ``terraform init`` made it ready for."""

    #: The stack's folder.
    folder: Path
    #: A checksum over everything that ``init`` depends on, as `init_key` makes it.
    key: str

    @property
    def holds(self) -> bool:
        """Whether the folder was initialised for the same key, and still has what that made."""
        # <host>/<namespace>/<type>/<version>/<platform>: links into the mirror.
        packages = list((self.folder / ".terraform/providers").glob("*/*/*/*/*"))
        present = bool(packages) and all(package.exists() for package in packages)
        return (
            present
            and (self.folder / DATA / BACKEND_RECORD).is_file()
            and read_object(self._path).get("key") == self.key
        )

    def remove(self) -> None:
        """Note that the folder isn't initialised: while ``init`` runs, and if it fails."""
        self._path.unlink(missing_ok=True)

    def write(self) -> None:
        """Note that the folder is initialised."""
        self._path.write_text(json.dumps({"key": self.key}), encoding="utf-8")

    @property
    def _path(self) -> Path:
        return self.folder / DATA / STAMP


def init_key(
    configuration: Mapping[str, Any],
    *,
    lock_file: Path,
    cli_config: Path | None,
    terraform_version: str,
) -> str:
    """Return a checksum over everything that ``init`` depends on."""
    parts = {
        "terraform": configuration.get("terraform"),
        "module": configuration.get("module"),
        "lock": _content(lock_file),
        "version": terraform_version,
        "cli_config": _content(cli_config) if cli_config else "",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
