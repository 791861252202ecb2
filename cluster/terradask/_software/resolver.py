"""Run uv as the resolver: exact versions and hashes of wheels for the hosts' platform."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
import tempfile
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.pylock import PackageWheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from terradask._software.archive_hashes import read_lock_file
from terradask._software.hosts import HOST_GLIBC, MACHINES
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import Index, expanded, is_index, link_pages, without_user
from terradask._software.pylock import DirectPackage, Selected, read_pylock, select_for_hosts
from terradask._software.uv import run_uv
from terradask.errors import SoftwareNotResolved

#: uv's exit code for requirements without a solution.
_NO_SOLUTION = 1
_SECONDS = 300
_PYLOCK = "pylock.toml"
#: uv's messages about an index that didn't answer, whose contents remain unknown.
_UNANSWERED = re.compile(r"\b(?:401 Unauthorized|403 Forbidden|Failed to fetch)\b")
_YANKED = re.compile(r"^warning: `([A-Za-z0-9._-]+)==[^`]+` is yanked ?(.*)$", re.MULTILINE)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_ANNOTATED = re.compile(r"\s+# from (\S+)")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
#: A line with a path or a URL instead of a version.
_DIRECT = re.compile(r"^(?!\s|#|$|--find-links |[A-Za-z0-9._-]+==)", re.MULTILINE)
#: A page of links in a file.
_LINKS = re.compile(r"^--find-links (\S+)", re.MULTILINE)


class Unsolvable(Exception):
    """The requirements have no solution; the text is uv's."""


@dataclass(frozen=True)
class Resolver:
    """Resolve for hosts of one architecture, with the indexes in uv's variables and files."""

    architecture: str
    environ: Mapping[str, str]
    #: Folder of uv's project settings; by default the working directory.
    folder: Path | None = None
    #: Packages that come from one index only.
    sources: Mapping[str, Index] = field(default_factory=dict)
    #: Whether the project's own constraints and overrides apply.
    of_project: bool = False

    def __call__(
        self,
        requirements: Sequence[str],
        *,
        overrides: Iterable[str] = (),
        constraints: Iterable[str] = (),
        excludes: Iterable[str] = (),
        deps: bool = True,
    ) -> Selected:
        """Return versions with the hashes of their archives, and their indexes.

        `overrides` replace the requirements of packages; no index is asked for `excludes`. Nothing
        is built. Raises `Unsolvable`, `SoftwareNotResolved`, `SetupError`.
        """
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            folder = Path(made)
            named = self._named(folder, requirements)
            # uv would look in other indexes for those that no requirement names.
            not_asked_for = set(self.sources) - set(map(name_of, requirements))
            options = [
                *([] if deps else ["--no-deps"]),
                *([] if named.endswith(".toml") else ["--no-sources"]),
                *_files(
                    folder,
                    overrides=self._without_source(overrides),
                    constraints=constraints,
                    excludes={*excludes, *not_asked_for},
                ),
            ]
            return self._resolved(folder, options, named)

    def resolve_files(
        self,
        files: Sequence[Path],
        requirements: Sequence[str],
        *,
        overrides: Iterable[str] = (),
        constraints: Iterable[str] = (),
        excludes: Iterable[str] = (),
        preferences: Iterable[str] = (),
        built: Iterable[str] = (),
    ) -> Selected:
        """Resolve requirements files or a ``pyproject.toml`` with more requirements and the
        project's sources. `preferences` are exact versions to prefer.

        uv reads the metadata of packages from folders, archive URLs and repositories, and may build
        those in `built` for it.
        """
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            folder = Path(made)
            options = _files(
                folder,
                overrides=self._without_source(overrides),
                constraints=constraints,
                excludes=excludes,
            )
            options += [f"--no-binary={name}" for name in sorted(set(built))]
            sources = [*map(str, files)]
            # uv warns of an empty file.
            sources += [self._named(folder, requirements)] if requirements else []
            _file(folder, "lock", preferences)
            return self._resolved(folder, options, *sources)

    def alone(self, file: Path) -> tuple[DirectPackage, ...]:
        """Return the packages that a requirements file takes from folders, archive URLs and
        repositories, without their dependencies. uv may build them.
        """
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            options = ["--no-deps", "--only-binary=:none:"]
            return self._from_pylock(Path(made), options, [str(file)]).direct

    def wheels(self, versions: Mapping[str, str]) -> dict[str, Sequence[PackageWheel]]:
        """Return the wheels of exact versions by package name, each with its URL."""
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            folder = Path(made)
            named = self._named(folder, [f"{n}=={version}" for n, version in versions.items()])
            options = ["--no-deps", *([] if named.endswith(".toml") else ["--no-sources"])]
            found = read_pylock(tomllib.loads(self._pylock(folder, options, [named])))
        return {str(package.name): package.wheels or () for package in found.packages}

    def _named(self, folder: Path, requirements: Sequence[str]) -> str:
        """Write the requirements to a file: a project's, if some have a source."""
        sources = {n: self.sources[n] for n in map(name_of, requirements) if n in self.sources}
        if not sources:
            return _file(folder, "requirements", requirements)
        project = folder / "pyproject.toml"
        # Strings and lists of JSON are valid TOML.
        project.write_text(
            '[project]\nname = "terradask-hosts"\nversion = "0"\n'
            f"dependencies = {json.dumps(list(requirements))}\n[tool.uv.sources]\n"
            + "".join(f'{n} = {{ index = "{_index(each)}" }}\n' for n, each in sources.items())
            + "".join(
                f'[[tool.uv.index]]\nname = "{_index(each)}"\nexplicit = true\n'
                f"url = {json.dumps(each.with_credentials)}\n"
                for each in {each.url: each for each in sources.values()}.values()
            ),
            encoding="utf-8",
        )
        return str(project)

    def _without_source(self, requirements: Iterable[str]) -> list[str]:
        """Return the requirements without a source; an override would replace the source."""
        return [each for each in requirements if name_of(each) not in self.sources]

    def _resolved(self, folder: Path, options: Sequence[str], *sources: str) -> Selected:
        lock = folder / "lock.txt"
        annotated = ["--generate-hashes", "--no-annotate", "--emit-index-annotation"]
        annotated += ["--emit-find-links"]
        output = self._compile(lock, [*annotated, *options], sources)
        text = lock.read_text(encoding="utf-8")
        indexes = _indexes(text)
        direct = self._direct(folder, options, sources, text, indexes)
        elsewhere = {each.name for each in direct}
        # uv lists one version per package, for the hosts' platform.
        locked = {
            name: next(iter(versions.items()))
            for name, versions in (read_lock_file(lock) if _PINNED.search(text) else {}).items()
            if name not in elsewhere
        }
        return Selected(
            {name: str(version) for name, (version, _) in locked.items()},
            {name: tuple(sorted(hashes)) for name, (_, hashes) in locked.items()},
            {name: url for name, url in indexes.items() if name not in elsewhere},
            direct,
            {canonicalize_name(name): why for name, why in _YANKED.findall(output)},
        )

    def _direct(
        self,
        folder: Path,
        options: Sequence[str],
        sources: Sequence[str],
        text: str,
        indexes: Mapping[str, str],
    ) -> tuple[DirectPackage, ...]:
        """Return the packages from no index, which only uv's pylock format lists."""
        here = Machine.here(self.environ)
        machine = here if self.folder is None else replace(here, folder=self.folder)
        named = (expanded(found, self.environ) for found in _LINKS.findall(text))
        pages = link_pages(self.environ, machine).union(without_user(each)[0] for each in named)
        of_pages = {name for name, url in indexes.items() if not is_index(url, pages)}
        if not (of_pages or _DIRECT.search(text)):
            return ()
        return self._from_pylock(folder, options, sources, of_pages).direct

    def _from_pylock(
        self,
        folder: Path,
        options: Sequence[str],
        sources: Sequence[str],
        of_pages: Container[str] = (),
    ) -> Selected:
        text = self._pylock(folder, options, sources)
        path = folder / _PYLOCK
        return select_for_hosts(text, path, self.architecture, folder=folder, of_pages=of_pages)

    def _pylock(self, folder: Path, options: Sequence[str], sources: Sequence[str]) -> str:
        self._compile(folder / _PYLOCK, [*options, f"--format={_PYLOCK}"], sources)
        return (folder / _PYLOCK).read_text(encoding="utf-8")

    def _compile(self, out: Path, options: Sequence[str], sources: Sequence[str]) -> str:
        output = run_uv(
            [
                *("pip", "compile", "--no-progress", "--no-header", "--only-binary=:all:"),
                *uv_platform_options(self.architecture),
                f"--output-file={out}",
                *options,
                *sources,
            ],
            self.environ,
            seconds=_SECONDS,
            folder=self.folder,
            of_project=self.of_project,
        )
        if output.timed_out:
            raise SoftwareNotResolved(f"no reply within {_SECONDS} s", unanswered=True)
        unanswered = _UNANSWERED.search(output.text) is not None
        if output.code == _NO_SOLUTION and not unanswered:
            raise Unsolvable(output.text)
        if output.code != 0:
            raise SoftwareNotResolved(output.text, unanswered=unanswered)
        return output.text


def uv_platform_options(architecture: str) -> list[str]:
    """Return uv's options for the hosts' Python and platform."""
    glibc = "{}_{}".format(*HOST_GLIBC)
    return [
        f"--python={sys.executable}",
        f"--python-version={_release()}",
        f"--python-platform={MACHINES[architecture]}-manylinux_{glibc}",
    ]


def name_of(requirement: str) -> str:
    """Return the package name of a requirement."""
    return canonicalize_name(Requirement(requirement).name)


def _index(index: Index) -> str:
    """Return a name for an index in a generated file."""
    return f"index-{hashlib.sha256(index.url.encode()).hexdigest()[:12]}"


def _files(folder: Path, **named: Iterable[str]) -> list[str]:
    """Write the non-empty lists, since uv warns of empty files, and return their options."""
    lists = {name: list(lines) for name, lines in named.items()}
    return [f"--{name}={_file(folder, name, lines)}" for name, lines in lists.items() if lines]


def _file(folder: Path, name: str, lines: Iterable[str]) -> str:
    path = folder / f"{name}.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _indexes(text: str) -> dict[str, str]:
    found, name = {}, ""
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            name = canonicalize_name(pinned[1])
        elif annotated := _ANNOTATED.match(line):
            found[name] = without_user(annotated[1])[0]
    return found


def _release() -> str:
    """Return the running Python's release: hosts have the same minor version."""
    found = _RELEASE.match(platform.python_version())
    assert found is not None
    return found[0]


# ---- exact versions that the indexes lack for hosts ----------------------------------------------


def lacking(resolve: Resolver, requirements: Sequence[str]) -> list[str]:
    """Return the requirements without a wheel in any index; each is tried without dependencies."""
    found: list[str] = []
    while left := [text for text in requirements if text not in found]:
        output = unsolvable_reason(resolve, left)
        if output is None:
            break
        named = [text for text in left if text in output]
        # uv's message gives only a guess, which saves most of the bisection.
        guessed = len(named) == 1 and unsolvable_reason(resolve, named) is not None
        more = named if guessed else _bisect(resolve, left)
        if not more:
            # The requirements contradict each other.
            break
        found += more
    return found


def unsolvable_reason(resolve: Resolver, requirements: Sequence[str]) -> str | None:
    """Return uv's message about requirements without a solution; None if they have one."""
    try:
        resolve(requirements, deps=False)
    except Unsolvable as error:
        return str(error)
    return None


def _bisect(resolve: Resolver, requirements: Sequence[str]) -> list[str]:
    if unsolvable_reason(resolve, requirements) is None:
        return []
    if len(requirements) == 1:
        return list(requirements)
    middle = len(requirements) // 2
    return _bisect(resolve, requirements[:middle]) + _bisect(resolve, requirements[middle:])
