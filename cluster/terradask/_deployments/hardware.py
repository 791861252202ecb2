"""The instance types in a deployed cluster's descriptor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP


def hardware_of(lock: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each group's locked instance types, what was asked for, and why they were chosen."""
    named = lock.get("group_instance_types") or {}
    types = {
        WORKER_GROUP: lock["worker_instance_types"],
        SCHEDULER_GROUP: lock["scheduler_instance_types"],
        **named,
    }
    asked, reasons = lock.get("asked") or {}, lock.get("reasons") or {}
    return {
        group: {"types": names, "asked": asked.get(group, {}), "reason": reasons.get(group, "")}
        for group, names in types.items()
    }
