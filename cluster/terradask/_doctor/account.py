"""What `terradask doctor` looks for in the account: roles and keys that AWS acts with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask._aws.service_roles import AUTOSCALING, ServiceRole, find_service_roles
from terradask._doctor.finding import Finding
from terradask._doctor.volume_key import check_kms_key

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def check_service_roles(aws: Aws) -> Finding:
    """Look for the service-linked roles through which AWS launches instances. Only Auto Scaling's
    has to be there.

    Permission needed: ``iam:GetRole`` on them; without it nothing is found wrong.
    """
    roles = find_service_roles(aws)
    found = ", ".join(map(_describe, roles))
    missing = next(
        (role for role in roles if role.service == AUTOSCALING and role.exists is False), None
    )
    if missing is None:
        return Finding("service-roles", True, found)
    return Finding(
        "service-roles", False, found, f"terradask apply network makes it; or: {missing.command}"
    )


def check_volume_key(aws: Aws, key_arn: str | None) -> Finding:
    """Check that Auto Scaling may encrypt volumes with the customer's key, where there is one.

    Permissions needed: ``kms:DescribeKey``, ``kms:GetKeyPolicy``, ``kms:ListGrants`` on the key;
    without them nothing is found wrong.
    """
    if key_arn is None:
        return Finding("volume-key", True, "AWS's own (network.kms_key_arn is not set)")
    check = check_kms_key(aws, key_arn)
    if check.ok is False:
        return Finding("volume-key", False, check.found, check.fix or "correct network.kms_key_arn")
    return Finding("volume-key", True, check.found)


def _describe(role: ServiceRole) -> str:
    if role.exists is None:
        return f"{role.name} can't be seen by this caller"
    return f"{role.name} {'is there' if role.exists else 'is missing'}"
