"""A cluster with disks of its own has launch templates of its own; everything else of them is the
network's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from terradask_stacks.settings import ClusterSettings


@pytest.fixture(scope="module")
def stack(synth: Any) -> dict[str, Any]:
    document: dict[str, Any] = synth(
        "etl", cluster={"worker_disk_size": 200, "worker_disk_throughput": 800}
    )
    return document


def test_only_the_role_whose_disks_differ_has_a_template_of_its_own(stack: dict[str, Any]) -> None:
    resources = stack["resource"]
    assert set(resources["aws_launch_template"]) == {"worker-x86_64"}
    assert not {"aws_iam_role", "aws_security_group", "aws_iam_instance_profile"} & resources.keys()
    used = {
        name: group["mixed_instances_policy"]["launch_template"]["launch_template_specification"][
            "launch_template_id"
        ]
        for name, group in resources["aws_autoscaling_group"].items()
    }
    assert used["workers"] == "${aws_launch_template.worker-x86_64.id}"
    assert "data.aws_s3_object.baseline.body" in used["scheduler"]


def test_the_template_is_the_networks_but_for_the_disk(stack: dict[str, Any]) -> None:
    template = stack["resource"]["aws_launch_template"]["worker-x86_64"]
    assert template["name"] == "terradask-default.etl-worker"
    assert (
        template["tags"].items()
        >= {"terradask:workspace": "default", "terradask:cluster": "etl"}.items()
    )
    disk = template["block_device_mappings"][0]["ebs"]
    # 0.25 MiB/s for each of its IOPS.
    assert (disk["volume_size"], disk["throughput"], disk["iops"], disk["encrypted"]) == (
        200,
        800,
        3200,
        "true",
    )
    for expression, path in (
        (template["iam_instance_profile"]["name"], "instance_profiles.worker"),
        (template["network_interfaces"][0]["security_groups"][0], "security_groups.worker"),
        (template["image_id"], "launch.image_ids.x86_64"),
        (template["user_data"], "launch.user_data_base64"),
    ):
        assert expression == f"${{jsondecode(data.aws_s3_object.baseline.body).{path}}}"


def test_a_group_of_workers_has_disks_of_its_own_or_the_clusters(synth: Any) -> None:
    big = {"vm_types": ["r6i.xlarge"], "disk_size": 500}
    fast = {"vm_types": ["c6i.xlarge"], "disk_throughput": 250, "spot_policy": "spot_with_fallback"}
    plain = {"vm_types": ["m6i.xlarge"]}
    for own, isolation, expected in (
        ({}, "workspace", {"worker-big", "worker-fast"}),
        ({"worker_disk_size": 200}, "workspace", {"worker", "worker-big", "worker-fast"}),
        (
            {"worker_disk_size": 200},
            "cluster",
            {"scheduler", "worker", "worker-big", "worker-fast"},
        ),
    ):
        cluster = {**own, "worker_groups": {"big": big, "fast": fast, "plain": plain}}
        resources = synth("etl", workspace={"isolation": isolation}, cluster=cluster)["resource"]
        templates = {
            name.removesuffix("-x86_64"): template
            for name, template in resources["aws_launch_template"].items()
        }
        assert templates.keys() == expected
        assert templates["worker-big"]["name"] == "terradask-default.etl-worker-big"
        disks = {
            name: template["block_device_mappings"][0]["ebs"]
            for name, template in templates.items()
        }
        assert disks["worker-big"]["volume_size"] == 500
        assert ("throughput" in disks["worker-big"], disks["worker-fast"]["throughput"]) == (
            False,
            250,
        )
        size = disks["worker-fast"]["volume_size"]
        assert size == 200 if own else "disk_size_gib" in str(size)
        used = {
            name: group["mixed_instances_policy"]["launch_template"][
                "launch_template_specification"
            ]["launch_template_id"]
            for name, group in resources["aws_autoscaling_group"].items()
        }
        assert used["big"] == "${aws_launch_template.worker-big-x86_64.id}"
        assert used["fast"] == used["fast-spot"] == "${aws_launch_template.worker-fast-x86_64.id}"
        assert used["plain"] == used["workers"]


def test_the_network_has_to_let_it(stack: dict[str, Any], synth: Any) -> None:
    (message,) = [
        one["error_message"]
        for one in stack["data"]["aws_s3_object"]["baseline"]["lifecycle"]["postcondition"]
        if "cluster_launch_templates" in one["condition"]
    ]
    assert "worker_disk_size, worker_disk_throughput takes" in message
    for plain in (
        synth("etl"),
        synth("etl", workspace={"isolation": "cluster"}, cluster={"worker_disk_size": 200}),
    ):
        assert "cluster_launch_templates" not in json.dumps(plain)


def test_an_isolated_clusters_templates_have_its_disks(synth: Any) -> None:
    resources = synth(
        "etl", workspace={"isolation": "cluster"}, cluster={"scheduler_disk_size": 20}
    )["resource"]["aws_launch_template"]
    assert resources["scheduler-x86_64"]["block_device_mappings"][0]["ebs"]["volume_size"] == 20
    assert "disk_size_gib" in str(
        resources["worker-x86_64"]["block_device_mappings"][0]["ebs"]["volume_size"]
    )


def test_a_cluster_takes_larger_disks_from_the_network(synth: Any) -> None:
    stack = synth(
        "etl", cluster={"worker_disk_size": 200}, locked={"network_disks_gib": {"worker": 250}}
    )
    assert "aws_launch_template" not in stack["resource"]
    used = {
        name: group["mixed_instances_policy"]["launch_template"]["launch_template_specification"]
        for name, group in stack["resource"]["aws_autoscaling_group"].items()
    }
    body = "jsondecode(data.aws_s3_object.baseline.body)"
    assert used["workers"]["launch_template_id"] == f'${{{body}.disks.worker["250"].x86_64.id}}'
    assert used["scheduler"]["launch_template_id"] == f"${{{body}.templates.scheduler.x86_64.id}}"
    assert any(
        'disks.worker["250"]' in one["condition"]
        for one in stack["data"]["aws_s3_object"]["baseline"]["lifecycle"]["postcondition"]
    )


def test_a_cluster_takes_faster_disks_and_a_schedulers_from_the_network(synth: Any) -> None:
    stack = synth(
        "etl",
        cluster={"worker_disk_throughput": 500, "scheduler_disk_size": 100},
        locked={
            "network_disks_gib": {"scheduler": 250, "worker": None},
            "network_disks_mibps": {"scheduler": None, "worker": 500},
        },
    )
    assert "aws_launch_template" not in stack["resource"]
    used = {
        name: group["mixed_instances_policy"]["launch_template"]["launch_template_specification"]
        for name, group in stack["resource"]["aws_autoscaling_group"].items()
    }
    body = "jsondecode(data.aws_s3_object.baseline.body).disks"
    assert (used["workers"]["launch_template_id"], used["scheduler"]["launch_template_id"]) == (
        f'${{{body}.worker_throughputs["500"].usual.x86_64.id}}',
        f'${{{body}.scheduler["250"].x86_64.id}}',
    )
    conditions = {
        one["condition"]: one["error_message"]
        for one in stack["data"]["aws_s3_object"]["baseline"]["lifecycle"]["postcondition"]
    }
    for path, said in (
        ('worker_throughputs["500"]["usual"]["x86_64"]', "workers' disks of the usual size and"),
        ('scheduler["250"]["x86_64"]', "schedulers' disks of 250 GiB."),
    ):
        condition = f'${{try(jsondecode(self.body).disks.{path}.id, "") != ""}}'
        assert said in conditions[condition]


def test_a_scheduler_with_a_gpu_needs_no_template_for_the_workers_disks(synth: Any) -> None:
    stack = synth(
        "etl",
        cluster={"worker_disk_size": 200},
        locked={
            "network_disks_gib": {"worker": 250},
            "scheduler_instance_types": ["g4dn.xlarge"],
            "gpus": {"g4dn.xlarge": 1},
            "gpu_image": True,
        },
    )
    assert "gpu.templates.scheduler" in json.dumps(stack)
    assert "gpu.disks" not in json.dumps(stack)


def test_the_network_has_a_template_for_each_larger_and_faster_disk(synth: Any) -> None:
    templates = synth("network", network={"worker_disk_throughputs_mibps": [500, 1000]})[
        "resource"
    ]["aws_launch_template"]
    disks = {
        name.removesuffix("-x86_64"): template["block_device_mappings"][0]["ebs"]
        for name, template in templates.items()
    }
    usual = {"scheduler": 50, "scheduler-250": 250}
    sizes = {"worker": 100, "worker-250": 250, "worker-500": 500, "worker-1000": 1000}
    faster = {
        f"{name}-{mibps}mibps": (size, mibps, max(3000, 4 * mibps))
        for name, size in sizes.items()
        for mibps in (500, 1000)
    }
    assert {
        name: (disk["volume_size"], disk.get("throughput"), disk.get("iops"))
        for name, disk in disks.items()
    } == {name: (size, None, None) for name, size in {**usual, **sizes}.items()} | faster
    assert templates["worker-250-x86_64"]["name"] == "terradask-default-worker-250"
    fast = templates["worker-250-500mibps-x86_64"]
    assert fast["name"] == "terradask-default-worker-250-500mibps"


def test_workspace_json_says_whether(synth: Any) -> None:
    document = synth("network", network={"cluster_launch_templates": True})
    assert (
        '"cluster_launch_templates" = true'
        in document["resource"]["aws_s3_object"]["workspace"]["content"]
    )


@pytest.mark.parametrize(
    "said",
    [{"worker_disk_size": 7}, {"worker_disk_throughput": 100}, {"worker_disk_throughput": 1001}],
)
def test_disks_that_there_are_not_are_refused(said: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="disk"):
        ClusterSettings(**said)
