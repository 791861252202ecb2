"""Run a Session Manager plugin, and end it when the client is gone for any reason.

Runs as a script of its own with only the standard library. Its standard input gives the command in
a line of JSON (so that no token is a process argument), and stays open while the client lives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

#: At SIGINT the plugin ends its session in AWS.
_GRACE_SECONDS = 3.0


def main() -> None:
    """Start the command of the first line; end it at the end of the input."""
    order = json.loads(sys.stdin.buffer.readline())
    child = subprocess.Popen(
        order["command"],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **order["environ"]},
    )

    def follow() -> None:
        sys.stdin.buffer.read()
        child.send_signal(signal.SIGINT)
        try:
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()

    threading.Thread(target=follow, daemon=True).start()
    os._exit(abs(child.wait()))


if __name__ == "__main__":
    main()
