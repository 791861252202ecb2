"""Parse user data as cloud-init does, limited to the ``write_files`` of a ``#cloud-config``."""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML carries no types

from terradask_simulator.errors import SimulatorError

__all__ = ["BootFailed", "WrittenFile", "check_installed", "parse_cloud_config", "write_files"]


class BootFailed(SimulatorError):
    """A host failed before its program started."""


def check_installed() -> None:
    """Refuse to boot a machine where terradask's host program isn't installed: the simulator is a
    separate distribution, which serves AWS without it. Raises `BootFailed`.
    """
    if find_spec("terradask_host") is None:
        raise BootFailed(
            "The instance boots terradask's host program, and terradask is not installed",
            advice="pip install terradask, into the environment of the embedded AWS",
        )


#: Errors of unpacking invalid or truncated gzip data.
_BROKEN = (OSError, EOFError, zlib.error)


@dataclass(frozen=True)
class WrittenFile:
    """A file that user data writes or appends to, at an absolute path of the host."""

    path: PurePosixPath
    content: bytes
    permissions: int = 0o644
    append: bool = False


def parse_cloud_config(user_data: bytes) -> list[WrittenFile]:
    """Return the files in user data."""
    try:
        text = (gzip.decompress(user_data) if user_data[:2] == b"\x1f\x8b" else user_data).decode()
    except (*_BROKEN, UnicodeDecodeError) as error:
        raise BootFailed("The user data isn't text", given=user_data[:40]) from error
    if not text.startswith("#cloud-config"):
        raise BootFailed(
            "The user data isn't a cloud-config document",
            given=text[:40],
            allowed="a first line `#cloud-config`",
        )
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BootFailed("The user data isn't valid YAML", given=str(error)) from error
    entries = (
        (document or {}).get("write_files") or []
        if isinstance(document, dict) or document is None
        else None
    )
    if not isinstance(entries, list):
        raise BootFailed("`write_files` in user data isn't a list", given=type(entries).__name__)
    return [_written(entry) for entry in entries]


def _written(entry: Any) -> WrittenFile:
    if not isinstance(entry, dict) or not str(entry.get("path", "")).startswith("/"):
        raise BootFailed("An entry of `write_files` has no absolute path", given=entry)
    path = PurePosixPath(str(entry["path"]))
    if ".." in path.parts:
        raise BootFailed("A path in `write_files` contains `..`", given=str(path))
    try:
        content = str(entry.get("content", "")).encode()
    except UnicodeEncodeError as error:
        raise BootFailed("The content of a file isn't text", given=str(path)) from error
    encoding = str(entry.get("encoding", "text/plain"))
    try:
        if encoding in ("b64", "base64", "gz+b64", "gz+base64", "gzip+b64", "gzip+base64"):
            content = base64.b64decode(b"".join(content.split()), validate=True)
        if encoding.startswith("gz"):
            content = gzip.decompress(content)
    except (binascii.Error, *_BROKEN) as error:
        raise BootFailed(
            "A file in `write_files` can't be decoded", given=f"{path} as {encoding}"
        ) from error
    permissions = str(entry.get("permissions", "0644"))
    try:
        mode = int(permissions, 8)
    except ValueError as error:
        raise BootFailed(
            "The permissions of a file in `write_files` aren't an octal number",
            given=f"{path}, {permissions}",
        ) from error
    return WrittenFile(path, content, mode, bool(entry.get("append", False)))


def write_files(files: list[WrittenFile], root: Path) -> None:
    """Write files below the folder of the host's root."""
    for file in files:
        target = root / file.path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab" if file.append else "wb") as stream:
            stream.write(file.content)
        target.chmod(file.permissions)
