"""A cluster's stack as JSON: structure without numbers, on a baseline that is read when it is
planned.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from terradask_modules.errors import InvalidInput
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize

from .conftest import ACCOUNT, CREATOR, lock_file

Document = dict[str, Any]


def group(document: Document, name: str) -> Any:
    return document["resource"]["aws_autoscaling_group"][name]


@pytest.mark.parametrize(("name", "max_size"), [("scheduler", 1), ("workers", 200)])
def test_groups_own_structure_and_no_numbers(cluster: Document, name: str, max_size: int) -> None:
    body = group(cluster, name)

    assert (
        body | {"name": f"terradask-default-etl-{name}", "min_size": 0, "max_size": max_size}
        == body
    )
    assert "desired_capacity" not in body
    assert body["lifecycle"] == {"ignore_changes": ["desired_capacity"]}
    assert body["force_delete"] is True
    assert body["wait_for_capacity_timeout"] == "0"
    assert body["suspended_processes"] == ["AZRebalance"]
    assert body["termination_policies"] == ["NewestInstance"]
    assert len(body["vpc_zone_identifier"]) == 1


def test_prepared_hosts_are_a_pool_of_an_absolute_size_with_a_hook(tmp_path: Path) -> None:
    groups = {
        "big": {"standby": 3, "vm_types": ["r6i.xlarge"], "spot_policy": "on-demand"},
        "odd": {"vm_types": ["r6i.xlarge"]},
    }
    settings = Settings(
        cluster=ClusterSettings.model_validate(
            {"standby": 2, "spot_policy": "spot_with_fallback", "worker_groups": groups}
        )
    )
    lock = lock_file(cluster=settings.cluster)
    written = synthesize(
        settings, lock, out_dir=tmp_path, stacks=["etl"], clusters={"etl": settings.cluster}
    )
    document = json.loads((written["etl"] / "cdk.tf.json").read_text())
    body = group(document, "workers")
    assert body["warm_pool"] == {
        "max_group_prepared_capacity": 2,
        "min_size": 2,
        "pool_state": "Stopped",
    }
    (hook,) = body["initial_lifecycle_hook"]
    assert hook["name"] == body["name"]
    assert hook["default_result"] == "CONTINUE"
    tags = {tag["key"]: tag["value"] for tag in body["tag"]}
    assert tags["terradask:warm-pool"] == body["name"]
    assert group(document, "big")["warm_pool"]["min_size"] == 3
    for other in ("scheduler", "workers-spot", "odd", "odd-spot"):
        assert "warm_pool" not in group(document, other)
        assert "initial_lifecycle_hook" not in group(document, other)


def test_templates_are_named_by_number(cluster: Document) -> None:
    for name in ("scheduler", "workers"):
        specification = group(cluster, name)["mixed_instances_policy"]["launch_template"][
            "launch_template_specification"
        ]
        assert specification["version"].endswith(".version}")


def test_types_keep_their_order(cluster: Document) -> None:
    policy = group(cluster, "workers")["mixed_instances_policy"]

    assert [each["instance_type"] for each in policy["launch_template"]["override"]] == [
        "m6i.xlarge",
        "m5.xlarge",
    ]
    assert policy["instances_distribution"]["on_demand_allocation_strategy"] == "prioritized"


@pytest.mark.parametrize(
    ("policy", "markets"),
    [
        ("on-demand", {"workers": "on-demand"}),
        ("spot", {"workers-spot": "spot"}),
        ("spot_with_fallback", {"workers": "on-demand", "workers-spot": "spot"}),
    ],
)
def test_workers_have_a_group_for_each_market(
    synth: Any, policy: str, markets: dict[str, str]
) -> None:
    document = synth("etl", cluster={"spot_policy": policy, "max_workers": 30})
    descriptor = json.loads(document["resource"]["aws_s3_object"]["descriptor"]["content"])
    share = {"on-demand": 100, "spot": 0}

    assert {key: entry["market"] for key, entry in descriptor["groups"].items()} == {
        "scheduler": "on-demand",
        **markets,
    }
    for key, market in markets.items():
        body = group(document, key)
        distribution = body["mixed_instances_policy"]["instances_distribution"]
        assert (body["name"], body["max_size"]) == (f"terradask-default-etl-{key}", 30)
        assert distribution["on_demand_percentage_above_base_capacity"] == share[market]
        assert distribution.get("spot_allocation_strategy") == (
            "price-capacity-optimized" if market == "spot" else None
        )
        assert {"key": "terradask:group", "value": key, "propagate_at_launch": True} in body["tag"]


def test_a_group_of_workers_with_a_name_has_types_a_limit_and_markets_of_its_own(
    synth: Any,
) -> None:
    gpu = {
        "vm_types": ["g4dn.xlarge"],
        "max_workers": 3,
        "spot_policy": "spot_with_fallback",
        "resources": {"GPU": 1},
    }
    document = synth("etl", cluster={"worker_groups": {"gpu": gpu}})
    entries = json.loads(document["resource"]["aws_s3_object"]["descriptor"]["content"])["groups"]

    assert (
        sorted(entries)
        == sorted(document["resource"]["aws_autoscaling_group"])
        == ["gpu", "gpu-spot", "scheduler", "workers"]
    )
    assert (entries["workers"]["worker_group"], entries["workers"]["resources"]) == ("workers", {})
    for key in ("gpu", "gpu-spot"):
        body = group(document, key)
        assert (body["name"], body["max_size"]) == (f"terradask-default-etl-{key}", 3)
        assert body["mixed_instances_policy"]["launch_template"]["override"] == [
            {"instance_type": "g4dn.xlarge"}
        ]
        assert {"key": "terradask:group", "value": key, "propagate_at_launch": True} in body["tag"]
        assert {"key": "terradask:role", "value": "worker", "propagate_at_launch": True} in body[
            "tag"
        ]
        assert (entries[key]["role"], entries[key]["worker_group"], entries[key]["resources"]) == (
            "worker",
            "gpu",
            {"GPU": 1.0},
        )


def test_workers_in_several_zones_are_launched_in_a_subnet_of_each(tmp_path: Path) -> None:
    zones = ["us-east-1a", "us-east-1b"]
    settings = Settings(cluster=ClusterSettings(allow_cross_zone=True))
    locked = lock_file()
    lock = locked.with_cluster(
        "etl",
        locked.clusters["etl"].model_copy(
            update={"worker_zones": {"workers": zones}, "zone": "us-east-1b"}
        ),
    )
    written = synthesize(
        settings, lock, out_dir=tmp_path, stacks=["etl"], clusters={"etl": settings.cluster}
    )
    document: Document = json.loads((written["etl"] / "cdk.tf.json").read_text())

    subnets = group(document, "workers")["vpc_zone_identifier"]
    assert [zone in subnet for zone, subnet in zip(zones, subnets, strict=True)] == [True, True]
    # Moved from zone to zone, hosts would end with what they hold.
    assert group(document, "workers")["suspended_processes"] == ["AZRebalance"]
    (subnet,) = group(document, "scheduler")["vpc_zone_identifier"]
    assert '"us-east-1b"' in subnet
    descriptor = json.loads(document["resource"]["aws_s3_object"]["descriptor"]["content"])
    assert {key: entry["zones"] for key, entry in descriptor["groups"].items()} == {
        "scheduler": ["us-east-1b"],
        "workers": zones,
    }
    assert descriptor["zone"] == "us-east-1b"
    conditions = [
        each["condition"]
        for each in document["data"]["aws_s3_object"]["baseline"]["lifecycle"]["postcondition"]
    ]
    assert all(any(f'"{zone}"' in condition for condition in conditions) for zone in zones)


def test_instances_learn_who_they_are_from_tags(cluster: Document) -> None:
    tags = {each["key"]: each["value"] for each in group(cluster, "workers")["tag"]}

    assert all(each["propagate_at_launch"] for each in group(cluster, "workers")["tag"])
    assert tags == {
        "team": "research",
        "job": "7",
        "terradask:workspace": "default",
        "terradask:cluster": "etl",
        "terradask:role": "worker",
        "terradask:group": "workers",
    }


def test_a_runs_tags_are_nobodys_drift(cluster: Document, network: Document) -> None:
    for document in (cluster, network):
        assert document["provider"]["aws"][0]["ignore_tags"] == [
            {"key_prefixes": ["terradask:run:"]}
        ]


def test_hosts_lie_where_the_network_says(cluster: Document) -> None:
    assert ".worker_subnet_id" in group(cluster, "workers")["vpc_zone_identifier"][0]
    assert ".scheduler_subnet_id" in group(cluster, "scheduler")["vpc_zone_identifier"][0]


def test_the_state_lies_in_the_bucket_and_is_locked_there(cluster: Document) -> None:
    assert cluster["terraform"]["backend"]["s3"] == {
        "bucket": "terradask-default-123456789012-us-east-1",
        "key": "clusters/etl/terraform.tfstate",
        "region": "us-east-1",
        # Terraform's own list of regions is older than AWS's.
        "skip_region_validation": True,
        "use_lockfile": True,
        "encrypt": True,
    }


def test_the_state_is_encrypted_as_the_bucket_says(
    cluster: Document, network: Document, synth: Any
) -> None:
    # A backend that asks for encryption names a key, and without one S3's own: the bucket's default
    # would not count.
    key = "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
    backend = synth("etl", network={"kms_key_arn": key})["terraform"]["backend"]["s3"]
    assert (backend["encrypt"], backend["kms_key_id"]) == (True, key)
    assert "kms_key_id" not in cluster["terraform"]["backend"]["s3"]
    kinds = network["resource"]["aws_s3_bucket_server_side_encryption_configuration"]
    (rule,) = kinds["workspace"]["rule"]
    default = rule["apply_server_side_encryption_by_default"]
    assert default["sse_algorithm"] == "AES256"
    for each in network["resource"]["aws_s3_object"].values():
        assert each["server_side_encryption"] == "AES256"
        assert "kms_key_id" not in each
    own = synth("network", network={"kms_key_arn": key})["resource"]["aws_s3_object"]
    for each in own.values():
        assert (each["server_side_encryption"], each["kms_key_id"]) == ("aws:kms", key)


def test_the_secret_is_empty_and_gives_its_name_back(cluster: Document) -> None:
    secret = cluster["resource"]["aws_secretsmanager_secret"]["keys"]

    assert (secret["name"], secret["recovery_window_in_days"]) == ("terradask/default/etl", 0)
    assert "aws_secretsmanager_secret_version" not in cluster["resource"]


@pytest.mark.parametrize(
    ("isolation", "role"),
    [
        ("workspace", "body).roles.worker}"),
        ("cluster", ".isolated.role_name_prefix}terradask-default.etl-worker"),
    ],
)
def test_a_private_clusters_secret_says_who_reads_it(synth: Any, isolation: str, role: str) -> None:
    on_call = f"arn:aws:iam::{ACCOUNT}:role/team/on-call"
    private = {"private_to_creator": True, "secret_principals": [on_call]}
    found = synth("etl", workspace={"isolation": isolation}, cluster=private)["resource"]
    secret = found["aws_secretsmanager_secret"]["keys"]
    (statement,) = json.loads(secret["policy"])["Statement"]
    readers = statement["Condition"]["ArnNotLike"]["aws:PrincipalArn"]
    assert {CREATOR, on_call} <= set(readers)
    assert [reader for reader in readers if reader.endswith(role)] == readers[-1:]
    content = found["aws_s3_object"]["descriptor"]["content"]
    digest = hashlib.sha256(content.encode()).hexdigest()
    assert secret["tags"]["terradask:descriptor"] == digest


def test_a_cluster_that_is_not_private_leaves_its_secret_to_iam(cluster: Document) -> None:
    assert "policy" not in cluster["resource"]["aws_secretsmanager_secret"]["keys"]


def test_a_private_cluster_without_a_creator_is_not_synthesised(tmp_path: Path) -> None:
    settings = Settings.model_validate({"cluster": {"private_to_creator": True}})
    with pytest.raises(InvalidInput, match="name none"):
        synthesize(
            settings,
            lock_file(),
            out_dir=tmp_path,
            stacks=["etl"],
            clusters={"etl": settings.cluster},
        )


def test_the_provider_is_the_one_in_the_lock_file(cluster: Document, network: Document) -> None:
    for document in (cluster, network):
        assert document["terraform"]["required_providers"]["aws"] == {
            "source": "hashicorp/aws",
            "version": "5.100.0",
        }
        assert document["terraform"]["required_version"] == ">= 1.11.0"


def test_the_descriptor_is_the_contracts(cluster: Document) -> None:
    document = json.loads(cluster["resource"]["aws_s3_object"]["descriptor"]["content"])

    assert set(document) == {
        *(
            "format",
            "terradask_version",
            "workspace",
            "cluster",
            "region",
            "bucket",
            "zone",
            "groups",
        ),
        *("secret_id", "scheduler", "worker", "settings", "lock"),
    }
    scheduler = {
        "class": "distributed.Scheduler",
        "options": {},
        "port": 8786,
        "dashboard_port": 8787,
        "extra_worker": False,
        "performance_report": "without_source",
        "metrics": "off",
    }
    assert document["scheduler"] == scheduler
    assert document["worker"] == {
        "class": "distributed.Nanny",
        "options": {},
        "workers_per_host": 1,
    }
    assert document["groups"]["workers"]["autoscaling_group"] == group(cluster, "workers")["name"]


def test_the_descriptor_shows_a_dashboard_over_https_where_it_is_asked_for(synth: Any) -> None:
    content = synth("etl", cluster={"use_dashboard_https": True})["resource"]["aws_s3_object"][
        "descriptor"
    ]["content"]
    assert json.loads(content)["scheduler"]["dashboard_https_port"] == 8788


def test_the_descriptor_comes_last_so_that_a_cluster_with_one_is_whole(cluster: Document) -> None:
    assert set(cluster["resource"]["aws_s3_object"]["descriptor"]["depends_on"]) == {
        "aws_secretsmanager_secret.keys",
        "aws_autoscaling_group.scheduler",
        "aws_autoscaling_group.workers",
    }
