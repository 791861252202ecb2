"""What a client reads of a cluster before it decides what to do, and, where it runs, what a client
needs to connect: all side by side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from terradask._aws.group_facts import tagged_groups
from terradask._clusters.attach import attached_by
from terradask._clusters.attachment import Attachment
from terradask._common.side_by_side import side_by_side
from terradask._observe.documents import read_run
from terradask._observe.record import ClusterRecord, not_found, raised_groups
from terradask._observe.store import RUN, parse_object, read_secret
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group

#: State of a cluster's name.
Found = Literal["nothing", "stopped", "running"]


@dataclass(frozen=True)
class Snapshot:
    """A cluster's documents, groups and keys at one moment."""

    #: Whether the deployment is marked for destruction.
    closing: bool
    #: Whether it is deployed, and whether its run goes on.
    found: Found
    #: The run that was started last, even if it has ended; None if the cluster was stopped.
    run: Run | None
    #: None where anything of it isn't there yet, or isn't as it should be.
    attachment: Attachment | None = None
    #: None where they weren't all found by their tags.
    groups: Mapping[str, Group] | None = None


def take_snapshot(record: ClusterRecord, also: Callable[[], object]) -> Snapshot:
    """Read a cluster's documents, groups and keys, and run `also` at the same time.

    Raises `ClusterNotFound` for one that runs and has lost its ``cluster.json``: a client that made
    it anew would end it, too.
    """
    reads: list[Callable[[], Any]] = [
        lambda: record.exists,
        partial(record.objects.read_bytes, RUN),
        lambda: record.marked_closing,
        partial(_if_read, record.scheduler),
        partial(_if_read, partial(read_secret, record.aws, record.where.secret_id)),
        partial(_if_read, partial(_listed_groups, record)),
        partial(_if_read, also),
    ]
    exists, content, closing, scheduler, secret, listed, _ = side_by_side(reads, len(reads))
    run = None if content is None else read_run(parse_object(content, RUN))
    if not exists:
        if run is not None and not closing and (raised := raised_groups(record.aws, record.where)):
            raise not_found(record.where, raised)
        return Snapshot(closing, "nothing", run)
    if run is None:
        return Snapshot(closing, "stopped", run)
    groups = record.groups.of(listed or ())
    whole = groups if groups.keys() == set(record.groups.names) else None
    if not record.goes_on(run, scheduler, whole):
        return Snapshot(closing, "stopped", run)
    attachment = attached_by(record, run, content, scheduler, secret)
    return Snapshot(closing, "running", run, attachment, whole)


def _listed_groups(record: ClusterRecord) -> list[Mapping[str, Any]]:
    client = record.aws.client("autoscaling")
    found = tagged_groups(client, workspace=record.where.workspace, cluster=record.name)
    return [group for _, group in found]


def _if_read(read: Callable[[], Any]) -> Any:
    """Return what is read, or None: who needs it reads it again, and gets the error."""
    with contextlib.suppress(Exception):
        return read()
    return None
