"""Launches beyond the account's quotas of vCPUs are refused, once that is switched on.

moto counts no vCPUs. The quotas are those that Service Quotas answers with (`quotas`), by class of
instance family, on demand and spot apart:
https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from terradask_simulator.aws.fidelity.quotas import quota_value

__all__ = ["Enforcement", "check_vcpus", "vcpu_quota"]

_STANDARD = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")

#: Instance families -> the codes of their quotas, on demand and on spot; "" where there is none.
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
#: Of the P family, the fifth generation has a quota of its own on spot.
_P5_SPOT = "L-C4BD4855"


class Enforcement:
    """Whether quotas of vCPUs are enforced."""

    on = False


def vcpu_quota(instance_type: str, market: str) -> str:
    """Return the code of the quota that counts an instance's vCPUs on a market (``on-demand`` or
    ``spot``); empty where no quota does.
    """
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
    from moto.ec2.exceptions import EC2ClientError

    code = vcpu_quota(instance_type, market) if Enforcement.on else ""
    if not code:
        return
    limit = int(quota_value("ec2", code))
    if _in_use(backend, code) + count * _vcpus(instance_type) <= limit:
        return
    if market == "spot":
        # https://github.com/aws-deepracer-community/deepracer-on-the-spot/issues/55
        raise EC2ClientError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded.")
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html names the code;
    # the text is the one that scaling activities quote, as in
    # https://www.ctrlstack.com/resources/aws-flawed-silent-but-deadly-why-aws-errors-stink/
    raise EC2ClientError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows "
        "for the instance bucket that the specified "
        "instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to "
        "request an adjustment to this limit.",
    )


def _in_use(backend: Any, code: str) -> int:
    return sum(
        _vcpus(instance.instance_type)
        for instance in backend.all_instances()
        if instance.state in ("pending", "running")
        and vcpu_quota(instance.instance_type, instance.lifecycle or "on-demand") == code
    )


def _vcpus(instance_type: str) -> int:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return int(INSTANCE_TYPES.get(instance_type, {}).get("VCpuInfo", {}).get("DefaultVCpus", 0))
