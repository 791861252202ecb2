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
    document = {
        "format_version": "1.2",
        "resource_changes": list(resources),
        "configuration": {"root_module": configuration or {}},
        **more,
    }
    return whole(document)


def whole(document: dict[str, Any]) -> dict[str, Any]:
    """Return a small plan with a configuration and planned values of all that stays in it."""
    configured = {"configuration": {}, "planned_values": {}, **document}
    configuration, planned = configured["configuration"], configured["planned_values"]
    root = configuration.get("root_module") or {}
    known = {entry["address"] for entry in root.get("resources", [])}
    kept = [
        entry["address"]
        for entry in document["resource_changes"]
        if entry["mode"] == "managed" and entry["change"]["after"] is not None
    ]
    bare = dict.fromkeys(address.partition("[")[0] for address in kept)
    resources = [
        *root.get("resources", []),
        *({"address": one} for one in bare if one not in known and not one.startswith("module.")),
    ]
    values = {"resources": [{"address": one, "mode": "managed"} for one in kept]}
    return {
        **configured,
        "configuration": {**configuration, "root_module": {**root, "resources": resources}},
        "planned_values": {**planned, "root_module": values},
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
    """Return what the checks find; small plans aren't our stacks, so P8 is left out."""
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
