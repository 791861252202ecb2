"""The table of hosts: instances, and the processes that stand for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from terradask_simulator.aws.instances import InstanceView

__all__ = ["host_row"]


def host_row(
    instance: InstanceView, *, state: str, pid: int | None, log_path: Path
) -> dict[str, Any]:
    """Return an instance's row, with its process."""
    return {
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "role": instance.tags.get("terradask:role", ""),
        "cluster": instance.tags.get("terradask:cluster", ""),
        "group": instance.tags.get("terradask:group", ""),
        "state": state,
        "pid": pid,
        "private_address": instance.private_address,
        "public_address": instance.public_address,
        "log_path": str(log_path),
    }
