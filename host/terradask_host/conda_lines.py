"""Parse conda entries of a run's lock file: archives by URL and SHA-256, and the installer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SHA256 = r"(?P<sha256>[0-9a-f]{64})"
#: The URL can't contain credentials or a channel's token (``/t/TOKEN/``).
_CONDA_LINE = re.compile(
    r"^conda (?P<url>https?://(?![^ ]*/t/)[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~!+%-]+)*"
    r"/(?P<subdir>noarch|linux-64|linux-aarch64)"
    r"/(?P<file>[a-z0-9_][a-z0-9._-]*-[A-Za-z0-9._~!+%]+-[A-Za-z0-9._~!+%]+\.(?:conda|tar\.bz2)))"
    rf" --hash=sha256:{_SHA256}$"
)
_INSTALLER_LINE = re.compile(
    rf"^conda-installer (?P<key>wheels/{_SHA256}/py_rattler-[A-Za-z0-9_.+-]+\.whl)$"
)


@dataclass(frozen=True)
class CondaArchive:
    """An archive to install."""

    url: str
    file: str
    sha256: str


@dataclass(frozen=True)
class CondaInstaller:
    """The wheel of py-rattler, one of the cluster's own objects."""

    key: str
    sha256: str


def is_conda_line(line: str) -> bool:
    """Return whether a line of the lock names a conda package or the installer."""
    return _CONDA_LINE.match(line) is not None or _INSTALLER_LINE.match(line) is not None


def conda_archives(lines: Iterable[str]) -> list[CondaArchive]:
    """Return the archives in a lock."""
    found = map(_CONDA_LINE.match, lines)
    return [CondaArchive(one["url"], one["file"], one["sha256"]) for one in found if one]


def conda_installer(lines: Sequence[str]) -> CondaInstaller | None:
    """Return the installer in a lock."""
    found = next(filter(None, map(_INSTALLER_LINE.match, lines)), None)
    return found and CondaInstaller(found["key"], found["sha256"])
