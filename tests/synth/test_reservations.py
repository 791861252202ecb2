"""Capacity reservations in Auto Scaling groups."""

from __future__ import annotations

from typing import Any

import pytest

from terradask_modules.errors import InvalidInput

RESERVATION = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/gpus"


def specifications(stack: dict[str, Any]) -> dict[str, Any]:
    return {
        name: group.get("capacity_reservation_specification")
        for name, group in stack["resource"]["aws_autoscaling_group"].items()
    }


def only(kind: str, target: str) -> dict[str, Any]:
    return {
        "capacity_reservation_preference": "capacity-reservations-only",
        "capacity_reservation_target": {kind: [target]},
    }


NEVER = {"capacity_reservation_preference": "none"}


def test_each_group_of_workers_targets_its_own_reservation(synth: Any) -> None:
    stack = synth(
        "etl",
        cluster={
            "capacity_reservation": RESERVATION,
            "worker_groups": {
                "gpu": {"vm_types": ["g5.2xlarge"], "capacity_reservation": GROUP},
                "more": {"vm_types": ["m5.large"]},
            },
        },
    )
    assert specifications(stack) == {
        # It takes none of what is counted for workers.
        "scheduler": NEVER,
        "workers": only("capacity_reservation_ids", RESERVATION),
        "gpu": only("capacity_reservation_resource_group_arns", GROUP),
        "more": None,
    }


@pytest.mark.parametrize(
    ("reservation", "scheduler", "workers"),
    [
        (None, None, None),
        ("none", NEVER, NEVER),
        ("open", None, {"capacity_reservation_preference": "capacity-reservations-first"}),
    ],
)
def test_reservations_that_are_not_named(
    synth: Any, reservation: str | None, scheduler: Any, workers: Any
) -> None:
    stack = synth("etl", cluster={"capacity_reservation": reservation})
    assert specifications(stack) == {"scheduler": scheduler, "workers": workers}


def test_a_capacity_block_is_in_a_template_of_the_clusters_own(synth: Any) -> None:
    resources = synth(
        "etl",
        cluster={
            "worker_vm_types": ["m6i.xlarge"],
            "worker_groups": {
                "gpu": {"vm_types": ["p5.48xlarge"], "capacity_reservation": RESERVATION}
            },
        },
        locked={"capacity_blocks": ["gpu"]},
    )["resource"]
    (template,) = resources["aws_launch_template"].values()
    assert template["instance_type"] == "p5.48xlarge"
    assert template["instance_market_options"] == {"market_type": "capacity-block"}
    groups = resources["aws_autoscaling_group"]
    # AWS supports no block in a group with a policy of several types.
    assert "mixed_instances_policy" not in groups["gpu"]
    assert groups["gpu"]["launch_template"] == {
        "id": "${aws_launch_template.worker-gpu-x86_64.id}",
        "version": "${aws_launch_template.worker-gpu-x86_64.latest_version}",
    }
    assert "launch_template" not in groups["workers"]
    assert groups["gpu"]["capacity_reservation_specification"] == only(
        "capacity_reservation_ids", RESERVATION
    )


@pytest.mark.parametrize("isolation", ["workspace", "cluster"])
def test_the_workers_block_is_not_that_of_other_groups(synth: Any, isolation: str) -> None:
    resources = synth(
        "etl",
        workspace={"isolation": isolation},
        cluster={
            "capacity_reservation": RESERVATION,
            "worker_groups": {"more": {"vm_types": ["m5.large"]}},
        },
        locked={"capacity_blocks": ["workers"]},
    )["resource"]
    in_block = {
        name
        for name, template in resources["aws_launch_template"].items()
        if "instance_market_options" in template
    }
    assert in_block == {"worker-x86_64"}
    groups = resources["aws_autoscaling_group"]
    assert "worker-x86_64" in groups["workers"]["launch_template"]["id"]
    other = groups["more"]["mixed_instances_policy"]["launch_template"]
    assert "worker-x86_64" not in str(other)


def test_hosts_of_a_capacity_block_are_not_kept_prepared(synth: Any) -> None:
    with pytest.raises(InvalidInput, match="capacity block can't be kept prepared: workers"):
        synth(
            "etl",
            cluster={"capacity_reservation": RESERVATION, "standby": 1},
            locked={"capacity_blocks": ["workers"]},
        )
