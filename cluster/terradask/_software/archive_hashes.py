"""Read archive hashes from the lock file of the client's environment (``software_lock``).

An installed package doesn't record the hash of its archive; the lock file that it was installed
from does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.pylock import PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from terradask._software.pylock import read_pylock
from terradask.errors import SoftwareUnusable

if TYPE_CHECKING:
    from terradask_stacks.settings.software import SoftwareSettings

#: Package -> version -> SHA-256 of each archive; versions may be for different machines.
Locked = dict[str, dict[Version | str, set[str]]]

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"--hash[= ]\s*(sha256:[0-9a-fA-F]{64})")
#: An installer option, or an entry without a package name: a path, a URL.
_UNNAMED = re.compile(r"-|\.|/|[\w+]+:|[\w.-]+/")
_OTHER_FILE = re.compile(r"-r|--requirement")
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


def lock_file_path(settings: SoftwareSettings, root: Path | None) -> Path | None:
    """Return the path of the lock file in a cluster's settings, or None."""
    named = settings.software_lock
    return None if named is None else (root or Path()) / Path(named).expanduser()


def archive_hashes(path: Path, packages: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the SHA-256 of all archives of these versions, since the hosts' architecture may
    differ.

    Raises `SoftwareUnusable`.
    """
    locked = read_lock_file(path)
    missing: list[str] = []
    others: list[str] = []
    unhashed: list[str] = []
    found: dict[str, tuple[str, ...]] = {}
    for name, version in sorted(packages.items()):
        versions = locked.get(canonicalize_name(name))
        hashes = None if versions is None else versions.get(_version(version))
        if versions is None:
            missing.append(f"{name} {version}: no exact version in the file")
        elif hashes is None:
            there = ", ".join(sorted(map(str, versions)))
            others.append(f"{name} {version}: the file has {there}")
        elif not hashes:
            unhashed.append(f"{name} {version}: no SHA-256")
        else:
            found[name] = tuple(sorted(hashes))
    if differing := [*missing, *others, *unhashed]:
        raise SoftwareUnusable(
            "The lock file of `software_lock` lacks packages of this environment that hosts "
            "install.",
            given=f"{path}; {'; '.join(differing)}",
            allowed=(
                "each package in the locally installed version, with the hashes of its archives"
            ),
            advice="install the versions in the file, or lock this environment again, with hashes",
        )
    return found


def read_lock_file(path: Path) -> Locked:
    """Read a requirements file with hashes, ``uv.lock`` or ``pylock.toml``, by its content.

    Raises `SoftwareUnusable`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _refused("doesn't exist", path) from error
    except (OSError, ValueError) as error:
        raise _refused(f"can't be read: {type(error).__name__}", path) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return _read_requirements(text, path)
    if "lock-version" in document:
        return _read_pylock(document, path)
    if "version" in document and "package" in document:
        return _read_uv(document, path)
    raise _refused("has an unknown format", path)


def _read_requirements(text: str, path: Path) -> Locked:
    locked: Locked = {}
    for number, line in logical_lines(text):
        if _OTHER_FILE.match(line):
            raise _refused(f"includes another file in line {number}: use a single file", path)
        if _UNNAMED.match(line):
            continue
        named, *options = re.split(r"\s+(?=--)", line)
        try:
            requirement = Requirement(named)
        except InvalidRequirement:
            # The chained error would repeat the line.
            raise _refused(
                f"has an unknown format: line {number} is no requirement", path
            ) from None
        hashes = [found[1] for option in options if (found := _HASH.match(option))]
        for one in requirement.specifier:
            if one.operator in ("==", "===") and not one.version.endswith("*"):
                _add(locked, requirement.name, one.version, hashes)
    if not locked:
        raise _refused("has an unknown format: it pins no version", path)
    return locked


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each non-empty line, with continued lines joined."""
    whole, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if whole else number
        text_only = _COMMENT.sub("", line).rstrip()
        whole += text_only.removesuffix("\\")
        if text_only.endswith("\\"):
            continue
        if whole.strip():
            yield first, whole.strip()
        whole = ""
    if whole.strip():
        yield first, whole.strip()


def _read_uv(document: Mapping[str, Any], path: Path) -> Locked:
    # The version changes when older readers would misread the file:
    # https://docs.astral.sh/uv/reference/versioning
    if document["version"] != 1:
        raise _refused("is a uv.lock of an unsupported version; terradask reads version 1", path)
    locked: Locked = {}
    try:
        for package in document["package"]:
            archives = [
                *package.get("wheels", ()),
                *([package["sdist"]] if "sdist" in package else ()),
            ]
            # A package built from source only may have no version.
            if "version" in package:
                _add(
                    locked,
                    package["name"],
                    package["version"],
                    (archive.get("hash", "") for archive in archives),
                )
    except (AttributeError, LookupError, TypeError) as error:
        raise _refused("is not a uv.lock, or is damaged", path) from error
    return locked


def _read_pylock(document: Mapping[str, Any], path: Path) -> Locked:
    try:
        packages = read_pylock(document).packages
    except PylockValidationError as error:
        raise _refused("is not a valid pylock.toml", path, given=error.context) from error
    locked: Locked = {}
    for package in packages:
        archives = [
            *(package.wheels or ()),
            *(each for each in (package.sdist, package.archive) if each is not None),
        ]
        if package.version is not None:
            _add(
                locked,
                package.name,
                str(package.version),
                (archive.hashes.get("sha256", "") for archive in archives),
            )
    return locked


def _add(locked: Locked, name: str, version: str, hashes: Iterable[str]) -> None:
    known = locked.setdefault(canonicalize_name(name), {}).setdefault(_version(version), set())
    known.update(found[1] for each in hashes if (found := _SHA256.fullmatch(each.lower())))


def _version(text: str) -> Version | str:
    """Return the parsed version, so that 1.0 equals 1.0.0, or the text if it isn't a version."""
    try:
        return Version(text)
    except InvalidVersion:
        return text


def _refused(how: str, path: Path, *, given: str | None = None) -> SoftwareUnusable:
    """Return the error for an unusable lock file; `how` ends the sentence."""
    return SoftwareUnusable(
        f"The lock file of `software_lock` {how}.",
        given=str(path) if given is None else f"{path}: {given}",
        allowed=(
            "a requirements file with --hash, uv.lock or pylock.toml of the client's environment"
        ),
        advice=(
            "name the lock file of this environment; `uv pip compile --generate-hashes` or "
            "`pip-compile --generate-hashes` writes one"
        ),
    )
