"""The file systems of ``host.json``: what hosts mount for tasks, where, and how tasks find it."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask_host.errors import ConfigInvalid, MountFailed

#: File below the root: why not everything is mounted, empty if it is. Written by root.
REASON = "run/terradask-mounts"

#: The member that names the source -> what users call it.
CALLED = {
    "bucket": "bucket",
    "efs": "EFS",
    "s3_files": "S3 Files",
    "fsx_lustre": "FSx for Lustre",
}


@dataclass(frozen=True)
class HostMount:
    """A mount of ``host.json``: its path, the member that names its source, and the others."""

    path: str
    kind: str
    facts: Mapping[str, str]

    @property
    def writable(self) -> bool:
        """Whether tasks may write."""
        return self.facts.get("access") == "write"

    def __str__(self) -> str:
        """Return it as users know it."""
        source = "/".join(filter(None, (self.facts[self.kind], self.facts.get("prefix"))))
        return f"{self.path} ({CALLED[self.kind]} {source})"

    def below(self, root: Path) -> Path:
        """Return its path below a root."""
        return root / self.path.lstrip("/")

    def source(self, region: str) -> str:
        """Return its source, as fstab has it."""
        name = self.facts[self.kind]
        if self.kind == "bucket":
            prefix = self.facts.get("prefix")
            return f"s3://{name}/{prefix}/" if prefix else f"s3://{name}/"
        if self.kind == "fsx_lustre":
            suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            return f"{name}.fsx.{region}.{suffix}@tcp:/{self.facts['mount_name']}"
        return f"{name}:/"


def mounts_of(document: Mapping[str, Any]) -> list[HostMount]:
    """Return the mounts of ``host.json``; an earlier network's has none.

    Raises `ConfigInvalid` for one that this host program doesn't know.
    """
    found = document.get("mounts") or []
    if not isinstance(found, list):
        raise ConfigInvalid("host.json: mounts is not a list.", given=found)
    return [_read(each) for each in found]


def _read(entry: Any) -> HostMount:
    facts = entry if isinstance(entry, dict) else {}
    kinds = [kind for kind in CALLED if kind in facts]
    path, name = facts.get("path"), facts.get("variable")
    texts = all(isinstance(value, str) and value.isprintable() for value in facts.values())
    if len(kinds) != 1 or not texts or not str(path).startswith("/") or not name:
        raise ConfigInvalid(
            "host.json: an entry of mounts is none that this host program knows.",
            given=entry,
            allowed=f"path, variable, and one of {', '.join(CALLED)}",
            advice="terradask apply network",
        )
    return HostMount(str(path), kinds[0], facts)


def mount_environ(mounts: Sequence[HostMount], root: Path) -> dict[str, str]:
    """Return the variables by which tasks find mounts: paths below a root, ``/`` on an instance."""
    return {mount.facts["variable"]: str(mount.below(root)) for mount in mounts}


def check_mounted(mounts: Sequence[HostMount], root: Path) -> None:
    """Raise `MountFailed`, with root's reason, if an instance lacks a mount.

    A simulated host, whose root is another folder, mounts nothing.
    """
    if root != Path("/"):
        return
    for mount in mounts:
        if not os.path.ismount(mount.path):
            reason = root / REASON
            text = reason.read_text().strip() if reason.exists() else ""
            raise MountFailed(text or f"network.mounts: {mount} isn't mounted.")
