"""Runs one command for a worker, and ends it with the worker. Run by path, as a process of its
own: ``python -I -S job_supervisor.py``; imports only the standard library.

It gets the command as a line of JSON on its standard input, so that no list of processes shows it
with this program, and gives the command its own output. Another line asks for the command's end;
so does the end of that input, since the worker is gone then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import IO

#: As shells have them: a program that can't be run, and one that isn't there.
CANT_RUN, NOT_FOUND = 126, 127


def main() -> int:
    """Run the command; return its exit code, or 128 and the number of the signal that ended it."""
    told = sys.stdin.buffer
    wanted = json.loads(told.readline())
    try:
        child = subprocess.Popen(
            wanted["command"],
            cwd=wanted["folder"],
            env=wanted["environ"],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
    except OSError as error:
        print(f"terradask: {wanted['command'][0]}: {error.strerror}", file=sys.stderr, flush=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANT_RUN
    ending = threading.Thread(
        target=_end_when_told, args=(told, child.pid, wanted["grace_seconds"]), daemon=True
    )
    ending.start()
    # Its number is its group's too: it isn't given to another process before the group is gone.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _signal(child.pid, signal.SIGKILL)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _end_when_told(told: IO[bytes], group: int, grace_seconds: float) -> None:
    told.readline()
    _signal(group, signal.SIGTERM)
    # Without its worker the command gets no time: it may be run again elsewhere.
    rest = threading.Thread(target=told.read, daemon=True)
    rest.start()
    rest.join(grace_seconds)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        # All of them have ended.
        return


if __name__ == "__main__":
    # The worker's end may close the pipes before the command's.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # A thread still waits for the worker's word, which would make an orderly exit fail.
    os._exit(main())
