"""What Terraform starts as the AWS provider in most tests; arguments: the relay's socket, and the
real provider's program.

It leads Terraform to the relay (`tests/provider_relay.py`), and lasts as long as the provider
would. It starts at each command: keep it light.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main(relay: str, program: str) -> None:
    """Pass on how it was started, and wait until the relay ends it."""
    # Terraform ends its providers itself, after an interrupt too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(relay)
    started = {"program": program, "environ": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109  (imports nothing more)
    channel.sendall(json.dumps(started).encode() + b"\n")
    handshake = b""
    while not handshake.endswith(b"\n"):
        handshake += channel.recv(4096) or sys.exit("the relay of the tests has ended")
    os.write(1, handshake)
    channel.recv(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
