"""Read a cluster's state, and the attachment of a running one, in one round of parallel calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from terradask._aws.group_facts import tagged_groups
from terradask._clusters.attach import attachment_from_parts
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
    #: Whether the cluster is deployed and running.
    found: Found
    #: The last started run, even if it has ended; None if the cluster was stopped.
    run: Run | None
    #: None if a part is missing or invalid.
    attachment: Attachment | None = None
    #: None if not all groups were found by their tags.
    groups: Mapping[str, Group] | None = None


def take_snapshot(record: ClusterRecord, also: Callable[[], object]) -> Snapshot:
    """Read a cluster's documents, groups and keys, and run `also` in parallel.

    Raises `ClusterNotFound` for a running cluster without ``cluster.json``: deploying it again
    would end it.
    """
    reads: list[Callable[[], Any]] = [
        lambda: record.exists,
        partial(record.objects.read_bytes, RUN),
        lambda: record.marked_closing,
        partial(_result_or_none, record.scheduler),
        partial(_result_or_none, partial(read_secret, record.aws, record.where.secret_id)),
        partial(_result_or_none, partial(_listed_groups, record)),
        partial(_result_or_none, also),
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
    complete = groups if groups.keys() == set(record.groups.names) else None
    if not record.goes_on(run, scheduler, complete):
        return Snapshot(closing, "stopped", run)
    attachment = attachment_from_parts(record, run, content, scheduler, secret)
    return Snapshot(closing, "running", run, attachment, complete)


def _listed_groups(record: ClusterRecord) -> list[Mapping[str, Any]]:
    client = record.aws.client("autoscaling")
    found = tagged_groups(client, workspace=record.where.workspace, cluster=record.name)
    return [group for _, group in found]


def _result_or_none(read: Callable[[], Any]) -> Any:
    """Return a result, or None after an error: a later read raises it if the result is needed."""
    with contextlib.suppress(Exception):
        return read()
    return None
