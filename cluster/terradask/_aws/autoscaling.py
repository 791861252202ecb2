"""Call AWS about the Auto Scaling groups of one cluster. While it runs, its scheduler's host sets
their numbers.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._aws.activities import activities_since
from terradask._aws.free_plan import with_eligible
from terradask._aws.group_facts import (
    foreign_groups,
    groups_gone,
    has_left,
    is_untagged,
    tagged_groups,
    tags_missing,
)
from terradask._aws.group_limits import (
    WATCHDOG_MINUTES,
    beyond_limits,
    scheduled_actions,
    unschedule,
)
from terradask._aws.tags import tags_of
from terradask._common.batches import batches
from terradask._common.side_by_side import side_by_side
from terradask.errors import AccessDenied
from terradask_host.rules.autoscaling_groups import Group, watchdog_action
from terradask_host.rules.launch_problem import LaunchProblem, launch_failures
from terradask_modules.names import (
    SCHEDULER_GROUP,
    TAG_CLUSTER,
    TAG_GROUP,
    TAG_ROLE,
    TAG_WORKSPACE,
    WORKER_GROUP,
    group_name,
    market_group,
)

if TYPE_CHECKING:
    from terradask._aws.session import Aws

logger = logging.getLogger("terradask")

_OF_EVERY_CLUSTER = dict.fromkeys(
    (SCHEDULER_GROUP, WORKER_GROUP, market_group(WORKER_GROUP, "spot"))
)

#: AWS (documented): Auto Scaling SetInstanceProtection takes up to 50 instance ids.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetInstanceProtection.html
_PROTECTION_BATCH = 50

#: Parallel calls. AWS (api-limits)
_PARALLEL_GROUPS = 4
#: Number of a group's newest activities to read.
_ACTIVITIES = 20


class Groups:
    """The groups of one cluster, by their names in it, such as ``workers``.

    AWS's group names derive from the cluster's, and can be equal in two workspaces: workspace ``a``
    with cluster ``b-c``, and ``a-b`` with ``c``. So a group is changed only if it has the cluster's
    tags; or none of them, since they were removed, and a launch template of this workspace or
    cluster, whose names are unique.

    Numbers that are sent are absolute, so that repeating a call changes nothing.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``, ``SetDesiredCapacity``,
    ``SetInstanceProtection``, ``CreateOrUpdateTags``, ``PutScheduledUpdateGroupAction``,
    ``DescribeScheduledActions``, ``BatchDeleteScheduledAction``;
    ``DescribeScalingActivities`` while instances are missing, ``UpdateAutoScalingGroup`` where the
    minimum was raised, ``ResumeProcesses`` where AWS suspended a group.
    """

    def __init__(self, aws: Aws, groups: Iterable[str], *, workspace: str, cluster: str) -> None:
        self._aws = aws
        self._cluster = cluster
        self._tags = {TAG_WORKSPACE: workspace, TAG_CLUSTER: cluster}
        self._names = {group: group_name(workspace, cluster, group) for group in groups}
        #: Groups known to be the cluster's; those of them without its tags; and others: name -> its
        #: tags.
        self._own: set[str] = set()
        self._untagged: set[str] = set()
        self._foreign: dict[str, Mapping[str, str]] = {}

    @classmethod
    def found(cls, aws: Aws, *, workspace: str, cluster: str) -> tuple[Groups, dict[str, Group]]:
        """Find a cluster's groups by their tags, and those that every cluster can have also by
        name; return them with their descriptions.
        """
        client = aws.client("autoscaling")
        tagged = dict(tagged_groups(client, workspace=workspace, cluster=cluster))
        groups = cls(aws, {**tagged, **_OF_EVERY_CLUSTER}, workspace=workspace, cluster=cluster)
        state = groups.describe()
        # Other owners' groups of these names don't matter here.
        groups._names, groups._foreign = {name: groups._names[name] for name in state}, {}
        return groups, state

    @property
    def _client(self) -> Any:
        return self._aws.client("autoscaling")

    @property
    def names(self) -> tuple[str, ...]:
        """The cluster's own names of its groups."""
        return tuple(self._names)

    def describe(self) -> dict[str, Group]:
        """Read all groups in one call, except missing ones and those with others' tags."""
        response = self._client.describe_auto_scaling_groups(
            AutoScalingGroupNames=list(self._names.values())
        )
        return self.of(response["AutoScalingGroups"])

    def of(self, listed: Iterable[Mapping[str, Any]]) -> dict[str, Group]:
        """Return the cluster's groups from AWS's list."""
        by_autoscaling_group = {v: k for k, v in self._names.items()}
        groups = {
            by_autoscaling_group[found["AutoScalingGroupName"]]: found
            for found in listed
            # A group being deleted is listed until its last instance has ended.
            if found["AutoScalingGroupName"] in by_autoscaling_group and not found.get("Status")
        }
        tags = {name: tags_of(found.get("Tags")) for name, found in groups.items()}
        tagged = {name for name in groups if self._tags.items() <= tags[name].items()}
        self._untagged = {name for name in groups if is_untagged(groups[name], self._tags)}
        self._own = own = tagged | self._untagged
        self._foreign = {name: tags[name] for name in groups if name not in own}
        return {
            name: Group.of(name, groups[name], untagged=name in self._untagged)
            for name in groups
            if name in own
        }

    def check_own(self, *groups: str) -> list[str]:
        """Return AWS's names of groups; by default of all existing ones.

        Raises `ForeignResources`; `ClusterError` for a missing group.
        """
        asked = groups or tuple(self._names)
        if not self._own.issuperset(asked):
            self.describe()
        self._refuse_foreign(asked)
        gone = [group for group in groups if group not in self._own]
        if gone:
            raise groups_gone(self._cluster, gone)
        return [self._names[group] for group in asked if group in self._own]

    def _refuse_foreign(self, groups: Iterable[str]) -> None:
        foreign = {self._names[one]: self._foreign[one] for one in groups if one in self._foreign}
        if foreign:
            raise foreign_groups(self._cluster, foreign, self._tags)

    def failures(self, group: str) -> list[tuple[datetime.datetime, LaunchProblem]]:
        """Return times and reasons of a group's recent launch failures, in one call, or two if the
        account's plan lacks the type.

        Permission needed: ``autoscaling:DescribeScalingActivities``.
        """
        response = self._client.describe_scaling_activities(
            AutoScalingGroupName=self._names[group], MaxRecords=_ACTIVITIES
        )
        failed = launch_failures(response["Activities"])
        problems = with_eligible([problem for _, problem in failed], self._aws)
        return [(at, problem) for (at, _), problem in zip(failed, problems, strict=True)]

    def activities(self, group: str, since: datetime.datetime) -> list[Mapping[str, Any]]:
        """Return a group's activities since a time in AWS's form, newest first.

        Permission needed: ``autoscaling:DescribeScalingActivities``.
        """
        found, _ = activities_since(self._client, self._names[group], since)
        return found

    def set_desired(self, group: str, n: int) -> None:
        """Request `n` instances, even below a minimum, which becomes 0. Returns once AWS has
        accepted the number, before the instances exist.

        Raises `ClusterError` where the group's maximum is smaller.
        """
        from botocore.exceptions import ClientError

        (name,) = self.check_own(group)
        try:
            try:
                self._client.set_desired_capacity(
                    AutoScalingGroupName=name, DesiredCapacity=n, HonorCooldown=False
                )
            except ClientError as error:
                beyond_limits(self._client, name, n, error)
        except AccessDenied as error:
            if group in self._untagged:
                raise tags_missing(self._cluster, name, self._tags) from error
            raise

    def resume(self, state: Mapping[str, Group]) -> dict[str, Group]:
        """Resume what AWS itself suspended, where the caller may, but not what a caller suspended;
        return the groups as they are then.

        Permission needed: ``autoscaling:ResumeProcesses``.
        """
        resumed = dict(state)
        for group, found in state.items():
            if not found.suspended_by_aws:
                continue
            (name,) = self.check_own(group)
            with contextlib.suppress(AccessDenied):
                self._client.resume_processes(
                    AutoScalingGroupName=name, ScalingProcesses=list(found.suspended_by_aws)
                )
                resumed[group] = found.resumed()
        return resumed

    def clear_minimum(self, group: str) -> None:
        """Reset a group's minimum that was raised outside terradask."""
        (name,) = self.check_own(group)
        self._client.update_auto_scaling_group(AutoScalingGroupName=name, MinSize=0)

    def zero(self, state: Mapping[str, Group] | None = None) -> None:
        """Set every group to zero, even below a minimum. Raises `ForeignResources`."""
        found = (self.describe() if state is None else state).items()
        side_by_side([partial(self._zero, *each) for each in found], _PARALLEL_GROUPS)
        # After the cluster's own, which cost money.
        self._refuse_foreign(self._names)

    def _zero(self, name: str, group: Group) -> None:
        # terradask protects no instance for long.
        # AWS (documented): Auto Scaling ends no protected instance if a group's number is lowered.
        # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-instance-protection.html
        self._unprotect(
            name, [m.instance_id for m in group.members if m.protected and m.in_service]
        )
        if group.desired or group.active_ids:
            self.set_desired(name, 0)

    def set_watchdog(self, minutes: float = WATCHDOG_MINUTES) -> None:
        """Set the watchdog schedule: each group goes to zero in so many minutes, unless the
        scheduler's host postpones it.

        It also ends a cluster whose scheduler never started, without any process of terradask.
        """
        start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
        self._each(
            lambda name: self._client.put_scheduled_update_group_action(
                AutoScalingGroupName=name,
                ScheduledActionName=watchdog_action(name),
                StartTime=start,
                # Overrides a later minimum.
                MinSize=0,
                DesiredCapacity=0,
            )
        )

    def remove_watchdog(self) -> None:
        """Remove the watchdog schedule, so that it can't end a later run."""
        self._each(lambda name: unschedule(self._client, name, [watchdog_action(name)]))

    def clear_schedules(self) -> None:
        """Remove foreign schedules of the groups, and minimums that they raised."""

        def clear(name: str) -> bool:
            foreign = {*scheduled_actions(self._client, name)} - {watchdog_action(name)}
            unschedule(self._client, name, sorted(foreign))
            return bool(foreign)

        if any(self._each(clear)):
            self.zero()

    def _each(self, call: Callable[[str], Any]) -> list[Any]:
        """Make a call for each group in parallel."""
        return side_by_side([partial(call, one) for one in self.check_own()], _PARALLEL_GROUPS)

    def tag(
        self,
        tags: Mapping[str, str],
        of_groups: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """Set volatile tags on every group, and some on single ones, propagated to new instances,
        and restore missing cluster tags.
        """
        self.check_own()
        self._client.create_or_update_tags(
            Tags=[
                {
                    "ResourceId": self._names[group],
                    "ResourceType": "auto-scaling-group",
                    "Key": key,
                    "Value": value,
                    "PropagateAtLaunch": True,
                }
                for group in sorted(self._own)
                for key, value in {
                    **self._lost_tags(group),
                    **tags,
                    **of_groups.get(group, {}),
                }.items()
            ]
        )
        self._untagged = set()

    def _lost_tags(self, group: str) -> dict[str, str]:
        if group not in self._untagged:
            return {}
        role = SCHEDULER_GROUP if group == SCHEDULER_GROUP else "worker"
        return {**self._tags, TAG_ROLE: role, TAG_GROUP: group}

    def _unprotect(self, group: str, instance_ids: Sequence[str]) -> None:
        if instance_ids:
            self.check_own(group)
        for batch in batches(instance_ids, _PROTECTION_BATCH):
            # AWS (asg-protection)
            if not self._unprotected(group, batch) and len(batch) > 1:
                for instance_id in batch:
                    self._unprotected(group, [instance_id])

    def _unprotected(self, group: str, instance_ids: Sequence[str]) -> bool:
        """Remove protection, and return whether all of them are in the group."""
        from botocore.exceptions import ClientError

        try:
            self._client.set_instance_protection(
                AutoScalingGroupName=self._names[group],
                InstanceIds=list(instance_ids),
                ProtectedFromScaleIn=False,
            )
        except ClientError as error:
            if has_left(error):
                return False
            raise
        return True
