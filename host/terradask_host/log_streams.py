"""The names of hosts' log streams, from which clients read run and group after its end; and the
beginnings of lines by which clients recognise a boot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Replaces the run of a host that doesn't know it.
NO_RUN = "-"

#: A run's id: the time of its start, and a random part.
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{1,32}", re.ASCII)

#: Begins each line of the host program.
HOST_LINES = "terradask-host: "
#: Begin the lines that a host writes while it boots, and later.
BOOT_LINES = ("cloud-init: ", "terradask-boot: ", HOST_LINES)
#: Begin the host program's lines that it serves Dask: a scheduler, and a worker.
LISTENING, JOINED = "listening at", "joined"
SERVES = (LISTENING, JOINED)

_NAME = re.compile(
    rf"(?P<cluster>[a-z][a-z0-9-]{{0,31}})/(?P<run_id>{NO_RUN}|{RUN_ID.pattern})"
    r"/(?P<group>[a-z][a-z0-9-]{0,31})/(?P<instance_id>i-[0-9a-f]{8,17})",
    re.ASCII,
)


@dataclass(frozen=True)
class LogStream:
    """The log stream of one host in the workspace's log group.

    Parameters
    ----------
    cluster
        The cluster's name. It comes first, because roles' rights to write are limited by it.
    run_id
        The run that the host was launched for; `NO_RUN` if the host didn't know it.
    group
        The host's tag ``terradask:group``.
    instance_id
        The host's instance id.
    """

    cluster: str
    run_id: str
    group: str
    instance_id: str

    @property
    def name(self) -> str:
        """Its name: streams of a run have one prefix, and sort by the run's start."""
        return f"{self.cluster}/{self.run_id}/{self.group}/{self.instance_id}"


def metrics_stream(cluster: str, run_id: str) -> str:
    """Return the name of the stream with a run's metrics, which isn't a host's log."""
    return f"{cluster}/metrics/{run_id}"


def known_run(run_id: str | None) -> str:
    """Return a run's id in streams' names: `NO_RUN` for anything else."""
    return run_id if run_id is not None and RUN_ID.fullmatch(run_id) else NO_RUN


def parse_stream(name: str) -> LogStream | None:
    """Parse a stream's name; None if it isn't a host's."""
    found = _NAME.fullmatch(name)
    return None if found is None else LogStream(**found.groupdict())
