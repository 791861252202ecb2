"""Resolve requirements for hosts with uv: those of a file, or of settings."""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.version import Version

from terradask._software.archive_hashes import read_lock_file
from terradask._software.client_versions import ADDED, SAME, index_fields
from terradask._software.environment import read_installed, with_folder_origins
from terradask._software.hosts import host_markers
from terradask._software.indexes.configured import ConfiguredIndex, Machine
from terradask._software.indexes.folder_archives import (
    Folder,
    find_only_in_folders,
    local_folders,
)
from terradask._software.indexes.indexes import (
    Index,
    Indexes,
    index_sources,
    read_indexes,
    without_user,
)
from terradask._software.local_wheels import (
    LocalWheel,
    build_direct,
    build_wheel,
)
from terradask._software.lock import SoftwareLock
from terradask._software.package_origin import editable_folder
from terradask._software.pylock import Selected
from terradask._software.refused import file_refused, origins_refused
from terradask._software.resolver import Resolver, Unsolvable, name_of
from terradask._software.scan import OWN, TOOLS, Installed
from terradask._software.software_file import RequirementsFile, direct_names, named_lines
from terradask.errors import SoftwareNotResolved
from terradask_stacks.wheel_file import pure_wheel

#: In place of a package that can't be built, so that uv names its dependents.
_REFUSED = "/terradask-refused/"


@dataclass(frozen=True)
class FoundPackages:
    """A file's packages for hosts."""

    selected: Selected
    indexes: Indexes
    wheels: Sequence[LocalWheel] = ()
    is_lock: bool = False

    def lock(self, python: str) -> SoftwareLock:
        """Return the lock, without terradask and its tools: hosts run their own program."""
        left_out = {OWN, *TOOLS}
        packages = {n: v for n, v in self.selected.packages.items() if n not in left_out}
        return SoftwareLock(
            python,
            packages,
            {name: hashes for name, hashes in self.selected.hashes.items() if name in packages},
            yanked={name: why for name, why in self.selected.yanked.items() if name in packages},
            wheels=self.wheels,
            **index_fields(self.indexes, {name: self._options(name) for name in packages}),
        )

    def _options(self, name: str) -> Sequence[str]:
        url = self.selected.indexes.get(name)
        if url is not None and self.is_lock and self.indexes.tool is None:
            # The hosts' image may name another default index.
            return (f"--default-index={url}",)
        return self.indexes.options(url)


@dataclass(frozen=True)
class Request:
    """The requirements that uv resolves."""

    files: tuple[Path, ...] = ()
    requirements: tuple[str, ...] = ()
    #: Packages from a URL, a folder or a repository.
    direct: frozenset[str] = frozenset()
    #: Those that uv may build, since they aren't wheels.
    sources: frozenset[str] = frozenset()
    is_hashed: bool = False
    #: The lines of requirements files, and those without a package name.
    lines: tuple[str, ...] = field(default=(), repr=False)
    unnamed: tuple[str, ...] = field(default=(), repr=False)
    #: Whether hosts already have the packages of `BASE`.
    has_base: bool = False
    #: Whether the packages of `ADDED` are only those that the requirements need.
    is_lean: bool = False
    #: Version by name of conda packages on hosts: no index is asked for them.
    provided: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path, file: RequirementsFile) -> Request:
        """Make the request of a requirements file."""
        return cls(
            (path,),
            direct=file.direct,
            sources=file.sources,
            is_hashed=file.is_hashed,
            lines=file.lines,
            unnamed=file.unnamed,
        )


@dataclass(frozen=True)
class Requirements:
    """A requirements file or a ``pyproject.toml``, resolved for hosts."""

    path: Path
    architecture: str
    #: With the variables of the indexes.
    environ: Mapping[str, str]
    indexes: Indexes
    #: Local folders with archives in pip's and uv's configuration.
    folders: Sequence[Folder]

    @classmethod
    def of(
        cls,
        path: Path,
        architecture: str,
        environ: Mapping[str, str],
        more: Sequence[ConfiguredIndex] = (),
    ) -> Requirements:
        """Read the indexes and folders that are configured for the file's folder, the indexes after
        those in `more`.
        """
        machine = replace(Machine.here(environ), folder=path.parent)
        indexes, folders = read_indexes(environ, machine, more), local_folders(environ, machine)
        return cls(path, architecture, indexes.environ(environ), indexes, folders)

    def resolve(self, request: Request) -> FoundPackages:
        """Resolve a request, preferring the local versions."""
        # A project's file contains its sources.
        sources = {} if request.files else self._sources()
        resolver = Resolver(
            self.architecture,
            self.environ,
            self.path.parent,
            sources,
            of_project=self.path.name == "pyproject.toml",
        )
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            request = self._with_names(request, resolver, Path(made))
            try:
                local, found = self._resolved(request, resolver, Path(made))
            except SoftwareNotResolved as error:
                if error.unanswered or request.has_base:
                    raise
                # The requirements may exclude only what the hosts' dashboard needs.
                lean = replace(request, is_lean=True)
                local, found = self._resolved(lean, resolver, Path(made))
        if request.is_hashed:
            found = self._with_file_hashes(found)
        wheels = [
            local.wheel(each.name)
            if each.name in local.names
            else build_direct(each, self.architecture, self.environ)
            for each in found.direct
            if each.name not in {OWN, *request.provided}
        ]
        return FoundPackages(found, self.indexes, wheels)

    def _resolved(
        self, request: Request, resolver: Resolver, folder: Path
    ) -> tuple[_LocalPackages, Selected]:
        elsewhere = {OWN, *request.direct, *request.provided}
        installed = self._installed(elsewhere, resolver)
        local = _LocalPackages(
            [p for p in installed if p.origin is not None and p.name not in elsewhere],
            folder,
            self.architecture,
            self.environ,
        )
        try:
            resolved = resolver.resolve_files(
                request.files,
                [*request.requirements, *self._base(request)],
                overrides=[f"{name} @ {url}" for name, url in local.urls.items()],
                constraints=_placeholder_constraints(request.provided, folder),
                excludes=[OWN],
                preferences=[f"{p.name}=={p.version}" for p in installed if p.origin is None],
                built=[*request.sources, *local.sources],
            )
        except (Unsolvable, SoftwareNotResolved) as error:
            raise self._not_resolved(error, local, request.provided) from None
        return local, resolved

    def _base(self, request: Request) -> list[str]:
        """Return the requirements of every host, with the local version where versions must match.
        A file with hashes has none of those that it doesn't name.
        """
        if request.has_base:
            return []
        more = [] if request.is_hashed or request.is_lean else map(name_of, ADDED)
        return [*(f"{name}=={importlib.metadata.version(name)}" for name in SAME), *more]

    def _with_names(self, request: Request, resolver: Resolver, folder: Path) -> Request:
        """Return the request with a file in which every line names its package."""
        if not request.unnamed:
            return request
        try:
            named = named_lines(request.unnamed, resolver)
        except Unsolvable as error:
            raise SoftwareNotResolved(str(error), path=self.path) from None
        except SoftwareNotResolved as error:
            raise SoftwareNotResolved(
                error.output, unanswered=error.unanswered, path=self.path
            ) from None
        whole = folder / "requirements.txt"
        lines = [named.get(line, line) for line in request.lines]
        kept = [line for line in lines if line not in request.unnamed]
        whole.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        direct, sources = direct_names(named.values())
        return replace(
            request,
            files=(whole,),
            direct=request.direct | direct,
            sources=request.sources | sources,
        )

    def _installed(self, elsewhere: Collection[str], resolver: Resolver) -> list[Installed]:
        found = read_installed(importlib.metadata.distributions(), self.architecture)
        of_index = {
            p.name: p.version for p in found if p.origin is None and p.name not in elsewhere
        }
        only_here = find_only_in_folders(of_index, self.folders, resolver)
        return with_folder_origins(found, only_here, self.architecture)

    def _sources(self) -> dict[str, Index]:
        machine = replace(Machine.here(self.environ), folder=self.path.parent)
        return index_sources(self.indexes, machine, host_markers(self.architecture))

    def _with_file_hashes(self, found: Selected) -> Selected:
        """Keep only the hashes of the file. Check that wheels from pages have theirs."""
        locked = read_lock_file(self.path)
        for one in found.direct:
            if one.version is None:
                continue
            if one.sha256 not in locked.get(one.name, {}).get(Version(one.version), ()):
                url = without_user(one.url)[0]
                raise file_refused(
                    self.path, f"its hashes of {one.name} {one.version} don't match that of {url}"
                )
        hashes = {
            name: tuple(sorted(locked.get(name, {}).get(Version(version), ())))
            for name, version in found.packages.items()
        }
        lacking = [
            f"{name} {found.packages[name]}"
            for name, known in hashes.items()
            if not known and name not in TOOLS
        ]
        if lacking:
            raise file_refused(
                self.path,
                f"it has hashes, but none of {', '.join(lacking)}",
                advice="lock the hosts' packages too: add Dask, distributed and cloudpickle to the "
                "input of the lock file, and use uv pip compile --generate-hashes",
            )
        known = {name: each for name, each in hashes.items() if each}
        return replace(found, packages={n: found.packages[n] for n in known}, hashes=known)

    def _not_resolved(
        self, error: Exception, local: _LocalPackages, provided: Mapping[str, str]
    ) -> Exception:
        text = str(error.output if isinstance(error, SoftwareNotResolved) else error)
        refused = {name: why for name, why in local.refused.items() if f"{_REFUSED}{name}/" in text}
        if refused:
            return origins_refused(refused)
        has = [f"{n} {v}" for n, v in provided.items() if re.search(rf"\b{re.escape(n)}\b", text)]
        return SoftwareNotResolved(
            f"{text}\nconda packages provide {', '.join(has)}" if has else text,
            unanswered=isinstance(error, SoftwareNotResolved) and error.unanswered,
            path=self.path,
        )


def _placeholder_constraints(provided: Mapping[str, str], folder: Path) -> list[str]:
    """Return uv's constraints for packages that hosts already have: an empty wheel in each version.

    With them, uv still reports conflicting requirements.
    """
    made = []
    for name, version in provided.items():
        filename, content = pure_wheel(name, str(Version(version)), {})
        (folder / filename).write_bytes(content)
        made.append(f"{name} @ {(folder / filename).as_uri()}")
    return made


@dataclass(frozen=True)
class _LocalPackages:
    """Locally installed packages from no index. No index is ever asked for them."""

    packages: Sequence[Installed]
    folder: Path
    architecture: str
    environ: Mapping[str, str]
    _wheels: dict[str, LocalWheel] = field(default_factory=dict)

    @property
    def urls(self) -> dict[str, str]:
        """URLs of the packages for uv."""
        return {package.name: self._url(package) for package in self.packages}

    @property
    def names(self) -> frozenset[str]:
        """Names of the packages."""
        return frozenset(package.name for package in self.packages)

    @property
    def sources(self) -> list[str]:
        """Names of the packages that uv takes from their folders."""
        return [name for name, url in self.urls.items() if not url.endswith(".whl")]

    @property
    def refused(self) -> dict[str, str]:
        """Packages that hosts can't have, with the reason."""
        return {
            p.name: f"{p.version}, {p.origin.description}"
            for p in self.packages
            if not p.built and p.origin is not None
        }

    def wheel(self, name: str) -> LocalWheel:
        """Build the wheel of an installed package."""
        if name not in self._wheels:
            distribution = importlib.metadata.distribution(name)
            self._wheels[name] = build_wheel(distribution, self.architecture, self.environ)
        return self._wheels[name]

    def _url(self, package: Installed) -> str:
        name = package.name
        if not package.built:
            file = f"{re.sub('-', '_', name)}-0-py3-none-any.whl"
            return f"file://{_REFUSED}{name}/{file}"
        folder = editable_folder(importlib.metadata.distribution(name))
        if folder is not None:
            return folder.as_uri()
        wheel = self.wheel(name)
        path = self.folder / wheel.filename
        path.write_bytes(wheel.content)
        return path.as_uri()
