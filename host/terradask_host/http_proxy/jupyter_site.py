"""The notebook server's protocol name, paths, and admission rules, shared by both ends."""

from __future__ import annotations

from terradask_host.http_proxy.admission import Admission
from terradask_host.http_proxy.pipes import Dial
from terradask_host.http_proxy.server import Site

#: ALPN protocol of clients' connections to the notebook server instead of the dashboard.
PROTOCOL = "terradask-jupyter"

#: Path prefix of the notebook server, and its entry page.
BASE_PATH = "/jupyter/"
PAGE = "/jupyter/lab"

_SILENT = (
    "The notebook server doesn't answer. Either the cluster has stopped, or its environment has no "
    "JupyterLab (see terradask status NAME), or its hosts run an older terradask: terradask "
    "apply network, then stop and start the cluster."
)


def jupyter_site(dial: Dial, *, secure: bool, hosts: frozenset[str] | None) -> Site:
    """Return a notebook server's site with its own token; arguments are those of `Admission`."""
    admission = Admission(
        secure=secure, hosts=hosts, what="notebook server", shown_by="cluster.jupyter_link"
    )
    return Site(admission, dial, _SILENT)
