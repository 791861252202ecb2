"""Find the address to dial for a route: public, private, or through Session Manager."""

from __future__ import annotations

import threading
from typing import Literal

from terradask._aws.session import Aws
from terradask._aws.ssm.forwarding import PortForwarding
from terradask._aws.ssm.plugin import find_plugin
from terradask._clusters.attachment import Attachment

Route = Literal["public", "private", "ssm"]

LOOPBACK = "127.0.0.1"

_OPEN_SECONDS = 30.0


class AddressEndpoint:
    """The scheduler's own address, behind mutual TLS."""

    def __init__(self, route: Literal["public", "private"]) -> None:
        self.route: Route = route

    def scheduler(self, attachment: Attachment) -> str:
        """Return the address to dial, such as ``tls://203.0.113.7:8786``. Raises `InvalidInput`."""
        return attachment.address(public=self.route == "public")

    def dashboard(self, attachment: Attachment) -> tuple[str, int]:
        """Return host and port of the dashboard's endpoint, which requires a client certificate."""
        host = self.scheduler(attachment).partition("://")[2].rpartition(":")[0]
        return host, attachment.scheduler.dashboard_port

    def close(self) -> None:
        """Do nothing: an address has nothing to release."""


class SessionEndpoint:
    """Sessions to both ports of the scheduler's host, or of its replacement.

    Permissions needed: those of `PortForwarding`.
    """

    route: Route = "ssm"

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._instance_id: str | None = None
        self._open: dict[int, PortForwarding] = {}
        self._changing = threading.Lock()
        self._closed = False

    def scheduler(self, attachment: Attachment) -> str:
        """Return the local address of the scheduler. Raises `SchedulerUnreachable`."""
        scheme, _, rest = attachment.scheduler.private_address.partition("://")
        return f"{scheme}://{LOOPBACK}:{self._local_port(attachment, int(rest.rpartition(':')[2]))}"

    def dashboard(self, attachment: Attachment) -> tuple[str, int]:
        """Return the local host and port of the dashboard's endpoint; raises as `scheduler`."""
        return LOOPBACK, self._local_port(attachment, attachment.scheduler.dashboard_port)

    def close(self) -> None:
        """End the sessions and their processes."""
        self._closed = True
        # Outside of the lock: a thread that waits for a session to open holds it.
        for forwarding in list(self._open.values()):
            forwarding.close()
        with self._changing:
            self._end()

    def _local_port(self, attachment: Attachment, port: int) -> int:
        scheduler = attachment.scheduler
        with self._changing:
            if self._closed:
                raise ConnectionAbortedError("the route to the scheduler is closed")
            if self._instance_id != scheduler.instance_id or port not in self._open:
                self._end()
                self._begin(attachment)
            try:
                return self._open[port].wait(_OPEN_SECONDS)
            except BaseException:
                # The next attempt starts new sessions.
                self._end()
                raise

    def _begin(self, attachment: Attachment) -> None:
        scheduler, plugin = attachment.scheduler, find_plugin()
        ports = (int(scheduler.private_address.rpartition(":")[2]), scheduler.dashboard_port)
        self._instance_id = scheduler.instance_id
        self._open = {
            port: PortForwarding(self._aws, plugin, instance_id=scheduler.instance_id, port=port)
            for port in ports
        }
        for forwarding in self._open.values():
            forwarding.open()

    def _end(self) -> None:
        for forwarding in self._open.values():
            forwarding.close()
        self._open, self._instance_id = {}, None


#: The addresses of a scheduler and its dashboard. All methods may block.
Endpoint = AddressEndpoint | SessionEndpoint


def endpoint_for(route: Route, aws: Aws) -> Endpoint:
    """Return the endpoint for a route."""
    return SessionEndpoint(aws) if route == "ssm" else AddressEndpoint(route)
