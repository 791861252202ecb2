"""Why AWS launches nothing, told from the texts of scaling activities. Pure.

The texts are those of https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-capacity.html and ts-as-instancelaunchfailure.html, and
as people report them: ``Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request
configuration. Please adjust your request and try again. Launching EC2 instance failed.`` The codes are EC2's:
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["capacity", "quota", "addresses", "unsupported", "other"]

#: As long is a problem remembered; Karpenter's time for the same.
REMEMBERED_SECONDS = 180.0

_KIND_OF_CODE: Mapping[str, Kind] = {
    "InsufficientCapacity": "capacity",
    "InsufficientInstanceCapacity": "capacity",
    "ReservationCapacityExceeded": "capacity",
    "UnfulfillableCapacity": "capacity",
    "InstanceLimitExceeded": "quota",
    "MaxSpotInstanceCountExceeded": "quota",
    "VcpuLimitExceeded": "quota",
    "InsufficientFreeAddressesInSubnet": "addresses",
    "InvalidFleetConfiguration": "unsupported",
    "Unsupported": "unsupported",
}

#: Texts that come without a code.
_CODE_OF_PHRASE = (
    (re.compile(r"do not have sufficient \S+ capacity|no Spot capacity available", re.IGNORECASE), "InsufficientInstanceCapacity"),
    (re.compile(r"Unable to fulfill capacity", re.IGNORECASE), "UnfulfillableCapacity"),
    (re.compile(r"Max spot instance count exceeded", re.IGNORECASE), "MaxSpotInstanceCountExceeded"),
    (re.compile(r"more vCPU capacity than your current vCPU limit", re.IGNORECASE), "VcpuLimitExceeded"),
    (re.compile(r"instance\(s\) are already running", re.IGNORECASE), "InstanceLimitExceeded"),
    (re.compile(r"not enough free addresses in subnet|insufficient free addresses", re.IGNORECASE), "InsufficientFreeAddressesInSubnet"),
    (re.compile(r"is not supported in your requested Availability Zone", re.IGNORECASE), "Unsupported"),
)
_CODED = re.compile(r"^(?:Could not launch (?:Spot|On-Demand) Instances\.\s*)?(?P<code>[A-Z][A-Za-z.]+) - (?P<text>.+)$", re.DOTALL)
_ENDING = re.compile(r"\s*Launching EC2 instance failed\.?\s*$")
_TYPE = re.compile(r"sufficient ([a-z][a-z0-9-]*\.[a-z0-9-]+) capacity|instance type \(([a-z][a-z0-9-]*\.[a-z0-9-]+)\)")


@dataclass(frozen=True)
class LaunchProblem:
    """Why a group's launch failed.

    Parameters
    ----------
    code
        AWS's own, such as ``InsufficientInstanceCapacity``; ``LaunchFailed`` where it gives none.
    text
        What AWS says.
    instance_type
        The type that AWS names, if it names one.
    """

    code: str
    text: str
    instance_type: str | None = None

    @property
    def kind(self) -> Kind:
        """What is missing: capacity, a quota, addresses in the subnet, support for the type in the zone; or something else."""
        return _KIND_OF_CODE.get(self.code, "other")

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def read_problem(status_message: str) -> LaunchProblem:
    """Read the ``StatusMessage`` of a scaling activity that failed.

    Parameters
    ----------
    status_message
        AWS's text.

    Returns
    -------
    LaunchProblem
        Whatever the text is: what isn't known is told in AWS's words.
    """
    text = _ENDING.sub("", " ".join(status_message.split()))
    coded = _CODED.match(text)
    if coded is not None:
        code, text = coded["code"].removeprefix("Client.").removeprefix("Server."), coded["text"]
    else:
        code = next((code for phrase, code in _CODE_OF_PHRASE if phrase.search(text)), "LaunchFailed")
    named = _TYPE.search(text)
    return LaunchProblem(code, text, None if named is None else named[1] or named[2])


class CapacityMemory:
    """What AWS couldn't launch in the last minutes, by group and, where AWS names it, by type.

    Parameters
    ----------
    remembered_seconds
        How long a problem counts.
    """

    def __init__(self, remembered_seconds: float = REMEMBERED_SECONDS) -> None:
        self._remembered_seconds = remembered_seconds
        self._at: dict[tuple[str, str | None], tuple[float, LaunchProblem]] = {}

    def note(self, group: str, problem: LaunchProblem, at: float) -> None:
        """Remember a problem of a group, that it had at a time in seconds."""
        known = self._at.get((group, problem.instance_type))
        if known is None or known[0] <= at:
            self._at[group, problem.instance_type] = (at, problem)

    def problems(self, group: str, now: float) -> tuple[LaunchProblem, ...]:
        """Return what a group's problems are at a time in seconds, the newest first."""
        found = [(at, problem) for (name, _), (at, problem) in self._at.items() if name == group and now - at < self._remembered_seconds]
        return tuple(problem for _, problem in sorted(found, key=lambda entry: -entry[0]))

    def exhausted(self, now: float) -> frozenset[str]:
        """Return the groups that AWS can't serve now: a launch has failed, which tries every type of a group."""
        names = {name for name, _ in self._at}
        return frozenset(name for name in names if any(problem.kind != "other" for problem in self.problems(name, now)))
