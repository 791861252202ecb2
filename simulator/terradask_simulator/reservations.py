"""Reserve a running simulator's resources: a port, a /16 of loopback addresses, and a /16 for
public addresses.
"""

from __future__ import annotations

import errno
import socket
import sys
from dataclasses import dataclass, field

from terradask_simulator.errors import NoFreeRange, PlatformUnsupported, PortTaken

__all__ = ["FIRST_OCTET", "GUARD_PORT", "LAST_OCTET", "Slot", "bind", "claim_slot"]

#: Second octets that simulators' VPCs use.
FIRST_OCTET, LAST_OCTET = 64, 127

#: Public addresses are this many /16 networks above the private ones.
PUBLIC_OFFSET = 64

#: Port at ``127.<octet>.255.254`` whose binding reserves a range.
GUARD_PORT = 1337


@dataclass
class Slot:
    """A reserved range of loopback addresses, by its second octet. The bound guard socket reserves
    it; closing the socket releases it.
    """

    octet: int
    guard: socket.socket = field(repr=False)

    @property
    def vpc_cidr(self) -> str:
        """The range for the VPC."""
        return f"127.{self.octet}.0.0/16"

    @property
    def public_cidr(self) -> str:
        """The range of public addresses."""
        return f"127.{self.octet + PUBLIC_OFFSET}.0.0/16"

    def release(self) -> None:
        """Release the range."""
        self.guard.close()


def bind(port: int) -> socket.socket:
    """Return a socket bound to a port of the loopback address."""
    server = socket.socket()
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen(512)
    except OSError as error:
        server.close()
        raise PortTaken(port) from error
    return server


def claim_slot(*, first: int = FIRST_OCTET, last: int = LAST_OCTET, port: int = GUARD_PORT) -> Slot:
    """Reserve the first free range."""
    if sys.platform == "win32":
        raise PlatformUnsupported(
            (
                "The embedded AWS doesn't run on Windows: its hosts are process groups on loopback "
                "addresses of their own"
            ),
            given=sys.platform,
            allowed="linux; darwin with loopback aliases",
            advice="run it in the Windows Subsystem for Linux or in a Linux container",
        )
    for octet in range(first, last + 1):
        guard = socket.socket()
        try:
            guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            guard.bind((f"127.{octet}.255.254", port))
            guard.listen(1)
        except OSError as error:
            guard.close()
            if error.errno == errno.EADDRNOTAVAIL:
                raise PlatformUnsupported(
                    (
                        "This machine has no loopback addresses beyond 127.0.0.1, and every host "
                        "of the embedded AWS listens on one of its own"
                    ),
                    given=f"127.{octet}.255.254 on {sys.platform}",
                    allowed=(
                        "a system whose loopback interface answers for all of 127.0.0.0/8, as "
                        "Linux does"
                    ),
                    advice="on macOS run terradask's simulator in a Linux container or virtual "
                    "machine "
                    "(macOS needs `ifconfig lo0 alias ADDRESS` as root for every single address)",
                ) from error
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        return Slot(octet, guard)
    raise NoFreeRange(
        "All address ranges for embedded AWSes are in use",
        given=f"127.{first}.0.0/16 to 127.{last}.0.0/16",
        advice="stop simulators that are no longer needed: `terradask sim stop`",
    )
