"""Install packages edited at a client in an environment. Imported after Dask is configured.

The plugin is pickled by the names of this module and its class. Don't rename them: a cluster's
hosts may have two versions.
"""

from __future__ import annotations

import asyncio
import csv
import fcntl
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import NannyPlugin

from terradask_host.environment_manifest import EDITED

NAME = "terradask-synced-packages"

_PIP_SECONDS = 300


class InstallWheels(NannyPlugin):  # type: ignore[misc]  # distributed carries no types here
    """Installs wheels, contents by file name, on a host before its workers start."""

    name = NAME

    def __init__(self, wheels: Mapping[str, bytes]) -> None:
        self.wheels = dict(wheels)

    async def setup(self, nanny: Any) -> None:
        """Install the wheels, once for all nannies of the environment."""
        await asyncio.to_thread(install, self.wheels)


def install(wheels: Mapping[str, bytes]) -> None:
    """Install wheels into this environment, without their requirements: the environment has them.

    Raises `RuntimeError` with pip's last lines.
    """
    # A Python that isn't this host's own stays unchanged.
    beside = os.environ.get("TERRADASK_OWN_PACKAGES")
    done = Path(beside or sys.prefix) / EDITED
    done.mkdir(exist_ok=True)
    with (done / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for filename, content in wheels.items():
            # The package's name: remove all of an earlier state.
            marker = done / filename.partition("-")[0]
            digest = hashlib.sha256(content).hexdigest()
            if not marker.exists() or marker.read_text() != digest:
                # An interrupted installation is neither the old nor the new state.
                marker.unlink(missing_ok=True)
                if beside:
                    _unpack(filename, content, Path(beside))
                else:
                    _install(filename, content)
                marker.write_text(digest)


def _unpack(filename: str, content: bytes, folder: Path) -> None:
    package = filename.partition("-")[0]
    for record in folder.glob(f"{package}-*.dist-info/RECORD"):
        for row in csv.reader(record.read_text().splitlines()):
            if ".." not in row[0]:
                (folder / row[0]).unlink(missing_ok=True)
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        wheel.extractall(folder)


def _install(filename: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="terradask-") as folder:
        wheel = Path(folder, Path(filename).name)
        wheel.write_bytes(content)
        program = [sys.executable, "-P", "-m", "pip", "--isolated"]
        command = [*program, "install", "--no-deps", "--no-index"]
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
