"""Ships the output of cloud-init and boot.sh to the host's log stream while an instance boots."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from terradask_host.agent.logs import HostLog
from terradask_host.config import Paths

#: At most this much is shipped: a boot prints a few hundred lines.
MOST_BYTES = 2**20

#: cloud-init continues after boot.sh; it prints this line at its end.
END = re.compile(r"Cloud-init v\. .* finished at ")

#: The limit without such a line.
MOST_SECONDS = 600.0


def mark_line(line: str) -> str:
    """Prefix a line of the boot's output with the name of its program."""
    return line if not line or line.startswith("terradask-boot: ") else f"cloud-init: {line}"


class BootLog:
    """Ships the boot's output on a thread until cloud-init has ended.

    Each line is shipped once, even if the host program is restarted.
    """

    def __init__(
        self,
        paths: Paths,
        log: HostLog,
        *,
        pause_seconds: float = 1.0,
    ) -> None:
        self._output = paths.boot_output
        self._mark = paths.boot_output_shipped
        self._log = log
        self._pause_seconds = pause_seconds
        self._tries = int(MOST_SECONDS / pause_seconds)
        self._closing = threading.Event()
        # Existing output comes before the host program's own lines.
        self._is_whole = self._try_to_ship()
        self._thread = threading.Thread(target=self._follow, name="boot-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ship the output so far."""
        self._closing.set()
        self._thread.join(self._pause_seconds + 1.0)

    def _follow(self) -> None:
        for _ in range(self._tries):
            if self._is_whole:
                return
            is_last = self._closing.wait(self._pause_seconds)
            self._is_whole = self._try_to_ship() or is_last

    def _try_to_ship(self) -> bool:
        try:
            return self._ship()
        except OSError as error:
            self._log.info(f"the boot's output can't be shipped: {error}")
            return True

    def _ship(self) -> bool:
        """Ship the new complete lines; return whether the output has ended."""
        begin = _read_number(self._mark)
        with self._output.open("rb") as output:
            output.seek(begin)
            new = output.read(MOST_BYTES - begin) if begin < MOST_BYTES else b""
        whole = new[: new.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").splitlines()
        for line in lines:
            self._log.ship_only(mark_line(line))
        if whole:
            self._mark.write_text(str(begin + len(whole)))
        return begin + len(new) >= MOST_BYTES or any(map(END.match, lines))


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0
