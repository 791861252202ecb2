"""Whether a folder's files lie in memory: the kernel says so, and no path is taken at its word."""

from __future__ import annotations

import re
from pathlib import Path

from terradask_host.errors import KeysOnDisk

MOUNTS = Path("/proc/self/mountinfo")

#: File systems without a disk: https://docs.kernel.org/filesystems/tmpfs.html,
#: https://docs.kernel.org/filesystems/ramfs-rootfs-initramfs.html
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def check_in_memory(folder: Path) -> None:
    """Refuse a folder whose files would lie on a disk.

    Raises
    ------
    KeysOnDisk
    """
    kind = filesystem_of(folder)
    if kind not in IN_MEMORY:
        raise KeysOnDisk(
            f"Keys would lie on a disk in {folder}.",
            given=f"a file system of type {kind or 'unknown'}",
            allowed=" or ".join(sorted(IN_MEMORY)),
            advice="Use an image whose /run is in memory, as systemd has it.",
        )


def filesystem_of(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the type of the file system that a path lies in, be it there yet or not; None where
    that is unknown.

    Links are followed. The kernel lists what is mounted:
    https://docs.kernel.org/filesystems/proc.html#proc-pid-mountinfo-information-about-mounts
    """
    real = path.resolve()
    try:
        entries = [_entry(line) for line in mounts.read_text().splitlines()]
    except (OSError, ValueError, IndexError):
        return None
    around = [(point, kind) for point, kind in entries if real.is_relative_to(point)]
    # Of several at one place, the one that was mounted last hides the others.
    return (
        max(enumerate(around), key=lambda each: (len(each[1][0].parts), each[0]))[1][1]
        if around
        else None
    )


def _entry(line: str) -> tuple[Path, str]:
    """Return where a line's file system is mounted, and its type, which follows the optional
    fields' end.
    """
    words = line.split()
    point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4])
    return Path(point), words[words.index("-") + 1]
