"""A container image as Dask's are made: a system's files, a layer of packages, and an entry point
that prepares before it runs what it is given.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from ..container_registry import ContainerRegistry, file, layer
from .system import PACKAGES, SYSTEM

ENTRY_POINT = "/usr/bin/prepare.sh"
#: What is there in the image alone.
MARK = "/etc/image-of-the-test"
#: What Dask's own does, among other things: https://github.com/dask/dask-docker
_PREPARE = f"""\
#!/bin/sh
set -x
if [ "$EXTRA_PIP_PACKAGES" ]; then
  echo "$EXTRA_PIP_PACKAGES" >{MARK}.extra
fi
exec "$@"
"""
_SITE = "usr/local/lib/python3.11/dist-packages"
_PROGRAMS = ("dash", "sh", "env", "python3.11", "python3")


def push(registry: ContainerRegistry, repository: str, tag: str) -> str:
    """Make the image of Debian's files and the environment's packages, and return its digest."""
    system = _archive(_system_files())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                Path(sys.executable).with_name("uv"),
                *("pip", "install", "--quiet", "--offline", "--no-index", "--no-deps"),
                *("--python", sys.executable, "--target", folder, "--find-links", PACKAGES),
                *("--requirements", PACKAGES / "software.lock"),
            ],
            check=True,
        )
        packages = _archive(
            (path, f"{_SITE}/{path.relative_to(folder)}")
            for path in sorted(Path(folder).rglob("*"))
            if "__pycache__" not in path.parts
        )
    own = layer(
        file(ENTRY_POINT.strip("/"), _PREPARE, mode=0o755),
        file(MARK.strip("/"), "made in the test"),
    )
    return registry.push(
        repository,
        tag,
        {"amd64": [system, packages, own]},
        environ={"PATH": "/usr/bin", "OF_IMAGE": "yes"},
        entry_point=[ENTRY_POINT],
    )


def _system_files() -> Iterable[tuple[Path, str]]:
    libraries = SYSTEM / "usr/lib/x86_64-linux-gnu"
    chosen = [
        *(SYSTEM / name for name in ("bin", "lib", "lib64", "usr/lib64", "etc/passwd")),
        *(SYSTEM / "usr/bin" / name for name in _PROGRAMS),
        *sorted((SYSTEM / "usr/lib64").iterdir()),
        *sorted(libraries.glob("*.so*")),
        *sorted((SYSTEM / "usr/lib/python3.11").rglob("*")),
    ]
    yield from ((path, str(path.relative_to(SYSTEM))) for path in chosen)
    yield SYSTEM / "usr/bin/python3.11", "usr/bin/python"


def _archive(files: Iterable[tuple[Path, str]]) -> bytes:
    """Return a layer of files and links, folders being those around them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, name in files:
            if path.is_symlink() or path.is_file():
                archive.add(path, name, recursive=False)
    # Made once and read on the spot: speed counts, size doesn't.
    packing = zlib.compressobj(1, wbits=31)
    return packing.compress(buffer.getbuffer()) + packing.flush()
