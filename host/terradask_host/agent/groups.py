"""A host's calls to its cluster's groups: leave, end the cluster, postpone the watchdog."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

from terradask_host.agent.aws import Aws, describe_error, error_code, passes
from terradask_host.end_once import NOT_NOW, end_while_there
from terradask_host.rules.autoscaling_groups import Group, watchdog_action
from terradask_host.rules.launch_problem import LaunchProblem, launch_failures
from terradask_host.rules.limits import WORKSPACE_TAG
from terradask_host.structure import Structure, worker_chains

#: Number of a group's newest activities to read: about a minute's. AWS (asg-retries)
_ACTIVITIES = 20

#: Pauses of a host that leaves: a minute in all, since nothing else waits for it.
LEAVING_PAUSES_SECONDS = (4.0, 8.0, 16.0, 32.0)
#: AWS (documented): ScalingActivityInProgress, such as of a launch, refuses the call.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_TerminateInstanceInAutoScalingGroup.html
_NOT_YET = NOT_NOW | {"ScalingActivityInProgress"}


class ClusterGroups:
    """The Auto Scaling groups of one cluster.

    Permissions: ``autoscaling:TerminateInstanceInAutoScalingGroup`` on the cluster's groups; for a
    scheduler's host also ``autoscaling:SetDesiredCapacity`` and ``PutScheduledUpdateGroupAction``
    on them, ``DescribeAutoScalingGroups`` and ``DescribeScalingActivities``.
    """

    def __init__(
        self,
        aws: Aws,
        cluster: Structure,
        log: Callable[[str], None],
        is_member: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self._aws = aws
        self._log = log
        #: Whether this instance is still in its group; None if that isn't known.
        self._is_member = is_member
        groups = self._groups = cluster.groups
        #: Auto Scaling group of workers -> the cluster's own name of it.
        self._workers = {
            group.autoscaling_group: key for key, group in groups.items() if group.role == "worker"
        }
        self._schedulers = {
            group.autoscaling_group for group in groups.values() if group.role == "scheduler"
        }
        self._chains = worker_chains(groups)
        # Schedulers last: this host is in one of their groups.
        self.names: list[str] = [
            groups[name].autoscaling_group
            for name in sorted(groups, key=lambda name: groups[name].role == "scheduler")
        ]

    def leave(
        self,
        instance_id: str,
        *,
        replaced: bool = False,
        pause: Callable[[float], object] | None = None,
    ) -> bool:
        """End this instance.

        By default its group's desired capacity is lowered, so that it isn't replaced. Return
        whether AWS agreed: if not, the instance still powers off, and its group decides about
        another. `pause` waits between tries, and raises once this instance is being ended.

        After an answer that leaves open whether AWS ended the instance (a lost one, an internal
        error), it tries again only as a known member: each call lowers the number once more.
        """

        def is_there(error: Exception) -> bool:
            member = self._is_member()
            if member is None and error_code(error) not in _NOT_YET:
                raise error
            return member is not False

        try:
            end_while_there(
                lambda: self._terminate(instance_id, replaced),
                is_there,
                lambda error: error_code(error) in _NOT_YET or passes(error),
                pause,
                LEAVING_PAUSES_SECONDS,
            )
        except Exception as error:  # noqa: BLE001 - the host leaves even if AWS refuses
            how = "to be replaced" if replaced else "with decrement"
            self._log(f"leaving {how} was refused: {describe_error(error)}")
            return False
        return True

    def of_workers(self) -> list[Group]:
        """Read the groups of workers in one call."""
        described = self._describe(self._workers)
        return [Group.of(self._workers[each["AutoScalingGroupName"]], each) for each in described]

    def worker_chains(self) -> dict[str, tuple[Group, ...]]:
        """Read the groups of workers, each with the Auto Scaling groups of its markets in order.

        Empty once the scheduler's group is at zero: the cluster is over, and no group may grow.
        """
        described = self._describe([*self._workers, *self._schedulers])
        if any(
            each["AutoScalingGroupName"] in self._schedulers and not each["DesiredCapacity"]
            for each in described
        ):
            return {}
        found = {
            self._workers[each["AutoScalingGroupName"]]: each
            for each in described
            if each["AutoScalingGroupName"] in self._workers
        }
        return {
            name: tuple(Group.of(key, found[key]) for key in keys if key in found)
            for name, keys in self._chains.items()
        }

    def describe_workspace(self, workspace: str) -> list[dict[str, Any]]:
        """Return AWS's description of all groups of the workspace, with a call for each hundred."""
        pages = self._aws.client("autoscaling").get_paginator("describe_auto_scaling_groups")
        ours = [{"Name": f"tag:{WORKSPACE_TAG}", "Values": [workspace]}]
        return [
            group
            for page in pages.paginate(Filters=ours)
            for group in page["AutoScalingGroups"]
            if not group.get("Status")
        ]

    def failures(self, group: str) -> list[tuple[datetime.datetime, LaunchProblem]]:
        """Return the time and cause of a group's recent failed launches, in one call."""
        response = self._aws.client("autoscaling").describe_scaling_activities(
            AutoScalingGroupName=self._groups[group].autoscaling_group, MaxRecords=_ACTIVITIES
        )
        return launch_failures(response["Activities"])

    def _describe(self, names: Iterable[str]) -> list[dict[str, Any]]:
        response = self._aws.client("autoscaling").describe_auto_scaling_groups(
            AutoScalingGroupNames=sorted(names)
        )
        described: list[dict[str, Any]] = response["AutoScalingGroups"]
        return described

    def end(self, instance_id: str, *, replaced: bool) -> None:
        """End another instance of the cluster; its group replaces it, or not."""
        end_while_there(
            lambda: self._terminate(instance_id, replaced),
            lambda _: any(instance_id in group.active_ids for group in self.of_workers()),
            lambda error: error_code(error) in NOT_NOW,
        )

    def _terminate(self, instance_id: str, replaced: bool) -> None:
        self._aws.client("autoscaling").terminate_instance_in_auto_scaling_group(
            InstanceId=instance_id, ShouldDecrementDesiredCapacity=not replaced
        )

    def stop_launching(self, group: str) -> None:
        """Set a group's desired capacity to the number of its instances."""
        for each in self.of_workers():
            if each.name == group and each.desired > len(each.active_ids):
                self.set_desired(group, len(each.active_ids))

    def set_desired(self, group: str, n: int) -> None:
        """Request `n` instances in a group of workers, by the cluster's own name of it."""
        self._set_desired(self._groups[group].autoscaling_group, n)

    def _set_desired(self, name: str, n: int) -> None:
        self._aws.client("autoscaling").set_desired_capacity(
            AutoScalingGroupName=name, DesiredCapacity=n, HonorCooldown=False
        )

    def zero(self) -> bool:
        """Set the desired capacity of each group to 0, workers first; return whether all did."""
        return self._apply_to_all(
            lambda name: self._set_desired(name, 0), " did not take desired capacity 0"
        )

    def move_watchdog(self, at: datetime.datetime) -> bool:
        """Move each group's scheduled action "minimum 0, desired 0"; return whether all took it."""

        def move(name: str) -> None:
            self._aws.client("autoscaling").put_scheduled_update_group_action(
                AutoScalingGroupName=name,
                ScheduledActionName=watchdog_action(name),
                StartTime=at,
                MinSize=0,
                DesiredCapacity=0,
            )

        return self._apply_to_all(move, ": the watchdog schedule was not postponed")

    def _apply_to_all(self, act: Callable[[str], None], trouble: str) -> bool:
        """Call `act` for each group, whether or not others fail; return whether all succeeded."""
        done = True
        for name in self.names:
            try:
                act(name)
            except Exception as error:  # noqa: BLE001 - the other groups are still to be done
                self._log(f"{name}{trouble}: {describe_error(error)}")
                done = False
        return done
