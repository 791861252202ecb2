"""File systems of ``host.json`` on simulated machines, which can't mount.

A bucket's objects are copied when a host boots, with its role. File systems of EFS, S3 Files and
FSx for Lustre are folders that all hosts of one simulator share. Tasks find each by its variable.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask_simulator.hosts.cloud_config import BootFailed, check_installed

if TYPE_CHECKING:
    from terradask_simulator.aws.credentials import RoleCredentials
    from terradask_simulator.hosts.wheel import BootOutput, WheelStore

__all__ = ["mount_all", "unmount_all"]

_READ_ONLY_FILE, _READ_ONLY_FOLDER = 0o444, 0o555


def mount_all(
    host: Mapping[str, Any],
    root: Path,
    *,
    shared: Path,
    store: WheelStore,
    credentials: RoleCredentials | None,
    output: BootOutput,
) -> None:
    """Put a host's file systems below its root.

    Raises `BootFailed` for a bucket that the host's role can't read.

    Parameters
    ----------
    shared
        Folder of the file systems that all hosts share.
    """
    if not host.get("mounts"):
        return
    check_installed()
    from terradask_host.mount_list import mounts_of

    for mount in mounts_of(host):
        path = mount.below(root)
        # What an earlier boot has mounted.
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
        if mount.kind == "bucket":
            if credentials is None:
                raise BootFailed(f"network.mounts: {mount} needs a role of the instance")
            _copy(mount, path, store, host, credentials)
            how = "a copy of the objects; files that tasks write stay on this host"
        else:
            folder = shared / mount.facts[mount.kind]
            folder.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(folder)
            how = "a folder that all hosts of this simulator share"
        output.write(f"mounted {mount}: {how}")


def _copy(
    mount: Any,
    path: Path,
    store: WheelStore,
    host: Mapping[str, Any],
    credentials: RoleCredentials,
) -> None:
    """Copy a bucket's objects below its prefix.

    As in Mountpoint, keys with an empty part, ``.`` or ``..`` can't be reached, and a folder hides
    a file of the same name:
    https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md
    """
    prefix = mount.facts.get("prefix")
    beginning = f"{prefix}/" if prefix else ""
    path.mkdir(parents=True, exist_ok=True)
    found = store.objects(
        str(host["region"]),
        mount.facts["bucket"],
        beginning,
        credentials,
        problem=f"network.mounts: {mount} can't be mounted",
    )
    contents = {key.removeprefix(beginning): content for key, content in found}
    for name in sorted(contents):
        parts = name.split("/")
        is_hidden = any(other.startswith(f"{name}/") for other in contents)
        if is_hidden or not {"", ".", ".."}.isdisjoint(parts):
            continue
        target = path.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents[name])
        if not mount.writable:
            target.chmod(_READ_ONLY_FILE)
    if not mount.writable:
        _set_mode(path, _READ_ONLY_FOLDER)


def unmount_all(host: Mapping[str, Any], root: Path) -> None:
    """Let a host's files be deleted."""
    for mount in host.get("mounts", ()):
        path = root / str(mount["path"]).lstrip("/")
        if path.is_dir() and not path.is_symlink():
            _set_mode(path, 0o755)


def _set_mode(path: Path, mode: int) -> None:
    for folder in (path, *(each for each in path.rglob("*") if each.is_dir())):
        folder.chmod(mode)
