"""What Terraform finds in a stack's folder: what synthesis has written, and nothing else.

The folder lies beside ``terradask.toml``, so a repository can bring along files for it. Terraform
loads every ``*.tf``, ``*.tf.json`` and ``*.tfvars`` of its working folder, and believes what an
earlier ``init`` has left in ``.terraform``: a file there would run a program of the repository, or
send the state to another bucket, before the user was asked.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from terradask._common.json_text import read_object
from terradask._common.naming import some
from terradask_modules.errors import InvalidInput

CONFIGURATION = "cdk.tf.json"
#: Resources that exist and that a plan takes into the state.
IMPORTS = "imports.tf.json"
LOCK_FILE = ".terraform.lock.hcl"
#: Terraform's own folder, and in it what it remembers of the backend.
DATA = ".terraform"
BACKEND_RECORD = "terraform.tfstate"
STAMP = "terradask.json"

_PROVIDERS = "providers"
_WRITTEN = frozenset({CONFIGURATION, IMPORTS, "host"})
#: Left by Terraform or the ``cdktf`` command, and loaded by neither.
_UNREAD = frozenset({"errored.tfstate", "crash.log", "plan"})
#: ``<host>/<namespace>/<type>/<version>``; below that, a link into a mirror is Terraform's own.
_LEVELS = 4
_NAMED = 5


def check_contents(folder: Path) -> None:
    """Refuse a folder in which something else lies that Terraform would load, and remove from
    Terraform's own folder what it hasn't put there for this configuration.

    Raises `InvalidInput`.
    """
    if not folder.is_dir():
        return
    # Terraform passes over hidden files, and those that an editor leaves.
    foreign = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_symlink()
        or not (
            path.name.startswith(".") or path.name in _WRITTEN | _UNREAD or path.name[-1] == "~"
        )
    )
    if foreign:
        raise InvalidInput(
            "the folder in which Terraform runs has files that terradask didn't write: Terraform "
            "would load them",
            given=f"{folder}: {some(foreign, _NAMED)}",
            allowed="what `terradask synth` writes there",
            advice="look at them, and remove them; own resources belong in a Terraform project of "
            "their own",
        )
    _tidy(folder / DATA, read_object(folder / CONFIGURATION))


def _tidy(data: Path, configuration: Mapping[str, Any]) -> None:
    """Keep of Terraform's folder the providers, which it compares with the lock file at every
    command, and what it remembers of this configuration's backend: by what else it remembers, it
    would use another place, a workspace or a module.
    """
    if not data.is_dir():
        return
    for path in data.iterdir():
        if path.name not in (_PROVIDERS, BACKEND_RECORD, STAMP):
            _remove(path)
    if _has_link(data / _PROVIDERS):
        _remove(data / _PROVIDERS)
    record = data / BACKEND_RECORD
    if record.exists() and not _is_of(read_object(record), configuration):
        record.unlink()


def _is_of(record: Mapping[str, Any], configuration: Mapping[str, Any]) -> bool:
    """Return whether what Terraform remembers is the configuration's backend: if the record has
    the configuration's checksum, Terraform works with the record's own values.
    """
    backend = record.get("backend")
    if not isinstance(backend, Mapping) or not isinstance(backend.get("config"), Mapping):
        return False
    found = {name: value for name, value in backend["config"].items() if value is not None}
    declared = configuration.get("terraform", {}).get("backend", {})
    return bool(declared == {backend.get("type"): found})


def _has_link(folder: Path) -> bool:
    return folder.is_symlink() or any(
        path.is_symlink()
        for level in range(1, _LEVELS + 1)
        for path in folder.glob("/".join("*" * level))
    )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
