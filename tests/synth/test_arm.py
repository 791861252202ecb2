"""Launch templates for ARM beside those for x86-64, and clusters that use them."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import IMAGES

ARM = {"worker_vm_types": ["m7g.xlarge"], "scheduler_vm_types": ["m7g.large"]}
BASELINE = "jsondecode(data.aws_s3_object.baseline.body)"


@pytest.fixture(scope="module")
def templates(synth: Any) -> dict[str, Any]:
    document: dict[str, Any] = synth("network", network={"architectures": ["x86_64", "arm64"]})
    found: dict[str, Any] = document["resource"]["aws_launch_template"]
    return {
        **found,
        "workspace.json": document["resource"]["aws_s3_object"]["workspace"]["content"],
    }


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_arms_templates_differ_in_name_and_image_alone(
    templates: dict[str, Any], role: str
) -> None:
    x86, arm = templates[f"{role}-x86_64"], templates[f"{role}-arm64"]
    differ = {key for key in x86 if x86[key] != arm[key] and key != "//"}
    assert differ == {"name", "image_id"}
    assert (arm["name"], x86["name"]) == (
        f"terradask-default-{role}-arm64",
        f"terradask-default-{role}",
    )
    assert (arm["image_id"], x86["image_id"]) == (IMAGES["arm64"], IMAGES["x86_64"])


def test_workspace_json_tells_of_both(templates: dict[str, Any]) -> None:
    content = templates["workspace.json"]
    for role in ("scheduler", "worker"):
        assert f"aws_launch_template.{role}-arm64.id" in content
        assert f"aws_launch_template.{role}-x86_64.id" in content
    assert (
        f'"image_ids" = {{"arm64" = "{IMAGES["arm64"]}", "x86_64" = "{IMAGES["x86_64"]}"}}'
        in content
    )


def test_given_images_are_taken(synth: Any) -> None:
    network = {
        "architectures": ["x86_64", "arm64"],
        "image": "ami-00000001",
        "arm64_image": "ami-00000002",
        "worker_disk_throughputs_mibps": [],
    }
    found = synth("network", network=network)["resource"]["aws_launch_template"]
    assert {
        name: template["image_id"] for name, template in found.items() if name.startswith("worker")
    } == {
        f"worker-{size}{architecture}": image
        for architecture, image in (("x86_64", "ami-00000001"), ("arm64", "ami-00000002"))
        for size in ("", "250-", "500-", "1000-")
    }


def test_a_network_without_arm_has_nothing_of_it(network: dict[str, Any]) -> None:
    templates = set(network["resource"]["aws_launch_template"])
    assert templates >= {"scheduler-x86_64", "worker-x86_64"}
    assert all(name.endswith("-x86_64") for name in templates)
    assert "arm64" not in str(network)


def test_a_cluster_on_arm_uses_its_templates_and_says_when_there_are_none(synth: Any) -> None:
    document = synth("etl", cluster=ARM)
    for name, role in (("scheduler", "scheduler"), ("workers", "worker")):
        policy = document["resource"]["aws_autoscaling_group"][name]["mixed_instances_policy"][
            "launch_template"
        ]
        specification = policy["launch_template_specification"]
        assert specification["launch_template_id"] == f"${{{BASELINE}.templates.{role}.arm64.id}}"
        assert specification["version"] == f"${{{BASELINE}.templates.{role}.arm64.version}}"
    conditions = document["data"]["aws_s3_object"]["baseline"]["lifecycle"]["postcondition"]
    (message,) = [
        one["error_message"]
        for one in conditions
        if 'templates.worker["arm64"]' in one["condition"]
    ]
    assert "no launch templates for arm64" in message
    assert "network.architectures" in message
    assert (
        '"architecture": "arm64"' in document["resource"]["aws_s3_object"]["descriptor"]["content"]
    )


@pytest.mark.parametrize(
    "sections",
    [
        {"workspace": {"isolation": "cluster"}, "cluster": ARM},
        {"cluster": {**ARM, "worker_disk_size": 200, "scheduler_disk_size": 20}},
    ],
)
def test_a_clusters_own_templates_are_for_its_architecture(
    synth: Any, sections: dict[str, Any]
) -> None:
    templates = synth("etl", **sections)["resource"]["aws_launch_template"]
    assert set(templates) == {"scheduler-arm64", "worker-arm64"}
    for role in ("scheduler", "worker"):
        template = templates[f"{role}-arm64"]
        assert template["name"] == f"terradask-default.etl-{role}-arm64"
        assert template["image_id"] == f"${{{BASELINE}.launch.image_ids.arm64}}"
        # AWS checks it against the offers of every zone when a group is made.
        assert "instance_type" not in template
