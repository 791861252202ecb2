"""The dashboard over HTTPS at the scheduler's host, as its scheduler describes it."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass, field
from typing import Any

from terradask._deployments.attach import Attachment
from terradask.errors import VersionMismatch


@dataclass(frozen=True)
class SharedDashboard:
    """The dashboard over HTTPS of a cluster, for people without terradask.

    Parameters
    ----------
    link
        Opens the dashboard from addresses that the network's ingress rules allow. Contains the
        token, and so isn't in the repr.
    fingerprint
        SHA-256 of the scheduler host's certificate, which a browser shows, in hexadecimal digits.
    """

    link: str = field(repr=False)
    fingerprint: str


async def request_shared_dashboard(
    scheduler: Any, attachment: Attachment, *, public: bool
) -> SharedDashboard:
    """Return the dashboard of a cluster with `use_dashboard_https`.

    Raises `VersionMismatch`.
    """
    answer = await scheduler.terradask_shared_dashboard()
    if not answer:
        # A scheduler answers None to what it doesn't know.
        cluster = attachment.descriptor.cluster
        raise VersionMismatch(
            f"The hosts of cluster {cluster!r} serve no dashboard over HTTPS: they run an older "
            "terradask, or were started before "
            "use_dashboard_https was set.",
            cluster=cluster,
            advice="terradask apply network, then stop and start the cluster",
        )
    host = attachment.address(public=public).partition("://")[2].rpartition(":")[0]
    certificate = ssl.PEM_cert_to_DER_cert(attachment.keys.scheduler.cert)
    return SharedDashboard(
        f"https://{host}:{answer['port']}{answer['path']}", hashlib.sha256(certificate).hexdigest()
    )
