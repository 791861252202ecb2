"""The scripts of hosts that the settings name, read and checked."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from terradask_modules.names import HOST_SCRIPT_PREFIX, HOST_SCRIPTS
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.loading import LoadedSettings

#: As much as a host reads.
MOST_BYTES = 64 * 2**10
_FILE = "a file below the folder of terradask.toml, without symbolic links on the way"


@dataclass(frozen=True)
class HostScript:
    """A script for hosts."""

    content: bytes
    #: When a host kills it.
    timeout_seconds: int

    @cached_property
    def sha256(self) -> str:
        """Its SHA-256, in hexadecimal; a host runs no other file."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def key(self) -> str:
        """Its key in the workspace's bucket."""
        return HOST_SCRIPT_PREFIX + self.sha256

    @property
    def content_base64(self) -> str:
        """Its bytes in base64: Terraform would read templates in a text."""
        return base64.b64encode(self.content).decode()

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``host.json`` names it."""
        return {"sha256": self.sha256, "timeout_seconds": self.timeout_seconds}


#: By their names in ``host.json``.
HostScripts = Mapping[str, HostScript]


def read_host_scripts(loaded: LoadedSettings) -> dict[str, HostScript]:
    """Read the scripts that the settings name, by their names in ``host.json``.

    Raises `SettingsError`, listing every script that can't be used.
    """
    scripts: dict[str, HostScript] = {}
    findings: list[Finding] = []
    for name in HOST_SCRIPTS:
        given: str | None = getattr(loaded.settings.network, f"host_{name}")
        if given is None:
            continue
        setting = f"network.host_{name}"
        where = loaded.origins.get(setting, setting)
        try:
            content = _read(loaded.root, given, where)
        except SettingsError as error:
            findings += error.findings
        else:
            timeout_seconds = getattr(loaded.settings.network, f"host_{name}_timeout_seconds")
            scripts[name] = HostScript(content, timeout_seconds)
    if findings:
        raise SettingsError(findings)
    return scripts


def _read(root: Path, given: str, where: str) -> bytes:
    path = _own_file(root, given, where)
    try:
        # One byte more than allowed shows that there is more.
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise SettingsError.of(
            where=where,
            problem=f"the script can't be read: {error.strerror}",
            given=given,
            allowed=_FILE,
        ) from error
    if len(content) > MOST_BYTES:
        raise SettingsError.of(
            where=where,
            problem="the script is too large",
            given=f"{given}, {max(size, len(content)):,} bytes",
            allowed=f"{MOST_BYTES:,} bytes",
            advice="put programs and data into the image or a bucket, and have the script fetch it",
        )
    _check_text(content, given, where)
    return content


def _own_file(root: Path, given: str, where: str) -> Path:
    """Return a script's path. The settings of a repository must publish no other file of the
    user's.
    """
    path = Path(given)
    problem, advice = "", None
    if path.is_absolute() or ".." in path.parts:
        problem = "the script is outside of the folder of terradask.toml"
    elif link := next((p for p in _parts(path) if (root / p).is_symlink()), None):
        problem = (
            f"the script is behind a symbolic link: {link} leads to {(root / link).readlink()}"
        )
        advice = "put the file itself there"
    elif not (root / path).exists():
        problem = f"there is no such script in {root}"
        advice = "write it, or leave out the setting"
    elif not (root / path).is_file():
        problem = "the script isn't a file"
    if problem:
        raise SettingsError.of(
            where=where, problem=problem, given=given, allowed=_FILE, advice=advice
        )
    return root / path


def _parts(path: Path) -> list[Path]:
    return [*reversed(path.parents[:-1]), path]


def _check_text(content: bytes, given: str, where: str) -> None:
    problem, advice = "", None
    first = content.partition(b"\n")[0][:80].decode(errors="replace")
    if not content.strip():
        problem = "the script is empty"
    elif (wrong := _not_utf8_at(content)) is not None:
        problem = f"the script isn't UTF-8: byte {wrong} is 0x{content[wrong]:02x}"
        advice = "put programs into the image or a bucket, and have the script fetch them"
    elif b"\r" in content:
        problem = "the script has Windows line ends, which Linux takes for part of its words"
        advice = f"sed -i 's/\\r$//' {given}; in git: *.sh text eol=lf in .gitattributes"
    elif not content.startswith((b"#!/", b"#! /")) or b"\0" in content:
        problem = f"the script's first line names no program to run it: {first!r}"
    if problem:
        raise SettingsError.of(
            where=where,
            problem=problem,
            given=given,
            allowed="text in UTF-8 with Unix line ends, whose first line is such as #!/bin/bash",
            advice=advice,
        )


def _not_utf8_at(content: bytes) -> int | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None
