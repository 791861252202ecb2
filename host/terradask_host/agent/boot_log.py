"""What cloud-init and boot.sh print while an instance boots, into the host's log stream."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from terradask_host.agent.logs import HostLog
from terradask_host.config import Paths

#: So much of it is shipped: a boot prints a few hundred lines.
MOST_BYTES = 2**20

#: cloud-init goes on after boot.sh; it says when it has ended.
END = re.compile(r"Cloud-init v\. .* finished at ")

#: If it doesn't.
MOST_SECONDS = 600.0


def mark_line(line: str) -> str:
    """Return a line of the boot's output as it stands in the log: with the program it is from."""
    return line if not line or line.startswith("terradask-boot: ") else f"cloud-init: {line}"


class BootLog:
    """Ships the boot's output on a thread, as it grows, until cloud-init has ended; each line once,
    also if the host program is started again.
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
        # What is there comes before the host program's own lines.
        self._is_whole = self._try_to_ship()
        self._thread = threading.Thread(target=self._follow, name="boot-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ship what there is by now."""
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
        """Ship the whole lines that are new; return whether no more are to come."""
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
