"""Runs one command for a worker, and ends it with the worker. Run by path, as its own process:
``python -I -S job_supervisor.py``; imports only the standard library.

It reads the command as a line of JSON from standard input, so that process lists don't show it, and
passes its own output to the command. Another line requests the command's end; so does the end of
the input, since the worker is gone then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import IO

#: Shells' exit codes for a program that can't be run, and for a missing one.
CANT_RUN, NOT_FOUND = 126, 127


def main() -> int:
    """Run the command; return its exit code, or 128 and the number of the signal that ended it."""
    requests = sys.stdin.buffer
    wanted = json.loads(requests.readline())
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
        target=_end_on_request, args=(requests, child.pid, wanted["grace_seconds"]), daemon=True
    )
    ending.start()
    # Its id is also its group's: it isn't reused before the group is gone.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _signal(child.pid, signal.SIGKILL)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _end_on_request(requests: IO[bytes], group: int, grace_seconds: float) -> None:
    requests.readline()
    _signal(group, signal.SIGTERM)
    # If the worker is gone the command gets no time: it may run again elsewhere.
    rest = threading.Thread(target=requests.read, daemon=True)
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
    # A thread still waits for the worker's line, which would make an orderly exit fail.
    os._exit(main())
