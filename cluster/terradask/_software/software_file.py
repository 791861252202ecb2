"""A file that says which packages hosts get: which kinds there are, and what requirements files say
besides names.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from terradask._software.archive_hashes import whole_lines
from terradask._software.indexes.aws_secrets import refuse_aws_secrets
from terradask._software.indexes.configured import Found
from terradask._software.indexes.indexes import expanded
from terradask._software.refused import file_refused
from terradask._software.resolver import Resolver
from terradask.errors import SoftwareUnusable
from terradask_modules.names import CLUSTER_PATTERN
from terradask_stacks.validators.dask import is_software_file

if TYPE_CHECKING:
    from terradask_stacks.settings.software import EnvironmentSettings, SoftwareSettings


Kind = Literal["uv.lock", "pylock.toml", "pyproject.toml", "requirements", "conda"]

_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")
#: Files of tools beside conda.
_CONDA_LOCK = re.compile(r"(?:.+\.)?conda-lock\.ya?ml|pixi\.(?:lock|toml)")
_NAMED_URL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*@\s")
_OTHER_FILE = re.compile(r"(?:-r|--requirements?)(?:\s+|=)?(.+)")
_INDEX = re.compile(
    r"""(?:^|\s)(-i|--index-url|--pypi-url|--extra-index-url)(?:\s+|=)("[^"]*"|'[^']*'|\S+)"""
)
_QUOTES = "'\" "
_LIMITS = re.compile(r"(-c|--constraints?)(?:\s+|=)(.+)")
_UNSET = re.compile(r"\$\{([^}]*)\}")


#: Requirements, a file that has them, or the name of an environment.
Software = Sequence[str] | Path | str


def software_of(settings: SoftwareSettings | EnvironmentSettings, root: Path | None) -> Software:
    """Return which packages a cluster's settings, or an environment's, name."""
    named = settings.software
    if not isinstance(named, str):
        return list(named)
    return (root or Path()) / Path(named).expanduser() if is_software_file(named) else named


def kind_of(path: Path) -> Kind:
    """Return what kind of file this is, by its name. Raises `SoftwareUnusable`."""
    if path.name == "uv.lock" and _is_of_member(path):
        return "uv.lock"
    if not path.is_file():
        raise file_refused(path, "it is no file") if path.exists() else _absent(path)
    if path.name in ("uv.lock", "pyproject.toml"):
        return path.name  # type: ignore[return-value]
    if _PYLOCK.fullmatch(path.name):
        return "pylock.toml"
    if path.suffix in (".txt", ".in"):
        return "requirements"
    if _CONDA_LOCK.fullmatch(path.name):
        raise file_refused(
            path,
            "of conda's files, only an environment.yml is read",
            advice="name the environment.yml that it was made of; pixi makes one: "
            "pixi workspace export conda-environment environment.yml",
        )
    if path.suffix in (".yml", ".yaml"):
        return "conda"
    raise file_refused(path, "its name is of no known kind")


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
    #: Its lines and those of files that it includes.
    lines: tuple[str, ...] = field(repr=False)
    #: Those of them without a package's name, and of no wheel.
    unnamed: tuple[str, ...] = field(repr=False)


def read_requirements_file(path: Path, environ: Mapping[str, str]) -> RequirementsFile:
    """Read a requirements file, with variables as uv and pip read them. Raises
    `SoftwareUnusable`.
    """
    indexes: list[Found] = []
    lines: list[str] = []
    for source, line in _lines(path, [], environ):
        lines.append(_with_whole_path(line, source.parent))
        for option, quoted in _INDEX.findall(line) if line.startswith("-") else ():
            url = quoted.strip(_QUOTES)
            if unset := _UNSET.search(url):
                raise file_refused(
                    source,
                    f"an index has the variable {unset[1]}, which isn't set",
                    advice=f"set {unset[1]} where the cluster is made; uv and pip know names of "
                    "upper-case letters, digits and _",
                )
            is_default = option != "--extra-index-url"
            indexes.append(Found(url, str(source), is_default=is_default))
    direct, sources = direct_names(lines)
    return RequirementsFile(
        direct,
        sources,
        tuple(indexes),
        any("--hash" in line for line in lines),
        tuple(lines),
        tuple(dict.fromkeys(filter(is_unnamed, lines))),
    )


def direct_names(lines: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the packages that lines take from a URL or a folder, and those that aren't wheels
    already.
    """
    found = [(canonicalize_name(n[1]), line) for line in lines if (n := _NAMED_URL.match(line))]
    return (
        frozenset(name for name, _ in found),
        frozenset(name for name, line in found if not WHEEL.search(line)),
    )


def _with_whole_path(line: str, folder: Path) -> str:
    limits = _LIMITS.fullmatch(line)
    if limits is None or "://" in limits[2]:
        return line
    return f"{limits[1]} {folder.absolute() / limits[2].strip(_QUOTES)}"


def unreadable(path: Path, error: Exception) -> SoftwareUnusable:
    """Return the error for a file that can't be read, without what is in it."""
    if isinstance(error, FileNotFoundError):
        return _absent(path)
    if isinstance(error, UnicodeDecodeError):
        return file_refused(path, "it is no text in UTF-8")
    if isinstance(error, tomllib.TOMLDecodeError):
        return file_refused(path, f"it is no TOML: {error}")
    why = error.strerror if isinstance(error, OSError) else None
    return file_refused(path, f"it can't be read: {why or type(error).__name__}")


def _is_of_member(path: Path) -> bool:
    """Return whether a ``uv.lock`` that isn't there is that of a workspace, for one of its members:
    uv looks for it above the member's folder.
    """
    return (
        not path.exists()
        and path.with_name("pyproject.toml").is_file()
        and any((folder / path.name).is_file() for folder in path.absolute().parent.parents)
    )


def _absent(path: Path) -> SoftwareUnusable:
    advice = "name a file that is there"
    if re.fullmatch(CLUSTER_PATTERN, path.name):
        advice += (
            f". An environment's name has no slash: terradask env create {path.name} makes one, "
            f"and software={path.name!r} names it"
        )
    return file_refused(path, "it isn't there", advice=advice)


def _lines(path: Path, seen: list[Path], environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if path in seen:
        return
    seen.append(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    for _, written in whole_lines(text):
        refuse_aws_secrets(path, written)
        line = expanded(written, environ)
        limits = _LIMITS.fullmatch(line)
        if limits is not None and "://" not in limits[2]:
            # uv reads them, with the values of their variables.
            list(_lines(path.parent / limits[2].strip(_QUOTES), seen, environ))
        if other := _OTHER_FILE.fullmatch(line):
            yield from _lines(path.parent / other[1].strip(_QUOTES), seen, environ)
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
    """Read a project's file. Raises `SoftwareUnusable`."""
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
            frozenset(name for name, said in direct.items() if not WHEEL.search(said)),
        )
    except KeyError as error:
        raise file_refused(path, "it has no [project] with a name") from error
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise unreadable(path, error) from error


def _is_direct(source: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    every = [source] if isinstance(source, Mapping) else source
    return any("index" not in each for each in every)


# ---- lines without a package's name: -e ., ./lib, git+URL, of which uv knows the name ------------
# By its name alone uv can be told to build a package and no other.


_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)")
#: The end of a wheel's URL: its name is in it, and nothing is to be built.
WHEEL = re.compile(r"\.whl(?=$|[\s;#\"'])")
_PARTS = re.compile(r"(?P<place>\S+?)(?P<extras>\[[^]\s]*\])?(?P<rest>\s+(?:;|--).*)?", re.DOTALL)
_EXTRAS_OF_EGG = re.compile(r"[#&]egg=[^&\[]+(\[[^]&]*\])")


def is_unnamed(line: str) -> bool:
    """Return whether a line is a requirement without its package's name, and of no wheel."""
    if line.startswith("-") and not _EDITABLE.match(line):
        return False
    try:
        Requirement(re.split(r"\s+--", line)[0])
    except InvalidRequirement:
        return not WHEEL.search(line)
    return False


def named_lines(lines: Sequence[str], resolve: Resolver) -> dict[str, str]:
    """Return the package that each of these lines without a name is, and the line with it.

    What they name is built where its build alone knows that. A line that isn't for hosts is none.
    Raises as `resolve` does.
    """
    found: dict[str, str] = {}
    for line in lines:
        bare = _EDITABLE.sub("", line)
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            listed = Path(made, "requirements.txt")
            listed.write_text(f"{bare}\n", encoding="utf-8")
            every = resolve.alone(listed)
        for one in every:
            found[line] = _with_name(bare, one.name)
    return found


def _with_name(line: str, name: str) -> str:
    parts = _PARTS.fullmatch(line)
    if parts is None:
        return f"{name} @ {line}"
    egg = _EXTRAS_OF_EGG.search(line)
    extras = parts["extras"] or (egg[1] if egg else "")
    return f"{name}{extras} @ {parts['place']}{parts['rest'] or ''}"
