"""Small plans, and what policy finds in them."""

from __future__ import annotations

from datetime import date
from typing import Any

from terradask.policy import evaluate
from terradask_stacks.settings import PolicySettings

TODAY = date(2026, 11, 20)


def plan(
    *resources: dict[str, Any], configuration: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "format_version": "1.2",
        "resource_changes": list(resources),
        "configuration": {"root_module": configuration or {}},
        **more,
    }


def resource(
    address: str,
    after: dict[str, Any] | None,
    actions: tuple[str, ...] = ("create",),
    **change: Any,
) -> dict[str, Any]:
    kind, name = address.split(".")[-2:]
    held = {
        "actions": list(actions),
        "before": None,
        "after": after,
        "after_unknown": {},
        "after_sensitive": {},
        **change,
    }
    return {
        "address": address,
        "mode": "managed",
        "type": kind,
        "name": name.partition("[")[0],
        "change": held,
    }


def found(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the checks find; small plans aren't our stacks, and break the allow list (P8)."""
    return [
        (finding.check, finding.address)
        for finding in evaluate(document, settings=PolicySettings(), today=TODAY)
        if finding.check != "P8"
    ]


OPEN = {
    "security_group_id": "sg-1",
    "from_port": 443,
    "to_port": 443,
    "ip_protocol": "tcp",
    "cidr_ipv4": "0.0.0.0/0",
}
RULE = "aws_vpc_security_group_ingress_rule"
