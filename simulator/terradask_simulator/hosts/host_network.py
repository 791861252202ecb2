"""The network of hosts: the table by which their processes filter connections, and an address that
doesn't answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from terradask_simulator.aws.instances import InstanceView
from terradask_simulator.aws.security_groups import on_hosts
from terradask_simulator.aws.security_groups.on_hosts.terradask_security_groups import (
    NETWORK,
    OWN_ADDRESS,
)
from terradask_simulator.aws.security_groups.table import network_table

__all__ = ["HostNetwork"]

_FULL_SECONDS = 0.02


class HostNetwork:
    """The network of one simulator's hosts; `write` gives it to them.

    Parameters
    ----------
    path
        The file that hosts read.
    endpoint_url
        The embedded AWS's.
    """

    def __init__(self, path: Path, endpoint_url: str) -> None:
        self._path = path
        endpoint = urlsplit(endpoint_url)
        self._hole = _BlackHole()
        self._fixed = {
            "endpoint": [endpoint.hostname, endpoint.port],
            "black_hole": self._hole.address,
        }
        self._written: dict[str, Any] = {}

    def write(self, machines: Iterable[InstanceView]) -> None:
        """Write the table if it has changed; machines keep their interfaces until they are off."""
        table = {**self._fixed, **network_table()}
        before = self._written.get("interfaces", {})
        for address in (machine.private_address for machine in machines):
            if address in before:
                table["interfaces"].setdefault(address, before[address])
        if table != self._written:
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps(table))
            part.rename(self._path)
            self._written = table

    def environ(self, instance: InstanceView, packages: Path | None) -> dict[str, str]:
        """Return the variables of a host whose processes filter their connections, and import
        packages from a folder.
        """
        (own,) = on_hosts.__path__
        return {
            "PYTHONPATH": os.pathsep.join([own, str(packages)]),
            NETWORK: str(self._path),
            OWN_ADDRESS: instance.private_address,
        }

    def close(self) -> None:
        """Let connections that get no answer fail."""
        self._hole.close()


class _BlackHole:
    """A port, also of UDP, that doesn't answer: Linux drops what a listener with a full queue
    gets.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.address = list(self._listener.getsockname())
        self._datagrams = socket.socket(type=socket.SOCK_DGRAM)
        self._datagrams.bind(self._listener.getsockname())
        self._waiting: list[socket.socket] = []
        with contextlib.suppress(TimeoutError):
            while True:
                self._waiting.append(
                    socket.create_connection(self._listener.getsockname(), _FULL_SECONDS)
                )

    def close(self) -> None:
        for one in (*self._waiting, self._datagrams, self._listener):
            one.close()
