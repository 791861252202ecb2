"""``terradask dashboard``: a cluster's dashboard on this machine, as long as the command runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import complete_cluster
from terradask.cli._output import result, say

if TYPE_CHECKING:
    from terradask._dask.cluster import Cluster

_LOOK_SECONDS = 1.0


@click.command(short_help="Serve a cluster's dashboard here, or print a shared link")
@click.argument("name", shell_complete=complete_cluster)
@click.option(
    "--shared",
    is_flag=True,
    help="Only print the link for people without terradask; needs cluster.use_dashboard_https.",
)
def dashboard(*, name: str, shared: bool) -> None:
    """Attach to the cluster NAME, and print and serve a link to its dashboard on this machine,
    until Ctrl-C.

    The link leads to a loopback port of this machine, which is forwarded to the cluster over mutual
    TLS; its token belongs to this command. While the command runs, it counts as a client: a cluster
    that ends without clients keeps running.
    """
    from terradask import Cluster
    from terradask.errors import InvalidInput

    with Cluster.from_name(name) as cluster:
        if shared:
            found = cluster.shared_dashboard
            if found is None:
                raise InvalidInput(
                    f"Cluster {name!r} serves its dashboard only to clients with its certificates.",
                    given="use_dashboard_https = false",
                    allowed="use_dashboard_https = true",
                    advice=(
                        f"terradask dashboard {name} opens it on this machine; or set "
                        "use_dashboard_https, see docs/dashboard.md"
                    ),
                )
            say(
                "the browser asks whether to trust the certificate with the SHA-256 "
                "fingerprint "
                f"{found.fingerprint}"
            )
            result(found.link)
            return
        result(cluster.dashboard_link)
        say("Ctrl-C ends it")
        _wait(cluster)


def _wait(cluster: Cluster) -> None:
    from terradask.errors import SchedulerUnreachable

    lost = False
    try:
        while True:
            time.sleep(_LOOK_SECONDS)
            try:
                cluster._health.check()
                lost = False
            except SchedulerUnreachable as error:
                # It is looked for on and on, as after a laptop has slept.
                if not lost:
                    say(f"{error.problem} Trying again")
                lost = True
    except KeyboardInterrupt:
        say("closed; the cluster keeps running")
