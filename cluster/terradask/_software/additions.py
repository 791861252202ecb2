"""Add the packages of every host that their source lacks, such as Bokeh for the dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from terradask._software.client_versions import ADDED
from terradask._software.lock import SoftwareLock
from terradask._software.requirements import Request, Requirements
from terradask._software.resolver import name_of
from terradask.errors import SetupError, SoftwareNotResolved, SoftwareUnusable


def add_to_list(
    lock: SoftwareLock, wanted: Sequence[str], architecture: str, environ: Mapping[str, str]
) -> SoftwareLock:
    """Add these requirements to the locked packages of this environment. As `add_to_file`."""
    if not wanted:
        return lock
    # Only errors name the file.
    place = Path.cwd() / "terradask.toml"
    return _with(lock, wanted, Requirements.of(place, architecture, environ))


def add_to_file(lock: SoftwareLock, resolve: Requirements) -> SoftwareLock:
    """Add what every host needs to a file's packages, in versions that suit these. A package
    without such a version is listed as missing.
    """
    wanted = [each for each in ADDED if name_of(each) not in lock.versions]
    return _with(lock, wanted, resolve) if wanted else lock


def without_hashes(lock: SoftwareLock, wanted: Sequence[str], lock_file: Path) -> SoftwareLock:
    """List packages as missing that the lock file of `software_lock` can't have hashes of."""
    why = f"this environment lacks it: install it, and lock it in {lock_file.name}"
    return replace(lock, missing={**lock.missing, **dict.fromkeys(map(name_of, wanted), why)})


def _with(lock: SoftwareLock, wanted: Sequence[str], resolve: Requirements) -> SoftwareLock:
    # uv doesn't look up the locked packages.
    request = Request((), tuple(wanted), has_base=True, provided=lock.versions)
    try:
        found = resolve.resolve(request).lock(lock.python)
    except (SetupError, SoftwareNotResolved, SoftwareUnusable) as error:
        if len(wanted) > 1 and not _is_unanswered(error):
            for each in wanted:
                lock = _with(lock, [each], resolve)
            return lock
        return replace(
            lock, missing={**lock.missing, **dict.fromkeys(map(name_of, wanted), _why(error))}
        )
    return replace(
        lock,
        packages={**lock.packages, **found.packages},
        hashes={**lock.hashes, **found.hashes} if lock.hashes else {},
        yanked={**lock.yanked, **found.yanked},
        wheels=(*lock.wheels, *found.wheels),
        indexes={**lock.indexes, **found.indexes},
        loopback=list(dict.fromkeys([*lock.loopback, *found.loopback])),
        credentials={**lock.credentials, **found.credentials},
    )


def _is_unanswered(error: Exception) -> bool:
    return isinstance(error, SetupError) or (
        isinstance(error, SoftwareNotResolved) and error.unanswered
    )


def _why(error: SetupError | SoftwareNotResolved | SoftwareUnusable) -> str:
    if not isinstance(error, SoftwareNotResolved):
        return error.problem.rstrip(".")
    if error.unanswered:
        return "no index answered"
    return "no version in the index suits the other packages"
