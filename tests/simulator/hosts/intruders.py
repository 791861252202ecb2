"""A running cluster's doors, and those who must not come through."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .authority import Authority
from .cluster import DASHBOARD_PORT, PORT, Cluster
from .processes import listening

ROLES = ("scheduler", "worker", "client")

#: How somebody comes: with TLS, or, where that is None, without.
Coming = ssl.SSLContext | None

_REQUEST = b"GET /health HTTP/1.1\r\nHost: dashboard\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Door:
    """Where a host listens."""

    name: str
    host: str
    port: int

    def lets_in(self, coming: Coming) -> bool:
        """Tell whether whoever comes so is spoken to: Dask greets first, the dashboard answers."""
        dashboard = self.name == "dashboard"
        try:
            with socket.create_connection((self.host, self.port), 5) as plain:
                plain.settimeout(2 if coming is None else 5)
                secure = plain if coming is None else coming.wrap_socket(plain)
                with secure:
                    if dashboard or coming is None:
                        secure.sendall(_REQUEST)
                    answer = secure.recv(4096)
        except OSError:
            return False
        # Without TLS, the other end may still say by TLS that it doesn't parse_with:
        # https://www.rfc-editor.org/rfc/rfc8446#section-6
        alert = coming is None and answer.startswith(b"\x15\x03")
        return bool(answer) and not alert and (not dashboard or answer.startswith(b"HTTP/1.1 200"))


def doors(cluster: Cluster) -> list[Door]:
    """Every address that hosts listen at: the scheduler's, the dashboard's, a nanny's and its
    worker's.
    """
    scheduler = f"{cluster.subnet}.10"
    worker = cluster.hosts[0]
    ports = [port for address, port in listening(worker.dask_pid()) if address == worker.address]
    below = [
        Door(f"nanny or worker {number}", worker.address, port) for number, port in enumerate(ports)
    ]
    return [
        Door("scheduler", scheduler, PORT),
        Door("dashboard", scheduler, DASHBOARD_PORT),
        *below,
    ]


def context_of(ca: str, bundle: dict[str, str] | None, folder: Path) -> ssl.SSLContext:
    """Come with a certificate, or with none; whom one meets is not looked at, so that the door
    alone decides.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_verify_locations(cadata=ca)
    if bundle is not None:
        file = folder / "bundle.pem"
        file.write_text(bundle["cert"] + bundle["key"])
        context.load_cert_chain(file)
    return context


def _another_authority(ours: Authority, role: str, folder: Path) -> Coming:
    return context_of(ours.pem, Authority().bundle(role), folder)


def _expired(ours: Authority, role: str, folder: Path) -> Coming:
    return context_of(ours.pem, ours.bundle(role, -datetime.timedelta(minutes=1)), folder)


def _no_certificate(ours: Authority, role: str, folder: Path) -> Coming:
    return context_of(ours.pem, None, folder)


def _plain(ours: Authority, role: str, folder: Path) -> Coming:
    return None


def _older_tls(ours: Authority, role: str, folder: Path) -> Coming:
    context = context_of(ours.pem, ours.bundle(role), folder)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


#: Who comes -> how, by the cluster's authority and the role that they claim.
INTRUDERS: dict[str, Callable[[Authority, str, Path], Coming]] = {
    "a certificate of another authority": _another_authority,
    "an expired certificate": _expired,
    "no certificate": _no_certificate,
    "plain TCP": _plain,
    "TLS 1.2": _older_tls,
}
