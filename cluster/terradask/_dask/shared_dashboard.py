"""The dashboard over HTTPS at the scheduler's host, as its scheduler describes it."""

from __future__ import annotations

import hashlib
import re
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus

from terradask._common.json_text import parse_json
from terradask._dask.dashboard import DashboardForward
from terradask._deployments.attach import Attachment
from terradask.errors import VersionMismatch

#: The page of the scheduler's host that has port and path of the link.
LINK_PAGE = "/terradask/shared-dashboard"

_PATH = re.compile(r"/status\?terradask-token=[\w-]{1,200}", re.ASCII)


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
    dashboard: DashboardForward, attachment: Attachment, *, public: bool
) -> SharedDashboard:
    """Return the dashboard over HTTPS. Raises `VersionMismatch`, ``OSError``."""
    status, content = await dashboard.fetch(LINK_PAGE)
    port, path = _read(content) if status == HTTPStatus.OK else (None, "")
    if port is None:
        cluster = attachment.descriptor.cluster
        raise VersionMismatch(
            f"The hosts of cluster {cluster!r} serve no dashboard over HTTPS: they run an older "
            "terradask, or were started before use_dashboard_https was set.",
            cluster=cluster,
            advice="terradask apply network, then stop and start the cluster",
        )
    host = attachment.address(public=public).partition("://")[2].rpartition(":")[0]
    certificate = ssl.PEM_cert_to_DER_cert(attachment.keys.scheduler.cert)
    return SharedDashboard(f"https://{host}:{port}{path}", hashlib.sha256(certificate).hexdigest())


def _read(content: bytes) -> tuple[int | None, str]:
    """Return port and path; no port unless the page is a host's: tasks can change it."""
    try:
        answer = parse_json(content)
        port, path = answer["port"], answer["path"]
    except (LookupError, TypeError, ValueError):
        return None, ""
    valid = isinstance(port, int) and isinstance(path, str) and _PATH.fullmatch(path)
    return (port, path) if valid else (None, "")
