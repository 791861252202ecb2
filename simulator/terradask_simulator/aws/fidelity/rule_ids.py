"""Revoking a security group rule that is gone says so by its id.

moto answers ``InvalidPermission.NotFound``, which the Terraform provider takes for a failure; AWS
answers ``InvalidSecurityGroupRuleId.NotFound``, which it takes for done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["install"]


def install() -> None:
    """Replace moto's revocations."""
    from moto.ec2.models.security_groups import SecurityGroupBackend

    for name, kept in (
        ("revoke_security_group_ingress", "ingress_rules"),
        ("revoke_security_group_egress", "egress_rules"),
    ):
        setattr(SecurityGroupBackend, name, _checked(getattr(SecurityGroupBackend, name), kept))


def _checked(revoke: Callable[..., Any], kept: str) -> Callable[..., Any]:
    from moto.ec2.exceptions import EC2ClientError

    def checked(backend: Any, group_name_or_id: str, *args: Any, **kwargs: Any) -> Any:
        group = backend.get_security_group_by_name_or_id(group_name_or_id, kwargs.get("vpc_id"))
        known = {rule.id for rule in getattr(group, kept)} if group is not None else set()
        for rule_id in kwargs.get("security_rule_ids") or []:
            if group is not None and rule_id not in known:
                raise EC2ClientError(
                    "InvalidSecurityGroupRuleId.NotFound",
                    f"The security group rule ID '{rule_id}' does not exist",
                )
        return revoke(backend, group_name_or_id, *args, **kwargs)

    return checked
