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
    """Where people without terradask find a cluster's dashboard.

    Parameters
    ----------
    link
        Opens the dashboard, from wherever the network's ingress rules let in. Has the token in it, and so is not in the repr.
    fingerprint
        SHA-256 of the certificate by which a browser knows the scheduler's host, in hexadecimal digits.
    """

    link: str = field(repr=False)
    fingerprint: str


async def ask_for_shared_dashboard(scheduler: Any, attachment: Attachment, *, public: bool) -> SharedDashboard:
    """Ask a cluster that has `use_dashboard_https` for its link.

    Raises `VersionMismatch`.
    """
    answer = await scheduler.terradask_shared_dashboard()
    if not answer:
        # A scheduler answers None to what it doesn't know.
        cluster = attachment.descriptor.cluster
        raise VersionMismatch(
            f"The hosts of cluster {cluster!r} serve no dashboard over HTTPS: they are of an older terradask, or of a time before "
            "use_dashboard_https.",
            cluster=cluster,
            advice="terradask apply network, then stop and start the cluster",
        )
    host = attachment.address(public=public).partition("://")[2].rpartition(":")[0]
    certificate = ssl.PEM_cert_to_DER_cert(attachment.keys.scheduler.cert)
    return SharedDashboard(f"https://{host}:{answer['port']}{answer['path']}", hashlib.sha256(certificate).hexdigest())
