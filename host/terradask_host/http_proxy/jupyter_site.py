"""The notebook server as both ends see it: how it is asked for, where its pages are, and whom they
open for.
"""

from __future__ import annotations

from terradask_host.http_proxy.admission import Admission
from terradask_host.http_proxy.pipes import Dial
from terradask_host.http_proxy.server import Site

#: What clients ask for by TLS's ALPN to get the notebook server instead of the dashboard.
PROTOCOL = "terradask-jupyter"

#: Paths of the notebook server, and the page that opens it.
BASE_PATH = "/jupyter/"
PAGE = "/jupyter/lab"

_SILENT = (
    "The notebook server doesn't answer. Either the cluster has stopped, or its environment has no "
    "JupyterLab (terradask status NAME says so), or its hosts run an older terradask: terradask "
    "apply network, then stop and start the cluster."
)


def jupyter_site(dial: Dial, *, secure: bool, hosts: frozenset[str] | None) -> Site:
    """Return the site of a notebook server, with a token of its own; the arguments are those of
    `Admission`.
    """
    admission = Admission(
        secure=secure, hosts=hosts, what="notebook server", shown_by="cluster.jupyter_link"
    )
    return Site(admission, dial, _SILENT)
