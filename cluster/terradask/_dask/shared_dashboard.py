"""The dashboard over HTTPS at the scheduler's host, as its scheduler describes it."""

from __future__ import annotations

import hashlib
import re
import ssl
from dataclasses import dataclass, field
from typing import Any

from terradask._dask.dashboard import DashboardForward
from terradask._deployments.attachment import Attachment
from terradask.errors import VersionMismatch
from terradask_host.commands import ReadDashboardLink
from terradask_host.http_proxy.jupyter_site import PAGE

_PATH = re.compile(r"/status\?terradask-token=[\w-]{1,200}", re.ASCII)
_JUPYTER_PATH = re.compile(rf"{re.escape(PAGE)}\?terradask-token=[\w-]{{1,200}}", re.ASCII)


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
    jupyter_link
        Opens the notebook server in the same way, with a token of its own: it runs any code on the
        cluster. None for a cluster without one. Not in the repr either.
    """

    link: str = field(repr=False)
    fingerprint: str
    jupyter_link: str | None = field(default=None, repr=False)


async def request_shared_dashboard(
    dashboard: DashboardForward, attachment: Attachment, *, public: bool
) -> SharedDashboard:
    """Return the dashboard over HTTPS. Raises `ClusterError`, ``OSError``."""
    cluster = attachment.descriptor.cluster
    port, path, jupyter_path = _read(await dashboard.send(cluster, ReadDashboardLink()))
    if port is None:
        raise VersionMismatch(
            f"The hosts of cluster {cluster!r} serve no dashboard over HTTPS: they were "
            "started before use_dashboard_https was set.",
            cluster=cluster,
            advice="terradask apply network, then stop and start the cluster",
        )
    host = attachment.address(public=public).partition("://")[2].rpartition(":")[0]
    certificate = ssl.PEM_cert_to_DER_cert(attachment.keys.scheduler.cert)
    base = f"https://{host}:{port}"
    return SharedDashboard(
        base + path,
        hashlib.sha256(certificate).hexdigest(),
        None if jupyter_path is None else base + jupyter_path,
    )


def _read(answer: Any) -> tuple[int | None, str, str | None]:
    """Return port and paths; no port unless the answer is a host's: tasks can change it."""
    try:
        port, path, jupyter_path = answer["port"], answer["path"], answer.get("jupyter_path")
    except (LookupError, TypeError, ValueError, AttributeError):
        return None, "", None
    valid = (
        isinstance(port, int)
        and isinstance(path, str)
        and _PATH.fullmatch(path)
        and (
            jupyter_path is None
            or (isinstance(jupyter_path, str) and _JUPYTER_PATH.fullmatch(jupyter_path))
        )
    )
    return (port, path, jupyter_path) if valid else (None, "", None)
