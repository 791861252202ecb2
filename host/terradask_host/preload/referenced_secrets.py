"""The run's secrets in this process's environment variables, from the host program's socket."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
from collections.abc import Iterator

from terradask_host.errors import SecretUnreadable
from terradask_host.preload.credentials_endpoint import SENT

#: Names the socket, in the environment of the host's processes, if the run has secrets.
VARIABLE = "TERRADASK_SECRETS_SOCKET"


@functools.cache
def take_at_start() -> None:
    """Set the variables, once in a process. Raises `SecretUnreadable`; then the host fails too."""
    _take("start")


def take_again() -> None:
    """Set the variables to the current values, which may have been rotated. Raises as above."""
    _take("again")


def _take(asked: str) -> None:
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    with socket.socket(socket.AF_UNIX) as connection, address_of(path) as address:
        connection.connect(address)
        connection.sendall(f"{asked}\n".encode())
        with connection.makefile("rb") as reader:
            answer = json.loads(reader.read())
    if "problem" in answer:
        raise SecretUnreadable(answer["problem"])
    # A client's later word counts.
    os.environ.update(
        {name: value for name, value in answer["environ"].items() if name not in SENT}
    )


@contextlib.contextmanager
def address_of(path: str) -> Iterator[str]:
    """Yield a socket's address, which has at most 107 bytes however long its path is."""
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
