"""Targets that the tasks of a running cluster reach (`Cluster.reach`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._clusters.lifetime import Duration, parse_duration
from terradask._common.progress import Message, Progress
from terradask._dask.host_workers import host_of, is_extra
from terradask.errors import InvalidInput, WorkersMissing
from terradask_host.commands import TryTargets
from terradask_modules.names import WORKER_GROUP

if TYPE_CHECKING:
    from terradask._clusters.reach.result import Reach
    from terradask._dask.connection import SchedulerConnection
    from terradask._dask.pool import WorkerPool
    from terradask._dask.threads import Call
    from terradask._network.baseline import Baseline

MOST_TARGETS = 50
_LONGEST_SECONDS = 60.0


@dataclass(eq=False, repr=False)
class ReachTests:
    """Has a host of a cluster try targets, and explains what it finds."""

    #: Reads the network, which may have been applied since the last time.
    read_baseline: Callable[[], Baseline]
    connection: SchedulerConnection
    pool: WorkerPool
    call: Call
    progress: Progress

    @property
    def _name(self) -> str:
        return self.connection.health.name

    async def reach(
        self,
        targets: Sequence[str] | str,
        *,
        group: str | None = None,
        scheduler: bool = False,
        timeout: Duration = "10s",
    ) -> Reach:
        """Try databases, objects, secrets and keys from a worker's host, as its role, and explain
        each that tasks don't reach: who refuses it, and the line that opens it.

        Nothing is changed: connections are closed at once, calls of AWS only read, and their values
        are dropped on the host.

        Parameters
        ----------
        targets
            Each as ``host:port``, ``[IPv6 address]:port``, a URL, ``s3://bucket/key``,
            ``s3://bucket/prefix/``, or the ARN of an object of S3, a secret, a parameter, a table
            of DynamoDB, a queue, a topic, a KMS key, a database or table of Glue, or a role to
            assume; up to 50. Others aren't tried, and the result says so.
        group
            Group of workers of which one host tries. By default any worker.
        scheduler
            Have the scheduler's host try instead.
        timeout
            Longest time of one connection, and of one call of AWS.

        Returns
        -------
        Reach
            With ``results``, one for each target, ``is_all_reached``, and a table as its text.

        Raises
        ------
        InvalidInput
            For a target, a group or a time that can't be used.
        WorkersMissing
            When no worker of the group has joined.
        ClusterError
            When the host doesn't answer.
        ClusterClosed, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without this.

        Notes
        -----
        The network is read anew each time. Permissions needed: those to attach. With
        ``ec2:DescribeSecurityGroupRules``, time-outs are compared with the rules in AWS, else with
        those that the network was applied with.
        """
        from terradask._clusters.reach.explanation import explain, read_rules_of, timed_out
        from terradask._clusters.reach.targets import read_target

        given = [targets] if isinstance(targets, str) else list(targets)
        seconds = _checked(given, group, scheduler, timeout)
        baseline = await self.call(self.read_baseline)
        where = baseline.where
        read = [read_target(one, account=where.account, partition=where.partition) for one in given]
        worker = None if scheduler else self._choose_worker(group)
        tried = [one for one in read if one.kind is not None]
        host = (
            self.connection.attachment.scheduler.instance_id if worker is None else host_of(worker)
        )
        found: dict[str, Any] = {}
        if tried:
            self.progress(
                Message(
                    f"{self._name}: {host} tries {len(tried)} "
                    f"target{'s' if len(tried) != 1 else ''}, each step for up to {seconds:g} s",
                    kept=True,
                )
            )
            asked = [{"kind": one.kind, "facts": dict(one.facts)} for one in tried]
            found = await self.connection.send(TryTargets(asked, seconds, worker))
        rules = None
        if timed_out(found):
            rules = await self.call(partial(read_rules_of, self.pool.deployment.aws, found))
        return explain(self._name, host, read, found, baseline, rules=rules)

    def _choose_worker(self, group: str | None) -> str:
        """Return the name of a joined worker, of a group or any. Raises."""
        groups = self.pool.groups
        if group is not None and group not in groups:
            raise InvalidInput(
                "The cluster has no such group of workers.",
                given=group,
                allowed=", ".join(groups) or WORKER_GROUP,
            )
        hosts = None if group is None else groups[group].observed
        names = [str(name) for name in self.connection.joined.all_names]
        own = sorted(names, key=lambda name: (is_extra(name), name))
        for name in own:
            if hosts is None or (host_of(name) in hosts and not is_extra(name)):
                return name
        raise WorkersMissing(
            f"Cluster {self._name!r} has no joined worker"
            f"{'' if group is None else f' of the group {group!r}'} that could try.",
            cluster=self._name,
            advice="terradask scale adds workers; --scheduler (scheduler=True) tries from the "
            "scheduler's host, whose role and security group are others",
        )


def _checked(
    targets: Sequence[str], group: str | None, scheduler: bool, timeout: Duration
) -> float:
    """Return the time limit in seconds. Raises `InvalidInput`."""
    if not 1 <= len(targets) <= MOST_TARGETS:
        raise InvalidInput(
            "The number of targets can't be used.",
            given=len(targets),
            allowed=f"1 to {MOST_TARGETS}",
        )
    if group is not None and scheduler:
        raise InvalidInput("A group of workers and the scheduler are both given.", allowed="one")
    seconds = parse_duration("timeout", timeout, never=False) or 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidInput(
            "The time for one step can't be used.",
            given=timeout,
            allowed=f"up to {_LONGEST_SECONDS:g} s",
        )
    return seconds
