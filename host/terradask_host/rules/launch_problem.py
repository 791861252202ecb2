"""Reads from scaling activities why AWS launches nothing. Pure.

Users report texts such as ``Could not launch Spot Instances. UnfulfillableCapacity - Unable to
fulfill capacity due to your request configuration. Please adjust your request and try again.
Launching EC2 instance failed.``

AWS (documented, asg-launch-texts): A failed Auto Scaling activity has EC2's text on the launch,
often with its code. https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-capacity.html,
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-instancelaunchfailure.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html

AWS (documented): EC2 gives the reason of an instance's end as a code and a text.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "capacity",
    "reservation",
    "quota",
    "storage",
    "addresses",
    "unsupported",
    "key",
    "free-plan",
    "account",
    "denied",
    "other",
]

_KIND_OF_CODE: Mapping[str, Kind] = {
    "InsufficientCapacity": "capacity",
    "InsufficientInstanceCapacity": "capacity",
    "ReservationCapacityExceeded": "reservation",
    "InvalidCapacityReservationState.PendingActivation": "reservation",
    "SpotInstanceTermination": "capacity",
    "UnfulfillableCapacity": "capacity",
    "InstanceLimitExceeded": "quota",
    "MaxSpotInstanceCountExceeded": "quota",
    "VcpuLimitExceeded": "quota",
    "MaxIOPSLimitExceeded": "storage",
    "VolumeLimitExceeded": "storage",
    "InsufficientFreeAddressesInSubnet": "addresses",
    "InvalidFleetConfiguration": "unsupported",
    "Unsupported": "unsupported",
    "InvalidKMSKey.InvalidState": "key",
    # AWS (documented): Client.InternalError of a launching EC2 instance means a KMS key that Auto
    # Scaling may not use.
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-instancelaunchfailure.html
    "InternalError": "key",
    "Blocked": "account",
    "PendingVerification": "account",
    # AWS (documented): EC2 refuses a launch that a policy doesn't allow with UnauthorizedOperation,
    # "You are not authorized to perform this operation.", often with an encoded message.
    # https://repost.aws/knowledge-center/ec2-not-auth-launch
    "AccessDenied": "denied",
    "UnauthorizedOperation": "denied",
}

#: Texts that are more specific than their code.
_KIND_OF_PHRASE: Mapping[str, Kind] = {"not eligible for free tier": "free-plan"}

#: Texts without a code, in any case.
_CODE_OF_PHRASE = {
    r"do not have sufficient \S+ capacity": "InsufficientInstanceCapacity",
    "no spot capacity available": "InsufficientInstanceCapacity",
    "requested reservation does not have sufficient": "ReservationCapacityExceeded",
    "capacity block is not active": "InvalidCapacityReservationState.PendingActivation",
    "unable to fulfill capacity": "UnfulfillableCapacity",
    "max spot instance count exceeded": "MaxSpotInstanceCountExceeded",
    "more vcpu capacity than your current vcpu limit": "VcpuLimitExceeded",
    r"instance\(s\) are already running": "InstanceLimitExceeded",
    "not enough free addresses in subnet": "InsufficientFreeAddressesInSubnet",
    "insufficient free addresses": "InsufficientFreeAddressesInSubnet",
    "is not supported in your requested availability zone": "Unsupported",
    "requested configuration is currently not supported": "Unsupported",
    "not eligible for free tier": "InvalidParameterCombination",
    "account is currently being verified": "PendingVerification",
    "accessing resources in this region is being validated": "PendingVerification",
    "account is currently blocked": "Blocked",
    "you are not authorized to": "UnauthorizedOperation",
}
_CODED = re.compile(
    r"^(?:Could not launch (?:Spot|On-Demand) Instances\.\s*)?(?P<code>[A-Z][A-Za-z.]+) - "
    r"(?P<text>.+)$",
    re.DOTALL,
)
#: ``Instance became unhealthy while waiting for instance to be in InService state. Termination
#: Reason: Client.VolumeLimitExceeded: Volume limit exceeded``
_TERMINATED = re.compile(
    r"Termination Reason: (?:Client|Server)\.(?P<code>[A-Z][A-Za-z.]+): (?P<text>.+)$", re.DOTALL
)
#: Reasons of a requested end of an instance.
_ON_PURPOSE = frozenset(
    {
        "InstanceInitiatedShutdown",
        "InstanceTerminated",
        "UserInitiatedHibernate",
        "UserInitiatedShutdown",
    }
)
_ENDING = re.compile(r"\s*Launching EC2 instance failed\.?\s*$")
_TYPE = re.compile(
    r"sufficient ([a-z][a-z0-9-]*\.[a-z0-9-]+) capacity|instance type "
    r"\(([a-z][a-z0-9-]*\.[a-z0-9-]+)\)"
)


@dataclass(frozen=True)
class LaunchProblem:
    """Why a group's launch failed."""

    #: AWS's own, such as ``InsufficientInstanceCapacity``; ``LaunchFailed`` without one.
    code: str
    text: str
    #: The type that AWS names, if it names one.
    instance_type: str | None = None
    #: Types in the account's plan, if that is the problem and they are known.
    eligible: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """The missing part: capacity, a reservation's capacity, a quota, storage, addresses,
        support in the zone, rights to a key, a type in the account's plan, a permitted account, a
        right, or another.
        """
        low = self.text.lower()
        said = (kind for phrase, kind in _KIND_OF_PHRASE.items() if phrase in low)
        return next(said, _KIND_OF_CODE.get(self.code, "other"))

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def launch_failure(activity: Mapping[str, Any]) -> str | None:
    """Return AWS's text of a failed launch; None for other scaling activities.

    AWS (reported, asg-cancelled): Auto Scaling reports the launch of an instance that ended before
    it was in service as Cancelled. https://github.com/gruntwork-io/terratest/pull/693
    """
    text = activity.get("StatusMessage") or ""
    if activity["StatusCode"] == "Failed":
        return text or activity.get("Description")
    ended = _TERMINATED.search(text) if activity["StatusCode"] == "Cancelled" else None
    return text if ended is not None and ended["code"] not in _ON_PURPOSE else None


def read_problem(status_message: str) -> LaunchProblem:
    """Parse the text of a failed launch."""
    text = _ENDING.sub("", " ".join(status_message.split()))
    coded = _CODED.match(text) or _TERMINATED.search(text)
    if coded is not None:
        code, text = coded["code"].removeprefix("Client.").removeprefix("Server."), coded["text"]
    else:
        low = text.lower()
        found = (code for phrase, code in _CODE_OF_PHRASE.items() if re.search(phrase, low))
        code = next(found, "LaunchFailed")
    named = _TYPE.search(text)
    return LaunchProblem(code, text, None if named is None else named[1] or named[2])


def launch_failures(
    activities: Iterable[Mapping[str, Any]],
) -> list[tuple[datetime.datetime, LaunchProblem]]:
    """Return time and cause of failed launches from AWS's list of scaling activities."""
    return [
        (activity["StartTime"], read_problem(text))
        for activity in activities
        if (text := launch_failure(activity)) is not None
    ]


#: A problem is remembered for this long, as in Karpenter.
REMEMBERED_SECONDS = 180.0


class CapacityMemory:
    """AWS's recent launch failures, by group and, if AWS names it, by type."""

    def __init__(self, remembered_seconds: float = REMEMBERED_SECONDS) -> None:
        self._remembered_seconds = remembered_seconds
        self._at: dict[tuple[str, str | None], tuple[float, LaunchProblem]] = {}

    def note(self, group: str, problem: LaunchProblem, at: float) -> None:
        """Record a group's problem and its time in seconds."""
        known = self._at.get((group, problem.instance_type))
        if known is None or known[0] <= at:
            self._at[group, problem.instance_type] = (at, problem)

    def problems(self, group: str, now: float) -> tuple[LaunchProblem, ...]:
        """Return a group's problems that haven't expired, the newest first."""
        found = [
            (at, problem)
            for (name, _), (at, problem) in self._at.items()
            if name == group and now - at < self._remembered_seconds
        ]
        return tuple(problem for _, problem in sorted(found, key=lambda entry: -entry[0]))

    def exhausted(self, now: float) -> frozenset[str]:
        """Return the groups that AWS can't serve now: a launch, which tries every type, failed."""
        names = {name for name, _ in self._at}
        return frozenset(
            name
            for name in names
            if any(problem.kind != "other" for problem in self.problems(name, now))
        )
