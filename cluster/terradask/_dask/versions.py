"""The versions that client and cluster must have in common."""

from __future__ import annotations

import importlib.metadata

from terradask._deployments.attachment import Attachment
from terradask._software.hosts import python_version
from terradask.errors import VersionMismatch

#: Packages that need the same version: Dask's protocol has none, and results are pickled.
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
                "use the cluster's versions here, or stop and start it from here: terradask "
                f"stop {cluster}"
            ),
        )
