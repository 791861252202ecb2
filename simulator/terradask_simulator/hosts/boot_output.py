"""What a machine's boot prints: in the file in which cloud-init keeps it on an instance."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["BootOutput"]

_PLACE = "var/log/cloud-init-output.log"


class BootOutput:
    """The output of cloud-init and ``boot.sh`` on one machine's disk.

    Parameters
    ----------
    root
        The folder that stands for the disk.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / _PLACE

    def cloud_init(self, event: str) -> None:
        """Write one of cloud-init's own lines: that a stage runs, or that it is finished."""
        at = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime())
        self._write(f"Cloud-init v. 22.2.2 {event} at {at}.")

    def say(self, text: str) -> None:
        """Write a line as ``boot.sh`` says it."""
        self._write(f"terradask-boot: {text}")

    def marked(self, reason: str) -> list[str]:
        """Return the lines as ``boot.sh`` ships them where it fails, the reason last."""
        lines = self._path.read_text().splitlines() if self._path.is_file() else []
        own = "terradask-boot: "
        marked = [line if line.startswith(own) else f"cloud-init: {line}" for line in lines]
        first, *rest = reason.splitlines()
        return [*marked, f"{own}ERROR: {first}", *(f"  {line}" for line in rest)]

    def _write(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as output:
            output.write(f"{line}\n")
