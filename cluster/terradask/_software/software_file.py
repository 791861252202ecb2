"""Read the file that `software` names: its kind, and the parts of requirements and project files
that uv doesn't resolve itself.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from packaging.pylock import is_valid_pylock_path
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from terradask._software.archive_hashes import logical_lines
from terradask._software.indexes.configured import ConfiguredIndex
from terradask._software.indexes.indexes import expanded
from terradask._software.refused import file_refused, refuse_aws_secrets
from terradask._software.resolver import Resolver
from terradask.errors import SoftwareUnusable
from terradask_modules.names import CLUSTER_PATTERN
from terradask_stacks.validators.dask import is_software_file

if TYPE_CHECKING:
    from terradask_stacks.settings.software import EnvironmentSettings, SoftwareSettings


Kind = Literal["uv.lock", "pylock.toml", "pyproject.toml", "requirements", "conda"]


#: File names of tools beside conda.
_CONDA_LOCK = re.compile(r"(?:.+\.)?conda-lock\.ya?ml|pixi\.(?:lock|toml)")
_NAMED_URL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*@\s")
_OTHER_FILE = re.compile(r"(?:-r|--requirements?)(?:\s+|=)?(.+)")
_INDEX = re.compile(
    r"""(?:^|\s)(-i|--index-url|--pypi-url|--extra-index-url)(?:\s+|=)("[^"]*"|'[^']*'|\S+)"""
)
_QUOTES = "'\" "
_LIMITS = re.compile(r"(-c|--constraints?)(?:\s+|=)(.+)")
_UNSET = re.compile(r"\$\{([^}]*)\}")


#: Requirements, a file with them, or the name of an environment.
Software = Sequence[str] | Path | str


def software_of(settings: SoftwareSettings | EnvironmentSettings, root: Path | None) -> Software:
    """Return the packages in the settings of a cluster or an environment."""
    named = settings.software
    if not isinstance(named, str):
        return list(named)
    return (root or Path()) / Path(named).expanduser() if is_software_file(named) else named


def kind_of(path: Path) -> Kind:
    """Return a file's kind by its name. Raises `SoftwareUnusable`."""
    if path.name == "uv.lock" and _is_of_member(path):
        return "uv.lock"
    if not path.is_file():
        raise file_refused(path, "it is not a file") if path.exists() else _missing_file(path)
    if path.name in ("uv.lock", "pyproject.toml"):
        return path.name  # type: ignore[return-value]
    if is_valid_pylock_path(path):
        return "pylock.toml"
    if path.suffix in (".txt", ".in"):
        return "requirements"
    if _CONDA_LOCK.fullmatch(path.name):
        raise file_refused(
            path,
            "only an environment.yml can be read of conda's files",
            advice="name the environment.yml that it was made from; pixi makes one: "
            "pixi workspace export conda-environment environment.yml",
        )
    if path.suffix in (".yml", ".yaml"):
        return "conda"
    raise file_refused(path, "its name doesn't show its kind")


@dataclass(frozen=True)
class RequirementsFile:
    """Contents of a requirements file and its included files, beside names."""

    #: Packages from a URL or a folder.
    direct: frozenset[str]
    #: Those that aren't wheels.
    sources: frozenset[str]
    indexes: tuple[ConfiguredIndex, ...]
    #: Whether packages must have the hashes in it.
    is_hashed: bool
    #: Its lines and those of included files.
    lines: tuple[str, ...] = field(repr=False)
    #: Lines without a package name that aren't wheels.
    unnamed: tuple[str, ...] = field(repr=False)


def read_requirements_file(path: Path, environ: Mapping[str, str]) -> RequirementsFile:
    """Read a requirements file, expanding variables as uv and pip do. Raises `SoftwareUnusable`."""
    indexes: list[ConfiguredIndex] = []
    lines: list[str] = []
    for source, line in _lines(path, [], environ):
        lines.append(_with_absolute_path(line, source.parent))
        for option, quoted in _INDEX.findall(line) if line.startswith("-") else ():
            url = quoted.strip(_QUOTES)
            if unset := _UNSET.search(url):
                raise file_refused(
                    source,
                    f"an index has the variable {unset[1]}, which isn't set",
                    advice=f"set {unset[1]} where the cluster is made; uv and pip expand names of "
                    "upper-case letters, digits and _",
                )
            is_default = option != "--extra-index-url"
            indexes.append(ConfiguredIndex(url, str(source), is_default=is_default))
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
    """Return the packages that lines take from a URL or folder, and which are no wheels."""
    found = [(canonicalize_name(n[1]), line) for line in lines if (n := _NAMED_URL.match(line))]
    return (
        frozenset(name for name, _ in found),
        frozenset(name for name, line in found if not WHEEL.search(line)),
    )


def _with_absolute_path(line: str, folder: Path) -> str:
    limits = _LIMITS.fullmatch(line)
    if limits is None or "://" in limits[2]:
        return line
    return f"{limits[1]} {folder.absolute() / limits[2].strip(_QUOTES)}"


def read_file(path: Path) -> str:
    """Return a file's text. Raises `SoftwareUnusable`."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> SoftwareUnusable:
    """Return the error for an unreadable file, without its contents."""
    if isinstance(error, FileNotFoundError):
        return _missing_file(path)
    if isinstance(error, UnicodeDecodeError):
        return file_refused(path, "it is not a UTF-8 text")
    if isinstance(error, tomllib.TOMLDecodeError):
        return file_refused(path, f"it is not valid TOML: {error}")
    why = error.strerror if isinstance(error, OSError) else None
    return file_refused(path, f"it can't be read: {why or type(error).__name__}")


def _is_of_member(path: Path) -> bool:
    """Return whether a missing ``uv.lock`` belongs to a workspace that the folder is a member of:
    uv looks for it in the folders above.
    """
    return (
        not path.exists()
        and path.with_name("pyproject.toml").is_file()
        and any((folder / path.name).is_file() for folder in path.absolute().parent.parents)
    )


def _missing_file(path: Path) -> SoftwareUnusable:
    advice = "name an existing file"
    if re.fullmatch(CLUSTER_PATTERN, path.name):
        advice += (
            f". An environment's name has no slash: terradask env create {path.name} creates one, "
            f"and software={path.name!r} uses it"
        )
    return file_refused(path, "it doesn't exist", advice=advice)


def _lines(path: Path, seen: list[Path], environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if path in seen:
        return
    seen.append(path)
    for _, written in logical_lines(read_file(path)):
        refuse_aws_secrets(path, written)
        line = expanded(written, environ)
        limits = _LIMITS.fullmatch(line)
        if limits is not None and "://" not in limits[2]:
            # uv reads them, and expands their variables.
            list(_lines(path.parent / limits[2].strip(_QUOTES), seen, environ))
        if other := _OTHER_FILE.fullmatch(line):
            yield from _lines(path.parent / other[1].strip(_QUOTES), seen, environ)
        else:
            yield path, line


@dataclass(frozen=True)
class ProjectFile:
    """Contents of a ``pyproject.toml`` beside requirements."""

    name: str
    #: Whether the project is a package.
    is_package: bool
    #: Packages from a URL, a folder or a repository.
    direct: frozenset[str]
    #: Those that aren't wheels.
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
            frozenset(name for name, entry in direct.items() if not WHEEL.search(entry)),
        )
    except KeyError as error:
        raise file_refused(path, "it has no [project] with a name") from error
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise unreadable(path, error) from error


def _is_direct(source: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    every = [source] if isinstance(source, Mapping) else source
    return any("index" not in each for each in every)


# ---- lines without a package name: -e ., ./lib, git+URL ------------------------------------------
# uv can only restrict builds to packages by name.


_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)")
#: The end of a wheel's URL, which contains the name: nothing is built.
WHEEL = re.compile(r"\.whl(?=$|[\s;#\"'])")
_PARTS = re.compile(r"(?P<place>\S+?)(?P<extras>\[[^]\s]*\])?(?P<rest>\s+(?:;|--).*)?", re.DOTALL)
_EXTRAS_OF_EGG = re.compile(r"[#&]egg=[^&\[]+(\[[^]&]*\])")


def is_unnamed(line: str) -> bool:
    """Return whether a line is a requirement without a package name, and not a wheel."""
    if line.startswith("-") and not _EDITABLE.match(line):
        return False
    try:
        Requirement(re.split(r"\s+--", line)[0])
    except InvalidRequirement:
        return not WHEEL.search(line)
    return False


def named_lines(lines: Sequence[str], resolve: Resolver) -> dict[str, str]:
    """Return the package of each nameless line, and the line with the name.

    uv builds packages whose name only the build knows. Lines that don't apply to hosts are left
    out. Raises the resolver's errors.
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
