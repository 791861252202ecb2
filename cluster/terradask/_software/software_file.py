"""A file that says which packages hosts get: which kinds there are, and what requirements files say
besides names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from packaging.utils import canonicalize_name

from terradask._software.archive_hashes import whole_lines
from terradask._software.configured import Found
from terradask.errors import SoftwareFileInvalid
from terradask_stacks.validators.dask import is_software_file

Kind = Literal["uv.lock", "pylock.toml", "pyproject.toml", "requirements", "conda"]

_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")
#: Files of tools beside conda.
_CONDA_LOCK = re.compile(r"(?:.+\.)?conda-lock\.ya?ml|pixi\.(?:lock|toml)")
_NAMED_URL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*@\s")
_OTHER_FILE = re.compile(r"(?:-r|--requirements?)(?:\s+|=)?(.+)")
#: The end of a wheel's URL.
_WHEEL = re.compile(r"\.whl(?=$|[\s;#\"'])")
_INDEX = re.compile(r"(-i|--index-url|--pypi-url|--extra-index-url)(?:\s+|=)(\S+)")


#: Requirements, a file that has them, or the name of an environment.
Software = Sequence[str] | Path | str


def software_of(settings: Mapping[str, Any], root: Path | None) -> Software:
    """Return which packages a cluster's settings, or an environment's, name."""
    named = settings["software"]
    if not isinstance(named, str):
        return list(named)
    return (root or Path()) / Path(named).expanduser() if is_software_file(named) else named


def kind_of(path: Path) -> Kind:
    """Return what kind of file this is, by its name. Raises `SoftwareFileInvalid`."""
    if not path.is_file():
        raise SoftwareFileInvalid(path, "it is no file") if path.exists() else _absent(path)
    if path.name in ("uv.lock", "pyproject.toml"):
        return path.name  # type: ignore[return-value]
    if _PYLOCK.fullmatch(path.name):
        return "pylock.toml"
    if path.suffix in (".txt", ".in"):
        return "requirements"
    if _CONDA_LOCK.fullmatch(path.name):
        raise SoftwareFileInvalid(
            path,
            "of conda's files, only an environment.yml is read",
            advice="name the environment.yml that it was made of; pixi makes one: "
            "pixi workspace export conda-environment environment.yml",
        )
    if path.suffix in (".yml", ".yaml"):
        return "conda"
    raise SoftwareFileInvalid(path, "its name is of no known kind")


@dataclass(frozen=True)
class RequirementsFile:
    """What a requirements file, with those that it includes, says besides names."""

    #: Packages that it takes from a URL or a folder.
    direct: frozenset[str]
    #: Those of them that aren't wheels already.
    sources: frozenset[str]
    indexes: tuple[Found, ...]
    #: Whether packages are to have the hashes in it.
    is_hashed: bool


def read_requirements_file(path: Path) -> RequirementsFile:
    """Read a requirements file. Raises `SoftwareFileInvalid`."""
    direct: set[str] = set()
    sources: set[str] = set()
    indexes: list[Found] = []
    is_hashed = False
    for source, line in _lines(path, []):
        is_hashed |= "--hash" in line
        if named := _NAMED_URL.match(line):
            direct.add(canonicalize_name(named[1]))
            if not _WHEEL.search(line):
                sources.add(canonicalize_name(named[1]))
        elif index := _INDEX.match(line):
            is_default = index[1] != "--extra-index-url"
            indexes.append(Found(index[2], str(source), is_default=is_default))
    return RequirementsFile(frozenset(direct), frozenset(sources), tuple(indexes), is_hashed)


def unreadable(path: Path, error: Exception) -> SoftwareFileInvalid:
    """Return the error for a file that can't be read, without what is in it."""
    if isinstance(error, FileNotFoundError):
        return _absent(path)
    if isinstance(error, UnicodeDecodeError):
        return SoftwareFileInvalid(path, "it is no text in UTF-8")
    if isinstance(error, tomllib.TOMLDecodeError):
        return SoftwareFileInvalid(path, f"it is no TOML: {error}")
    why = error.strerror if isinstance(error, OSError) else None
    return SoftwareFileInvalid(path, f"it can't be read: {why or type(error).__name__}")


def _absent(path: Path) -> SoftwareFileInvalid:
    return SoftwareFileInvalid(path, "it isn't there", advice="name a file that is there")


def _lines(path: Path, seen: list[Path]) -> Iterator[tuple[Path, str]]:
    if path in seen:
        return
    seen.append(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    for _, line in whole_lines(text):
        if other := _OTHER_FILE.fullmatch(line):
            yield from _lines(path.parent / other[1].strip("'\" "), seen)
        else:
            yield path, line


@dataclass(frozen=True)
class ProjectFile:
    """What a ``pyproject.toml`` says besides requirements."""

    name: str
    #: Whether the project is a package itself.
    is_package: bool
    #: Packages that it takes from a URL, a folder or a repository.
    direct: frozenset[str]
    #: Those of them that aren't wheels already.
    sources: frozenset[str]


def read_project_file(path: Path) -> ProjectFile:
    """Read a project's file. Raises `SoftwareFileInvalid`."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        of_uv = document.get("tool", {}).get("uv", {})
        sources: Mapping[str, Any] = of_uv.get("sources", {})
        direct = {
            canonicalize_name(name): str(each) for name, each in sources.items() if _is_direct(each)
        }
        direct |= {
            canonicalize_name(named[1]): text
            for text in document["project"].get("dependencies", ())
            if (named := _NAMED_URL.match(text))
        }
        return ProjectFile(
            canonicalize_name(document["project"]["name"]),
            of_uv.get("package", "build-system" in document),
            frozenset(direct),
            frozenset(name for name, said in direct.items() if not _WHEEL.search(said)),
        )
    except KeyError as error:
        raise SoftwareFileInvalid(path, "it has no [project] with a name") from error
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise unreadable(path, error) from error


def _is_direct(source: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    every = [source] if isinstance(source, Mapping) else source
    return any("index" not in each for each in every)
