"""The host program as a wheel: the same bytes from the same files, on any machine."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from terradask_modules.errors import TerradaskError
from terradask_stacks.wheel_file import pure_wheel

PACKAGE = "terradask_host"

#: The folder in the stack's for the file.
FOLDER = "host"

_METADATA = """\
Summary: The program that each instance of a terradask cluster runs
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: botocore
Requires-Dist: uv
"""


@dataclass(frozen=True)
class HostWheel:
    """A built wheel."""

    name: str
    content: bytes

    @cached_property
    def sha256(self) -> str:
        """The checksum, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def key(self) -> str:
        """Its key in the workspace bucket; contains the checksum, so that an instance never finds
        another file under its key.
        """
        return f"host/{self.sha256}/{self.name}"

    @property
    def source(self) -> str:
        """Path of the file, relative to the folder in which Terraform runs."""
        return f"{FOLDER}/{self.name}"


def build_host_wheel() -> HostWheel:
    """Build the wheel of ``terradask_host`` from the installed package's files, without importing
    it.

    Nothing is compressed: compressors differ between machines, and the checksum is part of every
    launch template. The same files give the same bytes, and a plan shows no change.

    Raises `TerradaskError` when the package is not installed, or its version can't be read.
    """
    source = _package_folder()
    members = {
        f"{PACKAGE}/{path.relative_to(source).as_posix()}": path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    options = {"compression": zipfile.ZIP_STORED, "mode": 0o100644}
    version = _version(source / "__init__.py")
    return HostWheel(*pure_wheel("terradask-host", version, members, _METADATA, **options))


def _package_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise TerradaskError(
            f"The package {PACKAGE} is not installed.",
            advice="Install terradask completely: pip install --force-reinstall terradask.",
        )
    return Path(spec.origin).parent


def _version(path: Path) -> str:
    found = re.search(r'^__version__ = "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise TerradaskError(
            f"{path} has no __version__.", advice="Install terradask again: its files are damaged."
        )
    return found[1]
