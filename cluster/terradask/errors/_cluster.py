"""Clusters, and the network that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from terradask_modules.errors import TerradaskError

#: So many names are shown of many.
_SHOWN = 5


class ClusterError(TerradaskError):
    """A problem with one cluster.

    Parameters
    ----------
    problem
        What went wrong.
    cluster
        The cluster's name.
    """

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.cluster = cluster


class ClusterNotFound(ClusterError, LookupError):
    """There is no such cluster in the workspace."""

    exit_code = 6


class ClusterExists(ClusterError):
    """The cluster exists, or runs, although it must not."""

    exit_code = 6


class ClusterClosed(ClusterError):
    """The object was closed; its cluster may still run."""


class ClusterPrivate(ClusterError):
    """The cluster is private to its creator, and this caller may not read or change its keys.

    Parameters
    ----------
    caller
        ARN of the caller.
    principals
        ARNs that may do that: its creator's first.
    doing
        What AWS refuses.
    """

    exit_code = 3

    def __init__(
        self,
        cluster: str,
        *,
        caller: str,
        principals: Sequence[str],
        doing: str = "read its keys",
    ) -> None:
        super().__init__(
            f"Cluster {cluster!r} is private to its creator: AWS refuses to let you {doing}.",
            cluster=cluster,
            given=caller,
            allowed=", ".join(principals),
            advice="connect as one of these; or ask its creator to name you in "
            "cluster.secret_principals and run: terradask apply "
            f"{cluster}. These principals also need the permission secretsmanager:GetSecretValue",
        )
        self.caller = caller
        self.principals = tuple(principals)


class ClusterStopped(ClusterError):
    """The cluster is stopped, or has ended by itself: idle, without a client, at the end of its
    lifetime, or without a sign of life. Start it.

    Parameters
    ----------
    reason
        Why it has ended, as its scheduler's host recorded it; None if it was stopped.
    at
        When, in UTC; None if its hosts did not record it.
    """

    exit_code = 6

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        given: Any = None,
        reason: str | None = None,
        at: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, cluster=cluster, given=reason or given, advice=advice)
        self.reason = reason
        self.at = at


class SchedulerReplaced(ClusterError):
    """The scheduler's host was replaced: the old scheduler's tasks and results are lost."""


class WorkersUntold(ClusterError):
    """Some workers don't answer their scheduler, and did not get what was sent to the cluster.

    Parameters
    ----------
    workers
        Their names.
    """

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        workers: Sequence[str] = (),
        advice: str | None = None,
    ) -> None:
        more = f" and {len(workers) - _SHOWN} others" if len(workers) > _SHOWN else ""
        super().__init__(
            problem, cluster=cluster, given=", ".join(workers[:_SHOWN]) + more, advice=advice
        )
        self.workers = list(workers)


class HostFailed(ClusterError):
    """A host reports a failure.

    Parameters
    ----------
    instance_id
        The instance.
    reason
        Why, as the host reported it.
    log_tail
        The last lines of its log.
    """

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        instance_id: str | None = None,
        reason: str | None = None,
        log_tail: Sequence[str] = (),
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, cluster=cluster, given=reason, advice=advice)
        self.instance_id = instance_id
        self.reason = reason
        self.log_tail = tuple(log_tail)

    def _text(self) -> str:
        """Return the problem, and the end of the host's log."""
        tail = "".join(f"\n  | {line}" for line in self.log_tail)
        return super()._text() + tail


class SchedulerMissing(ClusterError, TimeoutError):
    """The scheduler did not start, or did not answer, in time."""

    exit_code = 7


class SchedulerUnreachable(ClusterError, ConnectionError):
    """The scheduler has published its address, but doesn't answer there.

    Parameters
    ----------
    address
        The address that was tried.
    """

    def __init__(
        self,
        problem: str,
        *,
        address: str,
        cluster: str | None = None,
        given: Any = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, cluster=cluster, given=given, advice=advice)
        self.address = address


class WorkersMissing(ClusterError, TimeoutError):
    """Fewer workers than requested have joined in time.

    Parameters
    ----------
    wanted
        How many were waited for.
    arrived
        How many joined.
    """

    exit_code = 7

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        wanted: int | None = None,
        arrived: int | None = None,
        advice: str | None = None,
    ) -> None:
        given = None if wanted is None else f"{arrived or 0} of {wanted} workers"
        super().__init__(problem, cluster=cluster, given=given, advice=advice)
        self.wanted = wanted
        self.arrived = arrived


class NoCapacity(ClusterError):
    """AWS launches no instance for a cluster's scheduler, or none for its workers: it has no
    capacity, or the account's quota is used up.

    Parameters
    ----------
    wanted
        How many instances were requested.
    problems
        Name of a group -> AWS's reasons.
    kinds
        The missing things: ``capacity``, ``reservation`` (its capacity), ``quota``, ``addresses``,
        ``unsupported`` (the type, in this zone), or another.
    given, allowed
        A capacity reservation's machines, and the number that would fit. By default `given`
        follows from `wanted`.
    """

    exit_code = 7

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        wanted: int | None = None,
        problems: Mapping[str, Sequence[str]] | None = None,
        advice: str | None = None,
        kinds: Iterable[str] = (),
        given: str | None = None,
        allowed: str | None = None,
    ) -> None:
        if given is None and wanted is not None:
            given = f"0 of {wanted} instances"
        super().__init__(problem, cluster=cluster, given=given, allowed=allowed, advice=advice)
        self.wanted = wanted
        self.problems = {group: list(found) for group, found in (problems or {}).items()}
        self.kinds = frozenset(kinds)


class VersionMismatch(ClusterError):
    """Client and cluster run different versions.

    Parameters
    ----------
    client, hosts
        Version by package name, as here and as on the cluster.
    """

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        client: Mapping[str, str] | None = None,
        hosts: Mapping[str, str] | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, cluster=cluster, advice=advice)
        self.client = dict(client or {})
        self.hosts = dict(hosts or {})

    def _text(self) -> str:
        """Return the problem with both lists, only with packages that differ."""
        names = sorted({*self.client, *self.hosts})
        different = [n for n in names if self.client.get(n) != self.hosts.get(n)]
        lines = [
            f"  {n}: here {self.client.get(n, 'none')}, cluster {self.hosts.get(n, 'none')}"
            for n in different
        ]
        return "\n".join([super()._text(), *lines])


class DocumentChanged(ClusterError):
    """A document of a cluster is not the one that its secret binds: ``run.json`` of any cluster, or
    ``cluster.json`` of a private one.

    Parameters
    ----------
    name
        The document's name.
    """

    def __init__(self, name: str, *, cluster: str, advice: str | None = None) -> None:
        super().__init__(
            f"{name} of cluster {cluster!r} is not the document that terradask wrote.",
            cluster=cluster,
            given="another SHA-256 than the cluster's secret holds",
            advice=(
                "find out who wrote it (CloudTrail records that where data events of S3 are on), "
                f"then: {advice or f'terradask stop {cluster}, and start it again'}"
            ),
        )
        self.name = name


class DocumentFormat(TerradaskError):
    """An object in the bucket has an unknown format, or doesn't match its format."""


class ForeignResources(ClusterError):
    """A command would change resources that aren't the cluster's; nothing was changed.

    Parameters
    ----------
    resources
        Each with ``type``, ``id`` and ``why``; those of a state also with their ``address``.
    """

    exit_code = 8

    def __init__(
        self,
        problem: str,
        *,
        cluster: str,
        resources: Iterable[Mapping[str, str]],
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        found = tuple(dict(one) for one in resources)
        lines = [
            f"{one.get('address') or one['type']} ({one['id']}): {one['why']}" for one in found
        ]
        if len(lines) > _SHOWN:
            lines[_SHOWN:] = [f"and {len(lines) - _SHOWN} more"]
        super().__init__(
            problem, cluster=cluster, given="; ".join(lines), allowed=allowed, advice=advice
        )
        self.resources = found


class ForeignDescriptor(DocumentFormat):
    """``cluster.json`` names resources that aren't the cluster's: no apply has written it."""

    exit_code = 8


# ---- the network that clusters share -------------------------------------------------------------


class BaselineError(TerradaskError):
    """The network that clusters share lacks a resource, or has another version's format: apply it,
    or update the older terradask.
    """

    exit_code = 6


class NoBaseline(BaselineError):
    """The network isn't deployed."""


class InUse(TerradaskError):
    """Clusters, or rules of other security groups, use resources that a command would remove, so
    nothing was changed: stop or destroy the clusters, or have the rules removed, first.

    Parameters
    ----------
    clusters
        The clusters' names.
    """

    exit_code = 5

    def __init__(
        self,
        problem: str,
        *,
        clusters: Sequence[str],
        given: Any,
        allowed: str | None = None,
        advice: str,
    ) -> None:
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.clusters = tuple(clusters)
