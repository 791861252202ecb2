"""Refuse launches with EC2's messages: for a pool without capacity, a vCPU quota, or the account's
state.

A pool is an instance type in a zone on a market. moto's pools are unlimited, it doesn't count
vCPUs, and lacks plans.

AWS (documented): Quotas of vCPUs are by class of instance family, separately for on demand and
spot. https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html

AWS (reported): EC2 refuses launches of pending and of blocked accounts with these messages.
https://github.com/LinkedInLearning/learning-terraform-3087701/issues/345,
https://github.com/UA-TECH-POWER/DDoS_terraform_aws/issues/5
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT
from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.quotas import quota_value
from terradask_simulator.aws.switchboard import Setting

__all__ = [
    "ACCOUNT_STATE",
    "ENFORCEMENT",
    "SHORTAGES",
    "STATES",
    "Shortage",
    "check_account",
    "check_capacity",
    "check_vcpus",
    "free_capacity",
    "offered",
    "plan_state",
    "vcpu_quota",
]


@dataclass(frozen=True)
class Shortage:
    """Pools without capacity, or with capacity for `beyond` instances in total; ``*`` matches
    anything. Markets: ``on-demand``, ``spot``.
    """

    instance_type: str = "*"
    zone: str = "*"
    market: str = "*"
    beyond: int = 0

    def covers(self, instance_type: str, zone: str, market: str) -> bool:
        """Return whether a pool is included."""
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and self.market in ("*", market)
        )


#: The current shortages.
SHORTAGES: list[Shortage] = []

#: Whether quotas of vCPUs are enforced.
ENFORCEMENT = Setting(on=False)

#: The state that keeps the account from launching; empty if it may launch.
ACCOUNT_STATE = Setting(state="")

#: State of an account -> the error's code and message.
STATES = {
    "free-plan": (
        "InvalidParameterCombination",
        "The specified instance type is not eligible for Free Tier. For a list of Free Tier "
        "instance types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'.",
    ),
    "unverified": (
        "PendingVerification",
        "Your request for accessing resources in this region is being validated, and you will not "
        "be able to launch additional resources in this region until the validation is complete.",
    ),
    "blocked": (
        "Blocked",
        "This account is currently blocked and not recognized as a valid account.",
    ),
    # AWS (documented): EC2's text of a launch that a policy denies.
    # https://repost.aws/knowledge-center/ec2-not-auth-launch
    "denied": (
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. User: arn:aws:sts::123456789012:"
        "assumed-role/AWSServiceRoleForAutoScaling/AutoScaling is not authorized to perform: "
        "ec2:RunInstances with an explicit deny in a service control policy. Encoded authorization "
        "failure message: 4GIOHlTkIaWHQD0Q0m6XSnuUMCm-abcdefgh",
    ),
}

_STANDARD = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")

#: Instance families -> the codes of their quotas, on demand and on spot; "" without one.
_CODES: Mapping[tuple[str, ...], tuple[str, str]] = {
    _STANDARD: ("L-1216C47A", "L-34B43A08"),
    ("dl",): ("L-6E869C2A", "L-85EED4F7"),
    ("f",): ("L-74FC7D96", "L-88CF9481"),
    ("g", "gr", "vt"): ("L-DB2E81BA", "L-3819A6DF"),
    ("hpc",): ("L-F7808C92", ""),
    ("u",): ("L-43DA4232", ""),
    ("inf",): ("L-1945791B", "L-B5D1601B"),
    ("p",): ("L-417A185B", "L-7212CCBC"),
    ("trn",): ("L-2C3B7624", "L-6B0D517C"),
    ("x",): ("L-7295265B", "L-E3A00192"),
}
#: P5 instances have their own quota on spot.
_P5_SPOT = "L-C4BD4855"

#: As quoted by a scaling activity: https://github.com/cortexlabs/cortex/issues/1258
_NO_SPOT = "There is no Spot capacity available that matches your request."


def check_account(instance_type: str) -> None:
    """Refuse a launch that the account's state doesn't allow."""
    state = ACCOUNT_STATE.state
    if state and not (state == "free-plan" and _type(instance_type).get("FreeTierEligible")):
        raise ec2_error(*STATES[state])


def plan_state() -> dict[str, str]:
    """Return the response to ``freetier:GetAccountPlanState``, a service that moto lacks."""
    plan = "FREE" if ACCOUNT_STATE.state == "free-plan" else "PAID"
    return {"accountId": ACCOUNT, "accountPlanType": plan, "accountPlanStatus": "ACTIVE"}


def vcpu_quota(instance_type: str, market: str) -> str:
    """Return the code of the quota that counts an instance's vCPUs on a market (``on-demand`` or
    ``spot``); empty without such a quota.
    """
    if market == "capacity-block":
        return ""
    if market == "spot" and instance_type.startswith("p5"):
        return _P5_SPOT
    found = re.match("[a-z]+", instance_type)
    family = found[0] if found else ""
    on_demand, spot = next(
        (codes for families, codes in _CODES.items() if family in families), ("", "")
    )
    return spot if market == "spot" else on_demand


def check_vcpus(backend: Any, instance_type: str, market: str, count: int) -> None:
    """Refuse a launch that would exceed a quota."""
    code = vcpu_quota(instance_type, market) if ENFORCEMENT.on else ""
    if not code:
        return
    limit = int(quota_value("ec2", code))
    if _in_use(backend, code) + count * _vcpus(instance_type) <= limit:
        return
    if market == "spot":
        # https://github.com/aws-deepracer-community/deepracer-on-the-spot/issues/55
        raise ec2_error("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded.")
    # AWS (documented): The code of a launch beyond the quota is VcpuLimitExceeded.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
    # AWS (reported): A scaling activity shows this message for a launch beyond the quota.
    # https://www.ctrlstack.com/resources/aws-flawed-silent-but-deadly-why-aws-errors-stink/
    raise ec2_error(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for "
        "the instance bucket that the specified instance type belongs to. Please visit "
        "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    )


def _in_use(backend: Any, code: str) -> int:
    return sum(
        _vcpus(instance.instance_type)
        for instance in _alive(backend)
        if vcpu_quota(instance.instance_type, instance.lifecycle or "on-demand") == code
    )


def _alive(backend: Any) -> list[Any]:
    return [one for one in backend.all_instances() if one.state in ("pending", "running")]


def _vcpus(instance_type: str) -> int:
    return int(_type(instance_type).get("VCpuInfo", {}).get("DefaultVCpus", 0))


def _type(instance_type: str) -> dict[str, Any]:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return INSTANCE_TYPES.get(instance_type, {})


def free_capacity(backend: Any, instance_type: str, zone: str, market: str) -> int | None:
    """Return the number of instances that a pool can still launch; None if unlimited."""
    capacities = [
        shortage.beyond - (_running(backend, shortage) if shortage.beyond else 0)
        for shortage in SHORTAGES
        if shortage.covers(instance_type, zone, market)
    ]
    return max(0, min(capacities)) if capacities else None


def check_capacity(backend: Any, instance_type: str, zone: str, market: str, count: int) -> None:
    """Refuse a launch for which a pool has no capacity."""
    left = free_capacity(backend, instance_type, zone, market)
    if left is not None and left < count:
        text = _NO_SPOT if market == "spot" else _on_demand_text(backend, instance_type, zone)
        raise ec2_error("InsufficientInstanceCapacity", text)


def _on_demand_text(backend: Any, instance_type: str, zone: str) -> str:
    # RunInstances' message, with the zones that still have capacity:
    # https://github.com/ray-project/ray/issues/48845.
    zones = [
        one.name
        for one in backend.describe_availability_zones()
        if instance_type in offered(backend.region_name, one.name)
    ]
    others = [
        one
        for one in zones
        if one != zone and free_capacity(backend, instance_type, one, "on-demand") != 0
    ]
    text = (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone "
        f"you requested ({zone}). Our system will be working on provisioning additional capacity."
    )
    if others:
        text += (
            f" You can currently get {instance_type} capacity by not specifying an Availability "
            f"Zone in your request or choosing {', '.join(others)}."
        )
    return text


def _running(backend: Any, shortage: Shortage) -> int:
    return sum(
        shortage.covers(one.instance_type, one.placement.zone or "", one.lifecycle or "on-demand")
        for one in _alive(backend)
        if getattr(one, "_embedded_reservation", None) is None
    )


@lru_cache
def offered(region: str, zone: str) -> frozenset[str]:
    """Return the instance types that a zone offers."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return frozenset(
        offering["InstanceType"] for offering in offerings if offering["Location"] == zone
    )
