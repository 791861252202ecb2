"""Lock hosts to an ``environment.yml``: rattler solves the conda packages, and uv resolves the pip
list on top of them.
"""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from packaging.requirements import InvalidRequirement

from terradask._software.client_versions import ADDED, SAME, client_mismatch
from terradask._software.conda.file import file_channels, read_conda_file
from terradask._software.conda.solver import CondaPackage, CondaSolver, subdir_of
from terradask._software.host_packages import BootLock, download, packages_cache
from terradask._software.hosts import python_version
from terradask._software.indexes.configured import Machine
from terradask._software.local_wheels import LocalWheel
from terradask._software.lock import CONDA_DASK, SoftwareLock, with_conda
from terradask._software.refused import file_refused
from terradask._software.requirements import Request, Requirements
from terradask._software.resolver import name_of
from terradask._software.scan import OWN, TOOLS
from terradask._software.software_file import read_requirements_file
from terradask.errors import BaselineError, SetupError

#: An included file in a line of requirements, relative to the folder of the including file.
_INCLUDED = re.compile(r"^(-r|--requirement|-c|--constraint)(?:\s+|=|(?<=^-[rc]))(\S.*)$")
#: An upper bound of Python's patch releases.
_MOST_PATCHES = 64


def lock_conda_file(path: Path, architecture: str, environ: Mapping[str, str]) -> SoftwareLock:
    """Lock the hosts' environment to an ``environment.yml``.

    Raises `SoftwareUnusable`, `SoftwareNotResolved`, `SetupError`, and for the pip list the
    errors of `Requirements.resolve`.
    """
    file = read_conda_file(path, subdir_of(architecture))
    machine = replace(Machine.here(environ), folder=path.parent)
    channels = file_channels(path, file.channels, environ, machine)
    solver = CondaSolver(path, channels, architecture, environ)
    lines = [_with_absolute_path(line, path.parent) for line in file.pip]
    specs = [spec for spec in file.dependencies if solver.name(spec) not in {OWN, *TOOLS}]
    for spec in specs:
        solver.check_version(spec, _versions_here())
    conda = solver.solve([*specs, *_base(_names(lines))])
    with ThreadPoolExecutor(1) as pool:
        # Each machine downloads it once.
        installer = pool.submit(installer_wheel, architecture)
        lock = SoftwareLock(python_version())
        if lines:
            lock = _resolve_pip_list(lines, solver, conda)
        lock = with_conda(lock, conda, installer.result(), channels)
    why = client_mismatch(lock.versions)
    if why is not None:
        raise file_refused(path, why, advice="use the local versions in the file")
    return lock


def _resolve_pip_list(
    lines: Sequence[str], solver: CondaSolver, conda: Sequence[CondaPackage]
) -> SoftwareLock:
    """Resolve the pip list. No index is asked for packages that conda provides."""
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        listed = Path(made, "requirements.txt")
        listed.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        file = read_requirements_file(listed, solver.environ)
        request = replace(
            Request.of_file(listed, file),
            is_hashed=False,
            # conda provides these unless the list names them: uv prefers the local versions.
            has_base=True,
            provided=solver.distributions(conda),
        )
        of_file = solver.path, solver.architecture, solver.environ, file.indexes
        return Requirements.of(*of_file).resolve(request).lock(python_version())


def _base(of_pip: Collection[str]) -> list[str]:
    """Return the packages of every host that the pip list lacks."""
    same = {CONDA_DASK if name == "dask" else name: name for name in SAME}
    return [
        f"python {python_version()}.*",
        *(
            f"{spec} =={importlib.metadata.version(name)}"
            for spec, name in same.items()
            if name not in of_pip
        ),
        *(name for name in map(name_of, ADDED) if name not in of_pip),
    ]


def _versions_here() -> dict[str, list[str]]:
    """Return the versions that hosts may have of packages that must match the client's."""
    here = {name: [importlib.metadata.version(name)] for name in SAME}
    python = python_version()
    patches = [f"{python}.{patch}" for patch in range(_MOST_PATCHES)]
    return {**here, CONDA_DASK: here["dask"], "python": [python, *patches]}


def _with_absolute_path(line: str, folder: Path) -> str:
    included = _INCLUDED.match(line)
    if included is None or "://" in included[2]:
        return line
    return f"{included[1]} {folder / included[2]}"


def _names(lines: Iterable[str]) -> set[str]:
    """Return the package names in lines of requirements."""
    found = set()
    for line in lines:
        try:
            found.add(name_of(line.partition(" --")[0]))
        except InvalidRequirement:
            # A path, an option or another file.
            continue
    return found


# ---- the installer of conda packages on hosts: a wheel in one version, by hash -------------------

INSTALLER = "py-rattler"


def installer_lock() -> BootLock:
    """Return the installer's version and hashes."""
    return BootLock(files(__package__).joinpath("installer.lock").read_bytes())


def installer_wheel(architecture: str) -> LocalWheel:
    """Return the installer's wheel for a processor architecture, downloaded by pip if necessary.

    Raises `SetupError`.
    """
    lock, folder = installer_lock(), packages_cache() / "conda"
    (package,) = lock.hashes
    found = lock.select(folder, architecture)
    if not found:
        try:
            download(lock, folder, architecture)
        except BaselineError as error:
            raise _unavailable(package, folder, str(error.given)) from error
        found = lock.select(folder, architecture)
    if not found:
        raise _unavailable(package, folder, f"no wheel for {architecture}")
    version = package.removeprefix(f"{INSTALLER}==")
    return LocalWheel(INSTALLER, version, found[package].name, found[package].read_bytes())


def _unavailable(package: str, folder: Path, why: str) -> SetupError:
    return SetupError(
        f"{package}, which installs conda packages on hosts, is not available.",
        given=why,
        allowed=f"its wheel for the hosts' processors, from pip's index or in {folder}",
        advice="configure pip's index (PIP_INDEX_URL, or pip.conf), or copy the wheel there "
        "from a machine that has downloaded it",
    )
