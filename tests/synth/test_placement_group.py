"""A cluster placement group of the cluster's own, in which all of its groups launch."""

from __future__ import annotations

from typing import Any


def test_all_groups_launch_in_the_clusters_placement_group(synth: Any) -> None:
    groups = {"gpu": {"vm_types": ["g5.2xlarge"], "spot_policy": "spot_with_fallback"}}
    resources = synth(
        "etl",
        cluster={"placement_group": True, "worker_groups": groups, "tags": {"team": "research"}},
    )["resource"]
    placement = resources["aws_placement_group"]["hosts"]
    # The dot: workspaces' names may begin alike.
    assert (placement["name"], placement["strategy"]) == ("terradask-default.etl", "cluster")
    # Nobody has the right to change them.
    assert placement["tags"] == {"terradask:workspace": "default", "terradask:cluster": "etl"}
    placed = {
        name: group.get("placement_group")
        for name, group in resources["aws_autoscaling_group"].items()
    }
    # By reference: the placement group is gone after them.
    assert placed == dict.fromkeys(
        ["scheduler", "workers", "gpu", "gpu-spot"], "${aws_placement_group.hosts.name}"
    )


def test_nothing_is_placed_unasked(cluster: dict[str, Any]) -> None:
    assert "aws_placement_group" not in cluster["resource"]
    assert not any(
        "placement_group" in group
        for group in cluster["resource"]["aws_autoscaling_group"].values()
    )
