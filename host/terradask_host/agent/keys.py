"""The host's keys: files that only its user can read, on a memory-backed path."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask_host.errors import ConfigInvalid, KeysOnDisk


@dataclass(frozen=True)
class KeyFiles:
    """Paths of the authority's certificate and this host's bundle, and on a scheduler's host of the
    certificate for the metrics page, if the run has one.
    """

    ca: Path
    cert: Path
    key: Path
    metrics_cert: Path | None = None


def write_keys(secret: Mapping[str, Any], role: str, folder: Path) -> KeyFiles:
    """Write the authority's certificate and the role's bundle, never other roles' keys.

    Files are 0600 in a 0700 folder and written atomically. Raises `ConfigInvalid` when the secret
    lacks a part; the error never contains the secret's values.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    own = _bundle(secret, role)
    parts = {"ca.pem": secret.get("ca")}
    parts |= {f"{role}.pem": own.get("cert"), f"{role}.key": own.get("key")}
    for name, given in parts.items():
        if (text := _pem(given)) is None:
            raise ConfigInvalid(
                f"The cluster's secret has no PEM text for {name}.",
                advice="Start the cluster again: start writes the keys.",
            )
        _write(folder / name, text)
    metrics = folder / "metrics.pem"
    # An older terradask's run has none.
    text = _pem(_bundle(secret, "metrics").get("cert")) if role == "scheduler" else None
    if text is not None:
        _write(metrics, text)
    return KeyFiles(
        ca=folder / "ca.pem",
        cert=folder / f"{role}.pem",
        key=folder / f"{role}.key",
        metrics_cert=None if text is None else metrics,
    )


def _bundle(secret: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = secret.get(name)
    return found if isinstance(found, Mapping) else {}


def _pem(text: object) -> str | None:
    return text if isinstance(text, str) and "-----BEGIN" in text else None


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)


# ---- check of the file system --------------------------------------------------------------------


MOUNTS = Path("/proc/self/mountinfo")

#: File systems without a disk: https://docs.kernel.org/filesystems/tmpfs.html,
#: https://docs.kernel.org/filesystems/ramfs-rootfs-initramfs.html
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def check_in_memory(folder: Path) -> None:
    """Raise `KeysOnDisk` if a folder's files would be on a disk."""
    kind = filesystem_of(folder)
    if kind not in IN_MEMORY:
        raise KeysOnDisk(
            f"Keys would lie on a disk in {folder}.",
            given=f"a file system of type {kind or 'unknown'}",
            allowed=" or ".join(sorted(IN_MEMORY)),
            advice="Use an image whose /run is in memory, as systemd has it.",
        )


def filesystem_of(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the file system type of a path, which needn't exist; None if it is unknown.

    Links are followed. The kernel lists the mounts:
    https://docs.kernel.org/filesystems/proc.html#proc-pid-mountinfo-information-about-mounts
    """
    real = path.resolve()
    try:
        entries = [_entry(line) for line in mounts.read_text().splitlines()]
    except (OSError, ValueError, IndexError):
        return None
    around = [(point, kind) for point, kind in entries if real.is_relative_to(point)]
    # Of several mounts at one place, the last one hides the others: `sorted` keeps their order.
    return sorted(around, key=lambda each: len(each[0].parts))[-1][1] if around else None


def _entry(line: str) -> tuple[Path, str]:
    """Return a line's mount point and its type, the first field after the optional ones."""
    words = line.split()
    point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4])
    return Path(point), words[words.index("-") + 1]
