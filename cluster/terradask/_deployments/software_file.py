"""The hosts' packages by a file that `software` names: of a lock file all that it locks for hosts,
of requirements what uv finds for them.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from terradask._deployments.software import (
    OPTIONAL,
    SAME,
    SoftwareLock,
    base,
    index_fields,
    python_for_hosts,
    why_not_with_client,
)
from terradask._software.archive_hashes import read_lock_file
from terradask._software.configured import Found, Machine
from terradask._software.direct_wheels import build_direct
from terradask._software.environment import read_installed
from terradask._software.hosts import host_markers
from terradask._software.index_sources import index_sources
from terradask._software.indexes import Index, Indexes, read_indexes
from terradask._software.local_wheels import LocalWheel, build_wheel, editable_folder
from terradask._software.pylock import DirectPackage, Selected, select_for_hosts
from terradask._software.resolver import Resolver, Unsolvable
from terradask._software.scan import OWN, TOOLS, Installed
from terradask._software.software_file import (
    kind_of,
    read_project_file,
    read_requirements_file,
)
from terradask._software.uv import ask_uv
from terradask.errors import SoftwareFileInvalid, SoftwareNotFromIndex, SoftwareNotResolved

#: In place of a package that no wheel can be made of: uv names it where it is needed.
_REFUSED = "/terradask-refused/"
_EXPORT_SECONDS = 60


def lock_file_packages(path: Path, architecture: str, environ: Mapping[str, str]) -> SoftwareLock:
    """Lock the hosts' environment to a file: ``uv.lock``, ``pylock.toml``, ``pyproject.toml`` or a
    requirements file.

    Raises `SoftwareFileInvalid`, `SoftwareNotResolved`, `SoftwareNotFromIndex`, `WheelNotBuilt`,
    `ResolverMissing`, `PythonNotOnHosts`, `IndexSettingsInvalid`.
    """
    python = python_for_hosts()
    path = path.absolute()
    kind = kind_of(path)
    machine = replace(Machine.here(environ), folder=path.parent)
    named: tuple[Found, ...] = ()
    if kind == "requirements":
        named = read_requirements_file(path).indexes
    indexes = read_indexes(environ, machine, named)
    of_uv = indexes.environ(environ)
    if kind in ("uv.lock", "pylock.toml"):
        text = _exported(path, of_uv) if kind == "uv.lock" else _read(path)
        selected = select_for_hosts(text, path, architecture, folder=path.parent)
        found = _Found(selected, build_all(selected.direct, architecture, of_uv), is_lock=True)
        _check_same(path, found)
    else:
        request = _of_project(path) if kind == "pyproject.toml" else _of_requirements(path)
        found = _Requirements(path, architecture, of_uv).resolve(request)
    return _lock(python, path, found, indexes)


def lock_requirements(
    requirements: Sequence[str], settings: Path, architecture: str, environ: Mapping[str, str]
) -> SoftwareLock:
    """Lock the hosts' environment to requirements that a settings file has. Raises as
    `lock_file_packages` does.
    """
    python = python_for_hosts()
    indexes = read_indexes(environ, replace(Machine.here(environ), folder=settings.parent))
    wanted = _Requirements(settings, architecture, indexes.environ(environ))
    return _lock(python, settings, wanted.resolve(_Request((), tuple(requirements))), indexes)


@dataclass(frozen=True)
class _Found:
    """What a file says, for hosts."""

    selected: Selected
    wheels: Sequence[LocalWheel] = ()
    yanked: Mapping[str, str] = field(default_factory=dict)
    is_lock: bool = False


def build_all(
    direct: Sequence[DirectPackage], architecture: str, environ: Mapping[str, str]
) -> list[LocalWheel]:
    """Return the wheels of packages from no index that hosts need."""
    return [
        build_direct(package, architecture, environ) for package in direct if package.name != OWN
    ]


def _lock(python: str, path: Path, found: _Found, indexes: Indexes) -> SoftwareLock:
    # Hosts run terradask's own program, and deploy nothing.
    left_out = {OWN, *TOOLS}
    packages = {n: v for n, v in found.selected.packages.items() if n not in left_out}
    has = packages.keys() | {wheel.name for wheel in found.wheels}
    lacking = {Requirement(text).name for text in base()} - has
    return SoftwareLock(
        python,
        packages,
        {name: hashes for name, hashes in found.selected.hashes.items() if name in packages},
        missing=dict.fromkeys(lacking, f"{path.name} lacks it"),
        yanked={name: why for name, why in found.yanked.items() if name in packages},
        wheels=found.wheels,
        **index_fields(indexes, {name: _options(found, name, indexes) for name in packages}),
    )


def _options(found: _Found, name: str, indexes: Indexes) -> Sequence[str]:
    url = found.selected.indexes.get(name)
    if url is not None and found.is_lock and indexes.tool is None:
        # Hosts' image may name another one, which hosts then ask in its place.
        return (f"--default-index={url}",)
    return indexes.options(url)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SoftwareFileInvalid(path, f"it can't be read: {type(error).__name__}") from error


def _exported(path: Path, environ: Mapping[str, str]) -> str:
    """Return a ``uv.lock`` as a ``pylock.toml``: the project's packages, without its groups."""
    if not path.with_name("pyproject.toml").is_file():
        raise SoftwareFileInvalid(path, "the pyproject.toml that belongs to it isn't beside it")
    command = ["export", "--quiet", "--frozen", "--no-header", "--no-default-groups"]
    command += ["--format=pylock.toml", f"--python={sys.executable}"]
    said = ask_uv(command, environ, seconds=_EXPORT_SECONDS, folder=path.parent)
    if said.code != 0:
        raise SoftwareFileInvalid(path, said.text)
    return said.output


def _check_same(path: Path, found: _Found) -> None:
    """Check that a lock file has what client and hosts must have in the same version."""
    why = why_not_with_client(
        {**found.selected.packages, **{wheel.name: wheel.version for wheel in found.wheels}}
    )
    if why is not None:
        raise SoftwareFileInvalid(
            path,
            why,
            advice="install here what the file locks (of a uv.lock: uv sync), or lock these "
            "versions in it",
        )


@dataclass(frozen=True)
class _Request:
    """What uv is to resolve."""

    files: tuple[Path, ...] = ()
    requirements: tuple[str, ...] = ()
    #: Packages that it takes from a URL, a folder or a repository.
    direct: frozenset[str] = frozenset()
    is_hashed: bool = False


def _of_project(path: Path) -> _Request:
    project = read_project_file(path)
    direct = project.direct | {project.name}
    if not project.is_package:
        return _Request((path,), (), direct)
    # Its folder has the requirements too, also those that its build makes.
    return _Request((), (f"{project.name} @ {path.parent.as_uri()}",), direct)


def _of_requirements(path: Path) -> _Request:
    said = read_requirements_file(path)
    return _Request((path,), (), said.direct, said.is_hashed)


@dataclass(frozen=True)
class _Requirements:
    """A requirements file or a ``pyproject.toml``, resolved for hosts."""

    path: Path
    architecture: str
    environ: Mapping[str, str]

    def resolve(self, request: _Request) -> _Found:
        """Return what uv finds: in the versions of here where there is a choice."""
        installed = read_installed(importlib.metadata.distributions(), self.architecture)
        # A project's file has its sources in it.
        sources = {} if request.files else self._sources()
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            local = _LocalPackages(
                [
                    p
                    for p in installed
                    if p.origin is not None and p.name not in {OWN, *request.direct}
                ],
                Path(made),
                self.architecture,
                self.environ,
            )
            try:
                resolved, others = Resolver(
                    self.architecture, self.environ, self.path.parent, sources
                ).of_files(
                    request.files,
                    [*request.requirements, *_base_here()],
                    overrides=[f"{name} @ {url}" for name, url in local.urls.items()],
                    excludes=[OWN],
                    preferences=[f"{p.name}=={p.version}" for p in installed if p.origin is None],
                )
            except (Unsolvable, SoftwareNotResolved) as error:
                raise self._not_resolved(error, local) from None
        found = Selected(
            {name: str(next(iter(versions))) for name, versions in resolved.versions.items()},
            {
                name: tuple(sorted(hashes))
                for name, versions in resolved.versions.items()
                for hashes in versions.values()
            },
            resolved.indexes,
        )
        if request.is_hashed:
            found = self._reviewed(found)
        wheels = [
            local.wheel(each.name)
            if each.name in local.urls
            else build_direct(each, self.architecture, self.environ)
            for each in others
            if each.name != OWN
        ]
        return _Found(found, wheels, resolved.yanked)

    def _sources(self) -> dict[str, Index]:
        machine = replace(Machine.here(self.environ), folder=self.path.parent)
        indexes = read_indexes(self.environ, machine)
        return index_sources(indexes, machine, host_markers(self.architecture))

    def _reviewed(self, found: Selected) -> Selected:
        """Return it with the hashes in the file alone."""
        locked = read_lock_file(self.path)
        hashes = {
            name: tuple(sorted(locked.get(name, {}).get(Version(version), ())))
            for name, version in found.packages.items()
        }
        lacking = [
            f"{name} {found.packages[name]}"
            for name, known in hashes.items()
            if not known and name not in {*OPTIONAL, *TOOLS}
        ]
        if lacking:
            raise SoftwareFileInvalid(
                self.path,
                f"it has hashes, and none of {', '.join(lacking)}",
                advice="lock all that hosts need: put Dask, distributed, cloudpickle and Bokeh "
                "into what you lock, and use uv pip compile --generate-hashes",
            )
        known = {name: each for name, each in hashes.items() if each}
        return Selected({n: found.packages[n] for n in known}, known, found.indexes)

    def _not_resolved(self, error: Exception, local: _LocalPackages) -> Exception:
        text = str(error.output if isinstance(error, SoftwareNotResolved) else error)
        refused = {name: why for name, why in local.refused.items() if f"{_REFUSED}{name}/" in text}
        if refused:
            return SoftwareNotFromIndex(refused)
        return SoftwareNotResolved(
            text,
            unanswered=isinstance(error, SoftwareNotResolved) and error.unanswered,
            path=self.path,
        )


def _base_here() -> list[str]:
    """Return the requirements of every host, where it matters in the versions of here."""
    return [
        f"{name}=={importlib.metadata.version(name)}" if name in SAME else text
        for text in base()
        if (name := Requirement(text).name)
    ]


@dataclass(frozen=True)
class _LocalPackages:
    """Packages that are installed here from no index, which is therefore never asked for them."""

    packages: Sequence[Installed]
    folder: Path
    architecture: str
    environ: Mapping[str, str]
    _wheels: dict[str, LocalWheel] = field(default_factory=dict)

    @property
    def urls(self) -> dict[str, str]:
        """The URL of each, for uv."""
        return {package.name: self._url(package) for package in self.packages}

    @property
    def refused(self) -> dict[str, str]:
        """Those that hosts can't have, with the reason."""
        return {
            p.name: f"{p.version}, {p.origin.description}"
            for p in self.packages
            if not p.built and p.origin is not None
        }

    def wheel(self, name: str) -> LocalWheel:
        """Return the wheel of one, as it is installed here."""
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
