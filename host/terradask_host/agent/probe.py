"""Whether this cluster's scheduler answers at an address."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from terradask_host.agent.keys import KeyFiles


def answers(address: str, keys: KeyFiles, *, timeout_seconds: float) -> bool:
    """Return whether a server with a certificate of the cluster's authority shakes hands at
    ``tls://host:port``.

    A bare TCP connection would also be taken by another cluster's scheduler that got the address
    since.
    """
    parts = urlsplit(address)
    if not parts.hostname or not parts.port:
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Dask: a dedicated authority and addresses instead of host names.
    context.check_hostname = False
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(keys.ca)
        context.load_cert_chain(keys.cert, keys.key)
        with (
            socket.create_connection((parts.hostname, parts.port), timeout_seconds) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False
