"""A security group rule keeps its description whatever its peer is.

moto keeps it where the peer is an address range, and loses it where it is a security group or a
prefix list; the Terraform provider then wants to set it again at every plan.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]


def install() -> None:
    """Replace moto's description of rules."""
    from moto.ec2.models.security_groups import SecurityGroupRule

    initialise = SecurityGroupRule.__init__

    def initialise_with_description(rule: Any, *args: Any, **kwargs: Any) -> None:
        initialise(rule, *args, **kwargs)
        prefix_list = kwargs.get("prefix_list_id") or (args[7] if len(args) > 7 else None) or {}
        peers = (rule.ip_range, rule.source_group, prefix_list)
        rule._embedded_description = next(
            (peer["Description"] for peer in peers if "Description" in peer), None
        )

    SecurityGroupRule.__init__ = initialise_with_description
    SecurityGroupRule.description = property(lambda rule: rule._embedded_description)
