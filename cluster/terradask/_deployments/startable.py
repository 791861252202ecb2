"""Whether a deployed cluster can be started: it is whole, its own, and as it was applied."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from terradask._deployments.documents import read_descriptor
from terradask._deployments.record import ClusterRecord
from terradask._deployments.store import DESCRIPTOR, parse_object
from terradask.errors import ClusterError, DocumentChanged
from terradask_host.documents import sha256_of
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import TAG_DESCRIPTOR


def check_startable(record: ClusterRecord) -> dict[str, Group]:
    """Return the cluster's groups; check that they and the secret are its own, and that it is not
    destroyed in part.

    Raises `ForeignResources`, `ClusterError`, and as `check_bound` does.
    """
    with ThreadPoolExecutor(1) as pool:
        own = pool.submit(record.secret.check_own)
        groups = record.groups.describe()
        gone = set(record.descriptor.groups) - set(groups)
        record.groups.check_own()
    if gone:
        marked = record.marked_closing
        why = "its destruction was not finished" if marked else "some of its groups are gone"
        raise ClusterError(
            f"Cluster {record.name!r} is destroyed in part: {why}.",
            cluster=record.name,
            given=f"without {', '.join(sorted(gone))}",
            advice=(
                f"terradask destroy {record.name} finishes it; terradask apply {record.name} "
                "restores the cluster"
            ),
        )
    own.result()
    check_bound(record)
    return groups


def check_bound(record: ClusterRecord) -> None:
    """Check that ``cluster.json`` is what was applied, if the cluster's secret binds it: hosts run
    what it says, and others may write it.

    Raises `DocumentChanged`.
    """
    bound = record.secret.tags.get(TAG_DESCRIPTOR)
    if bound is None:
        return
    content = record.objects.read_bytes(DESCRIPTOR) or b""
    if sha256_of(content) != bound or (
        # What was read before, which the start goes by.
        read_descriptor(parse_object(content, DESCRIPTOR)) != record.descriptor
    ):
        advice = f"delete it and run: terradask apply {record.name}"
        raise DocumentChanged(DESCRIPTOR, cluster=record.name, advice=advice)
