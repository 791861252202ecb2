"""Compares a deployed cluster's structure with the arguments. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask.errors import InvalidInput


def structure_given(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that structural arguments set; of worker groups, their tables' keys."""
    found = {name: settings[name] for name in given if name in settings}
    if "worker_groups" in found:
        tables, groups = given["worker_groups"], found["worker_groups"]
        found["worker_groups"] = {
            name: {
                key: groups[name][key]
                for key in table
                if key in groups[name] and key != "n_workers"
            }
            for name, table in tables.items()
            if name in groups
        }
    return found


def check_same_structure(
    cluster: str, wanted: Mapping[str, Any], deployed: Mapping[str, Any]
) -> None:
    """Check that structural arguments match the deployed cluster. Raises `InvalidInput`."""
    other = {k: v for k, v in wanted.items() if k in deployed and deployed[k] != v}
    if other:
        raise InvalidInput(
            f"Cluster {cluster!r} is deployed with settings other than the given ones.",
            given="; ".join(f"{k}={v!r}" for k, v in other.items()),
            allowed="; ".join(f"{k}={deployed[k]!r}" for k in other),
            advice=(
                "leave them out to use the cluster as deployed, choose another name, or "
                f"destroy it first: terradask destroy {cluster}"
            ),
        )
