"""Run a Session Manager plugin, and end it when the client is gone for any reason.

Runs as a script of its own with only the standard library. Its standard input gives the command in
a line of JSON (so that no token is a process argument), and stays open while the client lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

#: At SIGINT the plugin ends its session in AWS.
_GRACE_SECONDS = 3.0

#: For `subprocess.Popen` on Windows: a hidden console of the guard, which its plugin shares, as the
#: signal below needs; and a group that only the plugin is in.
if sys.platform == "win32":
    OWN_CONSOLE, _OWN_GROUP = subprocess.CREATE_NO_WINDOW, subprocess.CREATE_NEW_PROCESS_GROUP
else:
    OWN_CONSOLE = _OWN_GROUP = 0


def main() -> None:
    """Start the command of the first line; end it at the end of the input."""
    order = json.loads(sys.stdin.buffer.readline())
    environ = {**os.environ, **order["environ"]}
    child = subprocess.Popen(
        order["command"],
        stdin=subprocess.DEVNULL,
        # null removes a variable.
        env={name: value for name, value in environ.items() if value is not None},
        creationflags=_OWN_GROUP,
    )

    def follow() -> None:
        sys.stdin.buffer.read()
        # An ended process is found below.
        with contextlib.suppress(OSError):
            _interrupt(child)
        try:
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()

    threading.Thread(target=follow, daemon=True).start()
    os._exit(abs(child.wait()))


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        # Go's programs take it for SIGINT: https://pkg.go.dev/os/signal#hdr-Windows
        child.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        child.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
