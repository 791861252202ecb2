"""Lock hosts to the file that `software` names: the contents of a lock file, or uv's resolution of
requirements.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from terradask._software.additions import add_to_file
from terradask._software.client_versions import client_mismatch, python_for_hosts
from terradask._software.conda.file import configured_channels
from terradask._software.conda.lock import installer_wheel, lock_conda_file
from terradask._software.hosts import python_version
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import link_pages
from terradask._software.local_wheels import build_direct
from terradask._software.lock import SoftwareLock, with_conda
from terradask._software.pylock import select_for_hosts
from terradask._software.pylock_file import conda_packages
from terradask._software.refused import file_refused, refuse_aws_secrets
from terradask._software.requirements import FoundPackages, Request, Requirements
from terradask._software.scan import OWN
from terradask._software.software_file import (
    kind_of,
    read_file,
    read_project_file,
    read_requirements_file,
)
from terradask._software.uv import run_uv

_EXPORT_SECONDS = 60


def lock_file_packages(path: Path, architecture: str, environ: Mapping[str, str]) -> SoftwareLock:
    """Lock the hosts' environment to a file: ``uv.lock``, ``pylock.toml``, ``pyproject.toml``, a
    requirements file or an ``environment.yml``.

    Raises `SoftwareUnusable`, `SoftwareNotResolved`, `SetupError`.
    """
    path = path.absolute()
    kind = kind_of(path)
    if kind != "requirements" and path.is_file():
        refuse_aws_secrets(path, read_file(path))
    if kind == "conda":
        return lock_conda_file(path, architecture, environ)
    file = read_requirements_file(path, environ) if kind == "requirements" else None
    wanted = Requirements.of(path, architecture, environ, () if file is None else file.indexes)
    if kind in ("uv.lock", "pylock.toml"):
        text = _exported(path, wanted.environ) if kind == "uv.lock" else read_file(path)
        lock = _as_locked(wanted, text, environ)
    else:
        python = python_for_hosts()
        request = _project_request(path) if file is None else Request.of_file(path, file)
        lock = wanted.resolve(request).lock(python)
    return add_to_file(lock, wanted)


def _as_locked(wanted: Requirements, text: str, environ: Mapping[str, str]) -> SoftwareLock:
    """Return the hosts' packages in the text of a ``pylock.toml``."""
    path, architecture = wanted.path, wanted.architecture
    pages = link_pages(environ, replace(Machine.here(environ), folder=path.parent))
    selected = select_for_hosts(text, path, architecture, folder=path.parent, pages=pages)
    conda, channels = conda_packages(text, path, architecture)
    # conda brings its own Python.
    python = python_version() if conda else python_for_hosts()
    direct = [each for each in selected.direct if each.name != OWN]
    wheels = [build_direct(each, architecture, wanted.environ) for each in direct]
    lock = FoundPackages(selected, wanted.indexes, wheels, is_lock=True).lock(python)
    if conda:
        installer = installer_wheel(architecture)
        lock = with_conda(lock, conda, installer, configured_channels(channels, environ))
    _check_same(path, lock)
    return lock


def lock_requirements(
    requirements: Sequence[str], settings: Path, architecture: str, environ: Mapping[str, str]
) -> SoftwareLock:
    """Lock hosts to the requirements in a settings file. Raises as `lock_file_packages`."""
    refuse_aws_secrets(settings, "\n".join(requirements))
    python = python_for_hosts()
    wanted = Requirements.of(settings, architecture, environ)
    found = wanted.resolve(Request((), tuple(requirements)))
    return add_to_file(found.lock(python), wanted)


def _exported(path: Path, environ: Mapping[str, str]) -> str:
    """Return a ``uv.lock`` as ``pylock.toml``: the project's packages, without its groups."""
    if not path.with_name("pyproject.toml").is_file():
        raise file_refused(path, "its pyproject.toml isn't beside it")
    command = ["export", "--quiet", "--frozen", "--no-header", "--no-default-groups"]
    command += ["--format=pylock.toml", f"--python={sys.executable}"]
    result = run_uv(command, environ, seconds=_EXPORT_SECONDS, folder=path.parent)
    if result.code != 0:
        raise file_refused(path, result.text)
    return result.output


def _check_same(path: Path, lock: SoftwareLock) -> None:
    """Check that a lock file has the packages that must match the client's, in the same version."""
    why = client_mismatch(lock.versions)
    if why is not None:
        raise file_refused(
            path,
            why,
            advice="install the locked versions locally (of a uv.lock: uv sync), or lock the "
            "local versions in it",
        )


def _project_request(path: Path) -> Request:
    project = read_project_file(path)
    direct = project.direct | {project.name}
    if not project.is_package:
        return Request((path,), (), direct, project.sources)
    # The folder has the requirements too, also those that its build computes.
    return Request(
        (), (f"{project.name} @ {path.parent.as_uri()}",), direct, project.sources | {project.name}
    )
