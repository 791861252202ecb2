"""Targets that the tasks of a running cluster reach (`Cluster.reach`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed
from terradask._clusters.lifetime import Duration, parse_duration
from terradask._clusters.reach.advice import Side
from terradask._clusters.reach.outbound import read_rules
from terradask._clusters.reach.result import Found, Reach, judge
from terradask._clusters.reach.targets import Target, read_target
from terradask._common.progress import Message, Progress
from terradask._dask.connection import SchedulerConnection
from terradask._dask.host_workers import host_of, is_extra
from terradask._dask.threads import Call
from terradask.errors import AccessDenied, InvalidInput, WorkersMissing
from terradask_host.commands import TryTargets
from terradask_modules.names import WORKER_GROUP

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._dask.pool import WorkerPool
    from terradask._network.baseline import Baseline
    from terradask_modules.egress import Egress

MOST_TARGETS = 50
_LONGEST_SECONDS = 60.0
_GROUP = re.compile("sg-[0-9a-z]{1,40}")


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
        if _timed_out(found):
            groups = _security_groups(found)
            rules = await self.call(partial(_read_rules, self.pool.deployment.aws, groups))
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


def _timed_out(found: dict[str, Any]) -> bool:
    read = map(Found.read, found.get("results") or ())
    return any(one.problem.get("kind") == "timeout" for one in read)


def _security_groups(found: dict[str, Any]) -> tuple[str, ...]:
    groups = found.get("security_groups") or ()
    return tuple(str(each) for each in groups if _GROUP.fullmatch(str(each)))


def _read_rules(aws: Aws, groups: Sequence[str]) -> list[Egress] | None:
    """Return the outbound rules of security groups; None if the caller may not read them."""
    if not groups:
        return None
    filters = [{"Name": "group-id", "Values": list(groups)}]
    with suppress(AccessDenied):
        ec2 = aws.client("ec2")
        return read_rules(
            listed(ec2, "describe_security_group_rules", "SecurityGroupRules", Filters=filters)
        )
    return None


def explain(
    cluster: str,
    host: str,
    targets: Sequence[Target],
    found: dict[str, Any],
    baseline: Baseline,
    *,
    rules: Sequence[Egress] | None = None,
) -> Reach:
    """Return the result from what a host found."""
    caller = found.get("caller")
    caller = str(caller) if caller else None
    groups = _security_groups(found)
    side = side_of(cluster, caller, groups, baseline)
    answers = iter(found.get("results") or ())
    results = tuple(
        judge(one, Found.read(next(answers, None) if one.kind else None), side, baseline, rules)
        for one in targets
    )
    return Reach(cluster, host, caller, groups, results)


def side_of(cluster: str, caller: str | None, groups: Sequence[str], baseline: Baseline) -> Side:
    """Return a cluster's side, with the role that AWS saw."""
    roles = [role for each in baseline.host_roles(cluster).values() for role in each]
    # arn:aws:sts::123456789012:assumed-role/NAME/SESSION
    name = caller.split("/")[1] if caller and ":assumed-role/" in caller else None
    own = next((role for role in roles if role.rpartition("/")[2] == name), None)
    is_own = "instance_profiles" not in baseline.given and (caller is None or own is not None)
    return Side(
        cluster=cluster,
        role=own or caller or baseline.host_roles(cluster)["worker"][-1],
        is_own_role=is_own,
        security_groups=groups,
        has_own_groups="security_groups" not in baseline.given,
        is_isolated=baseline.isolation == "cluster",
        partition=baseline.where.partition,
    )
