"""An index on loopback with what hosts need, in the versions that are installed here."""

from __future__ import annotations

import email
import importlib.metadata
import platform
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

from terradask._software.environment import read_installed
from terradask._software.hosts import host_markers
from terradask._software.package_sync import lock_for_hosts
from terradask._software.scan import dependency_closure
from terradask._software.sync import PackageSync

from ..package_index import list_archive

#: Files of a package's metadata that its wheel had.
_KEPT = {"METADATA", "WHEEL", "entry_points.txt"}

_LEFT_OUT = {"..", "__pycache__", "tests"}

#: The dashboard's, four fifths of all.
DASHBOARD = {"bokeh", "contourpy", "narwhals", "numpy", "pillow", "xyzservices"}


def architecture_here() -> str:
    """Return this processor's architecture, as AWS names it."""
    return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())


def versions_for_hosts() -> dict[str, str]:
    """Return what every host needs, as it is installed here."""
    architecture = architecture_here()
    lock = lock_for_hosts([], PackageSync(False), architecture=architecture, lock_file=None)
    return dict(lock.packages)


def names_with_dependencies(requirement: str) -> frozenset[str]:
    """Return the installed packages that a requirement asks for, with what they need."""
    architecture = architecture_here()
    installed = read_installed(importlib.metadata.distributions(), architecture)
    return dependency_closure(installed, [requirement], host_markers(architecture))


def list_installed(
    root: Path, names: Iterable[str], unused: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """Put installed packages into an index, packed again; return each one's file and SHA-256. Of
    those that nothing imports the metadata alone is.
    """
    (root / "files").mkdir(parents=True, exist_ok=True)
    found = {}
    for name in names:
        wheel = _packed(name, root / "files", whole=name not in unused)
        found[name] = (wheel.name, list_archive(root, name, wheel))
    return found


def _packed(name: str, folder: Path, *, whole: bool) -> Path:
    """Pack an installed package again, without its scripts and tests, or its metadata alone."""
    found = importlib.metadata.distribution(name)
    about = email.message_from_string(found.read_text("WHEEL") or "")
    stem = f"{name.replace('-', '_')}-{found.version}"
    wheel = folder / f"{stem}-{about.get_all('Tag', [])[-1]}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in found.files or ():
            about_it = path.parts[0].endswith(".dist-info")
            if _LEFT_OUT.isdisjoint(path.parts) and (path.name in _KEPT if about_it else whole):
                top = f"{stem}.dist-info" if about_it else path.parts[0]
                archive.write(path.locate(), "/".join([top, *path.parts[1:]]))
            elif whole and _is_program(path):
                archive.write(path.locate(), f"{stem}.data/scripts/{path.name}")
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return wheel


def _is_program(path: importlib.metadata.PackagePath) -> bool:
    """Return whether an installed file is a program, such as uv, and no script for this Python."""
    if path.parts[-2:-1] != ("bin",) or ".." not in path.parts:
        return False
    with Path(str(path.locate())).open("rb") as file:
        return file.read(2) != b"#!"
