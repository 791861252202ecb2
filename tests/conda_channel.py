"""A conda channel on loopback: real packages, packed here, which rattler indexes."""

from __future__ import annotations

import asyncio
import bz2
import email
import hashlib
import importlib.metadata
import io
import json
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
ARCHITECTURE = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
SUBDIR = {"aarch64": "linux-aarch64"}.get(platform.machine(), "linux-64")
#: Names of packages in conda-forge that aren't those of the index.
CONDA_NAMES = {"dask": "dask-core", "msgpack": "msgpack-python"}
#: What a package was built for: conda puts the environment's own path in its place.
PLACEHOLDER = f"/build/{'placehold_' * 20}"

_BLOCK_BYTES = 2**17
#: Of Python's library, what no host needs.
_LEFT_OUT = {"test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages"}
#: What bokeh needs only to draw, some 150 MB.
_UNDRAWN = {"pandas", "pillow", "contourpy"}


@dataclass(frozen=True)
class Link:
    """A symbolic link of a package."""

    to: str


#: A file's content, a file of here, or a link.
Content = bytes | Path | Link


def publish_conda(
    channel: Path,
    name: str,
    version: str,
    files: Mapping[str, Content] | None = None,
    *,
    depends: Sequence[str] = (),
    subdir: str = "noarch",
    is_python: bool = False,
    programs: Sequence[str] = (),
    is_old: bool = False,
) -> str:
    """Put a package into a channel, and return its file name; `index` then lists it. Old ones are
    one compressed tar.
    """
    stem = f"{name}-{version}-0"
    files = files or {}
    noarch = {"noarch": "python" if is_python else "generic"} if subdir == "noarch" else {}
    about = {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "depends": list(depends),
        "subdir": subdir,
        **noarch,
    }
    info: dict[str, Content] = {
        "info/index.json": json.dumps(about).encode(),
        "info/paths.json": json.dumps(
            {"paths": [_path(path, each) for path, each in files.items()], "paths_version": 1}
        ).encode(),
        "info/files": "".join(f"{path}\n" for path in files).encode(),
    }
    if is_python:
        link = {"type": "python", "entry_points": list(programs)}
        info["info/link.json"] = json.dumps(
            {"noarch": link, "package_metadata_version": 1}
        ).encode()
    path = channel / subdir / f"{stem}.{'tar.bz2' if is_old else 'conda'}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_old:
        path.write_bytes(bz2.compress(_tar({**info, **files})))
        return path.name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        archive.writestr(f"pkg-{stem}.tar.zst", _zstd(_tar(files)))
        archive.writestr(f"info-{stem}.tar.zst", _zstd(_tar(info)))
    return path.name


def own_cache(folder: Path, patched: pytest.MonkeyPatch) -> None:
    """Let terradask's cache be a folder of the test's own, with nothing but what installs conda's
    packages on hosts: `make setup-tests` has downloaded that.
    """
    from terradask._software.conda.lock import installer_lock
    from terradask._software.host_packages import packages_cache

    there = packages_cache() / "conda"
    found = installer_lock().select(there, ARCHITECTURE)
    if not found:
        pytest.skip("py-rattler for hosts isn't in the cache: make setup-tests downloads it")
    patched.setenv("XDG_CACHE_HOME", str(folder))
    own = packages_cache() / "conda"
    own.mkdir(parents=True)
    for path in found.values():
        (own / path.name).symlink_to(path)


def index(channel: Path) -> None:
    """Write the lists of a channel's packages."""
    from rattler.index import index_fs

    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    (channel / SUBDIR).mkdir(exist_ok=True)
    asyncio.run(index_fs(channel, write_zst=False, write_shards=False, force=True))


def publish_python(channel: Path) -> None:
    """Publish the Python that runs this, without its tests."""
    base = Path(sys.base_prefix)
    library = base / "lib" / f"python{MINOR}"
    files: dict[str, Content] = {
        f"bin/python{MINOR}": base / "bin" / f"python{MINOR}",
        "bin/python": Link(f"python{MINOR}"),
        "bin/python3": Link(f"python{MINOR}"),
    }
    for path in sorted((base / "lib").glob("libpython*.so*")):
        files[f"lib/{path.name}"] = Link(str(path.readlink())) if path.is_symlink() else path
    for path in sorted(library.rglob("*")):
        inside = path.relative_to(library)
        left_out = inside.parts[0] in _LEFT_OUT or inside.parts[0].startswith("config-")
        if path.is_file() and not left_out and "__pycache__" not in inside.parts:
            files[f"lib/python{MINOR}/{inside.as_posix()}"] = path
    publish_conda(channel, "python", platform.python_version(), files, subdir=SUBDIR)


def publish_installed(channel: Path, names: Iterable[str]) -> None:
    """Publish packages of the running environment, with what they need, under conda's names."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen or name in _UNDRAWN:
            continue
        seen.add(name)
        found = importlib.metadata.distribution(name)
        needs = [
            need
            for need in map(Requirement, found.requires or ())
            if need.marker is None or need.marker.evaluate({"extra": ""})
        ]
        waiting += [need.name for need in needs]
        _publish_distribution(channel, name, found, needs)
    # As there, a name for all of Dask.
    version = importlib.metadata.version("dask")
    publish_conda(
        channel, "dask", version, depends=[f"dask-core {version}", f"distributed {version}"]
    )


def _publish_distribution(
    channel: Path,
    name: str,
    found: importlib.metadata.Distribution,
    needs: Sequence[Requirement],
) -> None:
    wheel = email.message_from_string(found.read_text("WHEEL") or "")
    is_pure = (wheel.get("Root-Is-Purelib") or "true").lower() == "true"
    below = "site-packages" if is_pure else f"lib/python{MINOR}/site-packages"
    files: dict[str, Content] = {}
    for path in found.files or ():
        there = Path(str(found.locate_file(path)))
        if ".." not in path.parts and "__pycache__" not in path.parts and there.is_file():
            files[f"{below}/{path.as_posix()}"] = there
    needed = [
        f"{CONDA_NAMES.get(key, key)} {need.specifier or '*'}"
        for need in needs
        if (key := canonicalize_name(need.name)) not in _UNDRAWN
    ]
    publish_conda(
        channel,
        CONDA_NAMES.get(name, name),
        found.version,
        files,
        depends=[f"python {'>=3.11' if is_pure else f'{MINOR}.*'}", *needed],
        subdir="noarch" if is_pure else SUBDIR,
        is_python=is_pure,
        programs=[
            f"{each.name} = {each.value}"
            for each in found.entry_points
            if each.group == "console_scripts"
        ],
    )


def module(name: str, version: str, body: str, below: str = "site-packages") -> dict[str, Content]:
    """Return the files of a distribution with one module."""
    stem = re.sub("-", "_", name)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return {
        f"{below}/{stem}.py": body.encode(),
        f"{below}/{stem}-{version}.dist-info/METADATA": about.encode(),
    }


def _path(path: str, content: Content) -> dict[str, object]:
    found: dict[str, object] = {"_path": path, "path_type": "hardlink"}
    if isinstance(content, Link):
        return {**found, "path_type": "softlink", "sha256": hashlib.sha256().hexdigest()}
    data = _bytes(content)
    found |= {"sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data)}
    if isinstance(content, bytes) and PLACEHOLDER.encode() in content:
        mode = "binary" if b"\0" in content else "text"
        found |= {"prefix_placeholder": PLACEHOLDER, "file_mode": mode}
    return found


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def _tar(files: Mapping[str, Content]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            if isinstance(content, Link):
                entry.type, entry.linkname = tarfile.SYMTYPE, content.to
                archive.addfile(entry)
                continue
            data = _bytes(content)
            entry.size = len(data)
            runs = path.startswith("bin/") or ".so" in path
            entry.mode = 0o755 if runs else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _zstd(data: bytes) -> bytes:
    """Return a frame of Zstandard with blocks that aren't compressed (RFC 8878, 3.1.1)."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\x00\x38")
    blocks = range(0, max(len(data), 1), _BLOCK_BYTES)
    for start in blocks:
        block = data[start : start + _BLOCK_BYTES]
        is_last = start == blocks[-1]
        frame += (len(block) << 3 | is_last).to_bytes(3, "little") + block
    return bytes(frame)
