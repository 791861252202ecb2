"""What Terraform starts as the AWS provider in most tests; arguments: the relay's socket, and the
real provider's program.

It tells Terraform to talk to the relay (`tests/provider_relay.py`), and becomes the real provider
as soon as the relay needs one: then it is Terraform's child, with Terraform's environment, folder
and process group, as ever. It starts at each command: keep it light.
"""

from __future__ import annotations

import os
import signal
import socket
import sys


def main(relay: str, provider: str) -> None:
    """Wait for what is to be done."""
    # Terraform ends its providers itself, after an interrupt too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(relay)
    handshake = b""
    while not handshake.endswith(b"\n"):
        handshake += channel.recv(4096) or sys.exit("the relay of the tests has ended")
    os.write(1, handshake)
    if not channel.recv(1):
        return
    # The provider says on its standard output where it listens; it does so without TLS where
    # Terraform gives no certificate.
    os.dup2(channel.fileno(), 1)
    environ = {name: value for name, value in os.environ.items() if name != "PLUGIN_CLIENT_CERT"}
    os.execve(provider, [provider], environ)


if __name__ == "__main__":
    main(*sys.argv[1:])
