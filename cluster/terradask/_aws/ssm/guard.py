"""The process between a client and a plugin of Session Manager: it ends the plugin when the client
is gone, however that went.

Runs by itself, with the standard library alone. Its standard input says what to start, in a line
of JSON (so that no token is an argument of any process), and stays open as long as the client
lives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

#: The plugin ends its session at SIGINT, and says so to AWS.
_GRACE_SECONDS = 3.0


def main() -> None:
    """Start what the first line says; end it when the input ends."""
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
