"""A deployed cluster's structure against the arguments that speak of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask.errors import InvalidInput


def structure_given(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a cluster's settings that structural arguments speak of; of groups of workers what their tables speak of."""
    found = {name: settings[name] for name in given if name in settings}
    if "worker_groups" in found:
        tables, groups = given["worker_groups"], found["worker_groups"]
        found["worker_groups"] = {
            name: {key: groups[name][key] for key in table if key in groups[name] and key != "n_workers"}
            for name, table in tables.items()
            if name in groups
        }
    return found


def check_same_structure(cluster: str, wanted: Mapping[str, Any], deployed: Mapping[str, Any]) -> None:
    """Refuse to use a deployed cluster under other structural arguments than it has.

    Raises `InvalidInput`.
    """
    other = {k: v for k, v in wanted.items() if k in deployed and deployed[k] != v}
    if other:
        raise InvalidInput(
            f"Cluster {cluster!r} is deployed with other settings than were given.",
            given="; ".join(f"{k}={v!r}" for k, v in other.items()),
            allowed="; ".join(f"{k}={deployed[k]!r}" for k in other),
            advice=f"leave them out to use the cluster as it is, choose another name, or destroy it first: terradask destroy {cluster}",
        )
