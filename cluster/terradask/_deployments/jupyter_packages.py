"""What a notebook server needs among the hosts' packages: JupyterLab, in the version of here."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from terradask._deployments.software_lock import SoftwareLock
from terradask._software.software_file import Software
from terradask._software.sync import PackageSync
from terradask.errors import InvalidInput

#: It brings the server, and a kernel for Python.
JUPYTERLAB = "jupyterlab"


def with_jupyterlab(software: Software, sync: PackageSync) -> tuple[Software, PackageSync]:
    """Return what hosts get, with JupyterLab, if names or nothing but Dask were asked for. All of
    this environment, a file and a named environment have it, or not.
    """
    if sync.packages is True or (not sync and isinstance(software, str | Path)):
        return software, sync
    if sync:
        return software, replace(sync, packages=_added(sync.packages))
    return _added(software), sync


def check_jupyterlab(lock: SoftwareLock, software: Software, sync: PackageSync) -> None:
    """Check that hosts get JupyterLab. Raises `InvalidInput`."""
    if JUPYTERLAB in lock.versions:
        return
    raise _missing(
        "this environment" if sync or not isinstance(software, str | Path) else str(software)
    )


def _added(names: object) -> list[str]:
    assert isinstance(names, list | tuple)
    has = {canonicalize_name(Requirement(name).name) for name in names}
    if JUPYTERLAB in has:
        return list(names)
    try:
        importlib.metadata.distribution(JUPYTERLAB)
    except importlib.metadata.PackageNotFoundError:
        raise _missing("this environment") from None
    return [*names, JUPYTERLAB]


def _missing(where: str) -> InvalidInput:
    return InvalidInput(
        "The cluster is to run a notebook server, and its hosts get no JupyterLab.",
        given=f"jupyter=True; {where} has no {JUPYTERLAB} for hosts",
        allowed=f"packages with {JUPYTERLAB}",
        advice=(
            f"pip install {JUPYTERLAB} here"
            if where == "this environment"
            else f"add {JUPYTERLAB} there"
        )
        + ", or leave jupyter out",
    )
