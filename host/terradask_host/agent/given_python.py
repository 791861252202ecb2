"""The cluster's own packages on a host whose Python is given, and so isn't changed: its Dask
processes find their files in a folder of the host, before what is installed.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from terradask_host.agent.environment import own_wheels


def unpack_own_packages(
    lock_text: str, folder: Path, read: Callable[[str], bytes | None]
) -> Path | None:
    """Unpack the wheels of the cluster's own that a lock names, and return the folder; None if it
    names none.

    Raises `ConfigInvalid`, `EnvironmentFailed`, `DocumentChanged`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for content in own_wheels(lock_text, read):
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            wheel.extractall(folder)
    return folder if folder.exists() else None
