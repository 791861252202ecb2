"""Auto Scaling groups as AWS reports them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

#: AWS (recorded): the reason of a suspension that a caller made begins with these words.
#: https://github.com/cloud-custodian/cloud-custodian/tree/df800e9e94/tests/data/placebo/test_asg_suspend
#: AWS (believed): the reason of AWS's own suspensions has other words.
_SUSPENDED_BY_CALLER = "User suspended at"

#: States, without their steps, of members that a group replaces, or keeps beside its number.
#: AWS (documented): Retained instances don't count towards the desired capacity.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/manage-retained-instances.html
#: AWS (documented): Instances that go to Standby lower the desired capacity, or are replaced.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-enter-exit-standby.html
#: AWS (documented): An instance whose root volume is replaced keeps running, as a member.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/replace-root-volume.html
_NOT_COUNTED = frozenset(
    {
        "Detached",
        "Detaching",
        "EnteringStandby",
        "Standby",
        "Terminated",
        "Terminating",
        "Warmed",
    }
)


@dataclass(frozen=True)
class Member:
    """One instance of a group, as AWS reports it."""

    instance_id: str
    lifecycle_state: str
    protected: bool = False

    @property
    def active(self) -> bool:
        """Whether it counts towards the group's desired capacity.

        A member in a state that AWS adds later counts: else its running scheduler would be taken
        for dead, and a number would be lowered that ends it or another one.
        """
        state, _, step = self.lifecycle_state.partition(":")
        return state not in _NOT_COUNTED and step != "Retained"

    @property
    def in_service(self) -> bool:
        """Whether it is neither booting nor ending.

        AWS (reported, asg-protection): Auto Scaling protects InService instances only, and refuses
        the entire call for another one. https://github.com/guardian/riff-raff/pull/510,
        https://github.com/infrahouse/infrahouse-toolkit/issues/223
        """
        return self.lifecycle_state == "InService"


@dataclass(frozen=True)
class Group:
    """One group, as AWS reports it."""

    name: str
    desired: int
    max_size: int
    members: tuple[Member, ...] = ()
    #: Processes of Auto Scaling that are suspended here, such as ``Launch`` -> AWS's reason.
    suspended: Mapping[str, str] = field(default_factory=dict)
    #: AWS (asg-minimum); terradask's is 0.
    min_size: int = 0
    #: Whether its tags that name the cluster were removed.
    untagged: bool = False
    #: Instances that are kept prepared beside it, or are being prepared; no members.
    #: AWS (documented): A group's description has the present size of its warm pool.
    #: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AutoScalingGroup.html
    prepared: int = 0

    @classmethod
    def of(cls, name: str, found: Mapping[str, Any], *, untagged: bool = False) -> Self:
        """Create a group from AWS's description, with the cluster's own name of it."""
        return cls(
            name,
            found["DesiredCapacity"],
            found["MaxSize"],
            tuple(
                Member(
                    each["InstanceId"],
                    each["LifecycleState"],
                    bool(each.get("ProtectedFromScaleIn")),
                )
                for each in found["Instances"]
            ),
            suspended={
                each["ProcessName"]: each.get("SuspensionReason", "")
                for each in found.get("SuspendedProcesses", ())
            },
            min_size=found.get("MinSize", 0),
            untagged=untagged,
            prepared=found.get("WarmPoolSize") or 0,
        )

    @property
    def suspended_by_aws(self) -> tuple[str, ...]:
        """Processes that AWS itself suspended, after a day of failed launches."""
        return tuple(
            sorted(
                process
                for process, reason in self.suspended.items()
                if reason and not reason.startswith(_SUSPENDED_BY_CALLER)
            )
        )

    def resumed(self) -> Self:
        """Return the group without what AWS itself suspended."""
        left = {
            process: reason
            for process, reason in self.suspended.items()
            if process not in self.suspended_by_aws
        }
        return replace(self, suspended=left)

    @property
    def active_ids(self) -> tuple[str, ...]:
        """Instance ids of the members that count, in the group's order."""
        return tuple(m.instance_id for m in self.members if m.active)


def watchdog_action(autoscaling_group: str) -> str:
    """Return the name of a group's watchdog schedule, the scheduled action "desired 0"."""
    return f"{autoscaling_group}-dead-man"
