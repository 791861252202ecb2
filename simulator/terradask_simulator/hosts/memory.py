"""A host's ``/run``: in memory, as on an instance, and removed with the machine."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from terradask_simulator.hosts.cloud_config import check_installed

__all__ = ["forget_run", "make_run"]

#: Linux' folder for files in memory, for every user.
MEMORY = Path("/dev/shm")  # noqa: S108  (a folder of its own with a name that can't be guessed is made below)


def make_run(root: Path) -> None:
    """Make a host's ``/run``; on a computer without files in memory, an ordinary folder, in which a
    host refuses to keep keys.
    """
    check_installed()
    from terradask_host.agent.keys import IN_MEMORY, filesystem_of

    run = root / "run"
    if run.exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    run.unlink(missing_ok=True)
    if filesystem_of(MEMORY) not in IN_MEMORY:
        run.mkdir()
        return
    run.symlink_to(tempfile.mkdtemp(prefix="terradask-host-", dir=MEMORY), target_is_directory=True)


def forget_run(root: Path) -> None:
    """Remove the content of a host's ``/run``, as switching a machine off does."""
    run = root / "run"
    if run.is_symlink():
        shutil.rmtree(run.readlink(), ignore_errors=True)
        run.unlink(missing_ok=True)
    else:
        shutil.rmtree(run, ignore_errors=True)
