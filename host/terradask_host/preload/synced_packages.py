"""Put packages that were edited at the client into a running cluster's environments, and restart
workers that have imported them.

The plugin travels pickled, by the names of this module and its class: they stay, since a cluster's
hosts may be of two versions.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import NannyPlugin
from distributed.protocol.pickle import dumps

#: The operation by which a client sends packages.
SYNC_OPERATION = "terradask_sync_packages"

NAME = "terradask-synced-packages"

#: This share of the workers is restarted at a time: the others keep the results.
_SHARE = 4
_RESTART_SECONDS = 60.0
_PIP_SECONDS = 300


class InstallWheels(NannyPlugin):  # type: ignore[misc]  # distributed carries no types here
    """Installs wheels on a host before its workers start, also on one that joins later.

    Parameters
    ----------
    wheels
        Content by file name.
    """

    name = NAME

    def __init__(self, wheels: Mapping[str, bytes]) -> None:
        self.wheels = dict(wheels)

    async def setup(self, nanny: Any) -> None:
        """Install them, once for all nannies of the environment."""
        await asyncio.to_thread(install, self.wheels)


def install(wheels: Mapping[str, bytes]) -> None:
    """Install wheels into this environment, without what they need: the environment has that.

    Raises `RuntimeError` with pip's last lines.
    """
    done = Path(sys.prefix) / ".synced"
    done.mkdir(exist_ok=True)
    with (done / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for filename, content in wheels.items():
            # The package's name: of an earlier state nothing is left.
            marker = done / filename.partition("-")[0]
            digest = hashlib.sha256(content).hexdigest()
            if not marker.exists() or marker.read_text() != digest:
                _install(filename, content)
                marker.write_text(digest)


def _install(filename: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="terradask-") as folder:
        wheel = Path(folder, Path(filename).name)
        wheel.write_bytes(content)
        command = [sys.executable, "-m", "pip", "--isolated", "install", "--no-deps", "--no-index"]
        options = ["--force-reinstall", "--disable-pip-version-check", "--no-warn-script-location"]
        ended = subprocess.run(
            [*command, *options, str(wheel)],
            check=False,
            capture_output=True,
            text=True,
            timeout=_PIP_SECONDS,
        )
    if ended.returncode != 0:
        lines = (ended.stdout + ended.stderr).splitlines()
        raise RuntimeError(f"pip can't install {filename}: " + "\n".join(lines[-5:]))


def allow_syncing(scheduler: Any) -> None:
    """Let clients send packages to a scheduler: they are installed there and on all workers' hosts,
    and the workers are restarted, some at a time, after their results were moved to the others.
    """
    turn = asyncio.Lock()

    async def sync(wheels: dict[str, bytes]) -> dict[str, Any]:
        """Return what failed, by address; which workers' results had no room elsewhere; and how
        many were restarted.
        """
        async with turn:
            failed: dict[str, str] = {}
            try:
                await asyncio.to_thread(install, wheels)
            except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                failed[scheduler.address] = str(error)
            answers = await scheduler.register_nanny_plugin(
                None, plugin=dumps(InstallWheels(wheels)), name=NAME, idempotent=False
            )
            failed |= {
                address: str(answer.get("exception_text", "it failed"))
                for address, answer in answers.items()
                if answer["status"] != "OK"
            }
            if failed:
                return {"failed": failed, "lost": [], "restarted": 0}
            return {"failed": {}, **await _restart_in_order(scheduler)}

    scheduler.handlers[SYNC_OPERATION] = sync


async def _restart_in_order(scheduler: Any) -> dict[str, Any]:
    workers = [address for address, worker in scheduler.workers.items() if worker.nanny]
    size = max(1, len(workers) // _SHARE)
    lost: list[str] = []
    for start in range(0, len(workers), size):
        some = [
            address for address in workers[start : start + size] if address in scheduler.workers
        ]
        names = {address: str(scheduler.workers[address].name) for address in some}
        moved = await scheduler.retire_workers(workers=some, close_workers=False, remove=False)
        lost += [names[address] for address in some if address not in moved]
        await scheduler.restart_workers(
            workers=some, timeout=_RESTART_SECONDS, on_error="return", stimulus_id=NAME
        )
    return {"lost": lost, "restarted": len(workers)}
