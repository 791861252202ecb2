"""Why AWS launches nothing, read from the texts of scaling activities. Pure.

The texts are those of https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-capacity.html and
ts-as-instancelaunchfailure.html, and as people report them: ``Could not launch Spot Instances.
UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration. Please adjust
your request and try again. Launching EC2 instance failed.`` The codes are EC2's:
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["capacity", "quota", "addresses", "unsupported", "other"]

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

#: Texts that come without a code, whatever their case.
_CODE_OF_PHRASE = {
    r"do not have sufficient \S+ capacity": "InsufficientInstanceCapacity",
    "no spot capacity available": "InsufficientInstanceCapacity",
    "unable to fulfill capacity": "UnfulfillableCapacity",
    "max spot instance count exceeded": "MaxSpotInstanceCountExceeded",
    "more vcpu capacity than your current vcpu limit": "VcpuLimitExceeded",
    r"instance\(s\) are already running": "InstanceLimitExceeded",
    "not enough free addresses in subnet": "InsufficientFreeAddressesInSubnet",
    "insufficient free addresses": "InsufficientFreeAddressesInSubnet",
    "is not supported in your requested availability zone": "Unsupported",
}
_CODED = re.compile(
    r"^(?:Could not launch (?:Spot|On-Demand) Instances\.\s*)?(?P<code>[A-Z][A-Za-z.]+) - "
    r"(?P<text>.+)$",
    re.DOTALL,
)
_ENDING = re.compile(r"\s*Launching EC2 instance failed\.?\s*$")
_TYPE = re.compile(
    r"sufficient ([a-z][a-z0-9-]*\.[a-z0-9-]+) capacity|instance type "
    r"\(([a-z][a-z0-9-]*\.[a-z0-9-]+)\)"
)


@dataclass(frozen=True)
class LaunchProblem:
    """Why a group's launch failed."""

    #: AWS's own, such as ``InsufficientInstanceCapacity``; ``LaunchFailed`` where it gives none.
    code: str
    text: str
    #: The type that AWS names, if it names one.
    instance_type: str | None = None

    @property
    def kind(self) -> Kind:
        """What is missing: capacity, a quota, addresses, support in the zone, or something else."""
        return _KIND_OF_CODE.get(self.code, "other")

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def read_problem(status_message: str) -> LaunchProblem:
    """Read the ``StatusMessage`` of a scaling activity that failed."""
    text = _ENDING.sub("", " ".join(status_message.split()))
    coded = _CODED.match(text)
    if coded is not None:
        code, text = coded["code"].removeprefix("Client.").removeprefix("Server."), coded["text"]
    else:
        low = text.lower()
        found = (code for phrase, code in _CODE_OF_PHRASE.items() if re.search(phrase, low))
        code = next(found, "LaunchFailed")
    named = _TYPE.search(text)
    return LaunchProblem(code, text, None if named is None else named[1] or named[2])
