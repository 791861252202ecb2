"""Check that client and cluster have the same versions of what both must share."""

from __future__ import annotations

import importlib.metadata

from terradask._clusters.attachment import Attachment
from terradask._software.hosts import python_version
from terradask.errors import VersionMismatch

#: Packages that must match: Dask's protocol has no version, and results are pickled.
SAME_VERSION = ("dask", "distributed")


def check_versions(cluster: str, attachment: Attachment) -> None:
    """Check that client and cluster have the same versions. Raises `VersionMismatch`."""
    here = {"python": python_version(), **{p: importlib.metadata.version(p) for p in SAME_VERSION}}
    there = {"python": attachment.scheduler.python, **attachment.scheduler.packages}
    there = {
        name: ".".join(v.split(".")[:2]) if name == "python" else v for name, v in there.items()
    }
    if any(there.get(name) != version for name, version in here.items()):
        raise VersionMismatch(
            f"Client and cluster {cluster!r} run different versions.",
            cluster=cluster,
            client=here,
            hosts={name: there.get(name, "none") for name in here},
            advice=(
                "install the cluster's versions on this machine, or stop and start it from here: "
                f"terradask stop {cluster}"
            ),
        )
