"""Check that a stack's folder contains only files from synthesis.

The folder lies beside ``terradask.toml``, so a repository can add files to it. Terraform loads
every ``*.tf``, ``*.tf.json`` and ``*.tfvars`` of its working folder, and trusts the results of an
earlier ``init`` in ``.terraform``: a planted file could run a program of the repository, or send
the state to another bucket, without a question.
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
#: Import blocks: existing resources that a plan imports into the state.
IMPORTS = "imports.tf.json"
LOCK_FILE = ".terraform.lock.hcl"
#: Terraform's data folder, and its record of the backend.
DATA = ".terraform"
BACKEND_RECORD = "terraform.tfstate"
STAMP = "terradask.json"

_PROVIDERS = "providers"
_WRITTEN = frozenset({CONFIGURATION, IMPORTS, "host"})
#: Files of Terraform or the ``cdktf`` command that neither loads.
_UNREAD = frozenset({"errored.tfstate", "crash.log", "plan"})
#: ``<host>/<namespace>/<type>/<version>``; deeper links into a mirror are Terraform's own.
_LEVELS = 4
_NAMED = 5


def check_contents(folder: Path) -> None:
    """Refuse a folder with other files that Terraform would load, and clean Terraform's data folder
    from records of other configurations.

    Raises `InvalidInput`.
    """
    if not folder.is_dir():
        return
    # Terraform ignores hidden files and editors' backups.
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
            "the folder in which Terraform runs contains foreign files, which Terraform would load",
            given=f"{folder}: {some(foreign, _NAMED)}",
            allowed="files of `terradask synth`",
            advice="inspect and remove them; resources of your own belong in a Terraform project "
            "of their own",
        )
    _tidy(folder / DATA, read_object(folder / CONFIGURATION))


def _tidy(data: Path, configuration: Mapping[str, Any]) -> None:
    """Keep only the providers, which Terraform compares with the lock file at every command, and
    the record of this configuration's backend; other records would select another place, workspace
    or module.
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
    """Return whether Terraform's record describes the configuration's backend: with the
    configuration's checksum, Terraform uses the record's values.
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
