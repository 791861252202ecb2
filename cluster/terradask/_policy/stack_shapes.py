"""The resources that terradask's stacks make, and their shapes: the allow list of check P8.

Held against every golden stack by a test, both ways: each stack fits, and nothing stands here that
no stack has.
"""

from __future__ import annotations

from terradask._policy.document_shapes import (
    ANY,
    BASELINE,
    CLUSTER_DOCUMENT,
    CLUSTERS_NAME,
    GROUP_TAGS,
    KEY_ARN,
    META,
    NAME,
    TAGS,
    WORKSPACE_DOCUMENT,
    baseline,
    may,
    must,
    to,
    with_key,
)
from terradask._policy.network_shapes import FIREWALL, NETWORK
from terradask._policy.shapes import All, Documents, Shape, TagBlocks, given, literal, number

_BASELINE_KEY = to(f"try({BASELINE}.kms_key_arn, null)")
_BASELINE_ENCRYPTION = to(f'try({BASELINE}.kms_key_arn, null) == null ? "AES256" : "aws:kms"')
_BUCKET = must(*to("aws_s3_bucket.workspace.id"))
_HOSTS_ROLE = "*{role_name}"
_BASELINE_ROLE = f"${{{BASELINE}.isolated.role_name_prefix}}{{role_name}}"
_BASELINE_PATH = baseline("isolated.role_path")

#: The other checks judge these.
_P3 = _P6 = must(ANY)
_P6_OR_NONE = may(ANY)

_CHECKED = {"lifecycle": may({"postcondition": must(ANY)})}

_IDENTITY: dict[str, Shape] = {
    "aws_iam_role": {
        "name": must(_HOSTS_ROLE, _BASELINE_ROLE),
        "description": must(ANY),
        "path": may("/*", *_BASELINE_PATH),
        "assume_role_policy": _P6,
        "force_detach_policies": must(True),
        "permissions_boundary": may(
            given("arn:{partition}:iam::*:policy/*"), *baseline("isolated.permissions_boundary")
        ),
        "tags": TAGS,
    },
    "aws_iam_role_policy": {
        "name": must(_HOSTS_ROLE, _BASELINE_ROLE),
        "role": must(*to("aws_iam_role.{name}.name")),
        "policy": _P6,
        **_CHECKED,
    },
    "aws_iam_policy": {
        "name": must("*terradask-{workspace}-hosts"),
        "description": must(ANY),
        "path": must("/*terradask/{workspace}/"),
        "policy": _P6,
        "tags": TAGS,
    },
    "aws_iam_instance_profile": {
        "name": must(_HOSTS_ROLE, _BASELINE_ROLE),
        "path": may("/*", *_BASELINE_PATH),
        "role": must(*to("aws_iam_role.{name}.name")),
        "tags": TAGS,
    },
}


def _kept_a_month(folder: str) -> Shape:
    return {
        "id": must(folder),
        "enabled": must(True),
        "prefix": must(f"{folder}/"),
        "expiration": must({"days": must(30)}),
        "noncurrent_version_expiration": must({"days": must(1)}),
    }


_STORAGE: dict[str, Shape] = {
    "aws_s3_bucket": {
        "bucket": must("{bucket}"),
        "force_destroy": must(True),
        "lifecycle_rule": must(
            All(
                {
                    "id": must("old-versions"),
                    "enabled": must(True),
                    "abort_incomplete_multipart_upload_days": must(7),
                    "noncurrent_version_expiration": must({"days": must(30)}),
                },
                _kept_a_month("environments"),
                _kept_a_month("reports"),
            )
        ),
        "tags": TAGS,
    },
    "aws_s3_bucket_public_access_block": {
        "bucket": _BUCKET,
        "block_public_acls": must(True),
        "block_public_policy": must(True),
        "ignore_public_acls": must(True),
        "restrict_public_buckets": must(True),
    },
    "aws_s3_bucket_ownership_controls": {
        "bucket": _BUCKET,
        "rule": must({"object_ownership": must("BucketOwnerEnforced")}),
    },
    "aws_s3_bucket_policy": {"bucket": _BUCKET, "policy": _P6, **META},
    "aws_s3_bucket_server_side_encryption_configuration": {
        "bucket": _BUCKET,
        "rule": must(
            {
                "apply_server_side_encryption_by_default": must(
                    {
                        "sse_algorithm": must("AES256", "aws:kms"),
                        "kms_master_key_id": with_key(given(KEY_ARN)),
                    }
                ),
                "bucket_key_enabled": with_key(True),
            }
        ),
    },
    "aws_s3_bucket_versioning": {
        "bucket": _BUCKET,
        "versioning_configuration": must({"status": must("Enabled")}),
    },
    "aws_s3_object": {
        "bucket": must(*_BUCKET.values, "{bucket}"),
        "key": must("workspace.json", "clusters/{cluster}/cluster.json", "host/{sha256}/*.whl"),
        "content": may(
            Documents({"workspace": WORKSPACE_DOCUMENT, "descriptor": CLUSTER_DOCUMENT})
        ),
        "content_type": must("application/json", "application/zip"),
        "source": may("host/terradask_host-*.whl"),
        "source_hash": may("{sha256}"),
        "tags": TAGS,
        "server_side_encryption": must("AES256", "aws:kms", *_BASELINE_ENCRYPTION),
        "kms_key_id": with_key(given(KEY_ARN), *_BASELINE_KEY),
        **META,
    },
    "aws_secretsmanager_secret": {
        "name": must("terradask/{workspace}/{cluster}"),
        "description": must(ANY),
        "kms_key_id": must(*_BASELINE_KEY),
        "policy": _P6_OR_NONE,
        "recovery_window_in_days": must(0),
        "tags": TAGS,
    },
}

_HOSTS: dict[str, Shape] = {
    "aws_launch_template": {
        "name": must(f"{NAME}-{{role}}*", f"{CLUSTERS_NAME}-{{role}}*"),
        "description": must(ANY),
        "image_id": must(given("ami-*"), *baseline("launch.image_ids.*", "launch.gpu_image_ids.*")),
        # P1 judges what is written out.
        "user_data": must(literal, *baseline("launch.user_data_base64")),
        "iam_instance_profile": must(
            {
                "arn": may(
                    *to(
                        "aws_iam_instance_profile.{role}.arn",
                        "data.aws_iam_instance_profile.{role}.arn",
                    )
                ),
                "name": may(*baseline("instance_profiles.{role}")),
            }
        ),
        "instance_initiated_shutdown_behavior": _P3,
        "update_default_version": must(True),
        "block_device_mappings": must(
            {
                "device_name": must("/dev/xvda"),
                "ebs": must(
                    {
                        "delete_on_termination": must("true"),
                        "encrypted": _P3,
                        "kms_key_id": with_key(given(KEY_ARN), *_BASELINE_KEY),
                        "volume_size": must(ANY),
                        "volume_type": must("gp3"),
                        "iops": may(number(1, 1_000_000)),
                        "throughput": may(number(1, 1_000_000)),
                    }
                ),
            }
        ),
        "metadata_options": must(
            {
                "http_endpoint": must("enabled"),
                "http_put_response_hop_limit": _P3,
                "http_tokens": _P3,
                "instance_metadata_tags": must("enabled"),
            }
        ),
        "network_interfaces": must(
            {
                "associate_public_ip_address": must(
                    "true", "false", *baseline("launch.public_address.{role}")
                ),
                "delete_on_termination": must("true"),
                "device_index": must(0),
                "security_groups": must(
                    *to("aws_security_group.{role}.id"),
                    *baseline(
                        "security_groups.{role}",
                        "isolated.security_groups.hosts",
                        "isolated.security_groups.{clients}",
                    ),
                    given("sg-*"),
                ),
            }
        ),
        "tag_specifications": must(
            {
                "resource_type": must("instance", "volume", "network-interface"),
                "tags": TAGS,
            }
        ),
        "tags": TAGS,
    },
    "aws_autoscaling_group": {
        "name": must("terradask-{workspace}-{cluster}-{name}"),
        "min_size": must(0),
        "max_size": must(number(0, 10_000)),
        "placement_group": may(*to("aws_placement_group.hosts.name")),
        "vpc_zone_identifier": must(*baseline('zones["*"].{role}_subnet_id')),
        "mixed_instances_policy": must(
            {
                "instances_distribution": must(
                    {
                        "on_demand_base_capacity": must(0),
                        "on_demand_percentage_above_base_capacity": must(0, 100),
                        "on_demand_allocation_strategy": may("prioritized"),
                        "spot_allocation_strategy": may("price-capacity-optimized"),
                    }
                ),
                "launch_template": must(
                    {
                        "launch_template_specification": must(
                            {
                                "launch_template_id": must(
                                    *to("aws_launch_template.{role}-*.id"),
                                    *baseline(
                                        "templates.{role}.*.id",
                                        'disks.{role}["*"].*.id',
                                        'disks.{role}_throughputs["*"].usual.*.id',
                                        'disks.{role}_throughputs["*"]["*"].*.id',
                                        "gpu.templates.{role}.*.id",
                                        'gpu.disks.{role}["*"].*.id',
                                        'gpu.disks.{role}_throughputs["*"].usual.*.id',
                                        'gpu.disks.{role}_throughputs["*"]["*"].*.id',
                                    ),
                                ),
                                "version": must(
                                    *to("aws_launch_template.{role}-*.latest_version"),
                                    *baseline(
                                        "templates.{role}.*.version",
                                        'disks.{role}["*"].*.version',
                                        'disks.{role}_throughputs["*"].usual.*.version',
                                        'disks.{role}_throughputs["*"]["*"].*.version',
                                        "gpu.templates.{role}.*.version",
                                        'gpu.disks.{role}["*"].*.version',
                                        'gpu.disks.{role}_throughputs["*"].usual.*.version',
                                        'gpu.disks.{role}_throughputs["*"]["*"].*.version',
                                    ),
                                ),
                            }
                        ),
                        "override": must({"instance_type": must(ANY)}),
                    }
                ),
            }
        ),
        "suspended_processes": must("AZRebalance"),
        "termination_policies": must("NewestInstance"),
        "force_delete": must(True),
        "wait_for_capacity_timeout": must("0"),
        "timeouts": must({"delete": must("30m")}),
        "lifecycle": may({"ignore_changes": must("desired_capacity")}),
        "tag": must(TagBlocks(GROUP_TAGS)),
    },
    "aws_placement_group": {
        "name": must(CLUSTERS_NAME),
        "strategy": must("cluster"),
        "tags": TAGS,
    },
}

#: Shapes of managed resources, by type.
RESOURCES: dict[str, Shape] = {**NETWORK, **FIREWALL, **_IDENTITY, **_STORAGE, **_HOSTS}

DATA: dict[str, Shape] = {
    "aws_vpc": {"id": must(given("vpc-*"))},
    "aws_subnet": {"id": must(given("subnet-*")), **_CHECKED},
    "aws_iam_instance_profile": {"name": must(given("*"))},
    "aws_s3_object": {"bucket": must("{bucket}"), "key": must("workspace.json"), **_CHECKED},
}

#: Type -> the types that a stack with it has as well: each closes what AWS leaves open.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "aws_vpc": ("aws_default_security_group",),
    "aws_s3_bucket": (
        "aws_s3_bucket_public_access_block",
        "aws_s3_bucket_ownership_controls",
        "aws_s3_bucket_policy",
        "aws_s3_bucket_server_side_encryption_configuration",
        "aws_s3_bucket_versioning",
    ),
}

#: Type -> what its resources are called in Terraform.
NAMES: dict[str, tuple[str, ...]] = {
    "aws_vpc": ("this",),
    "aws_default_security_group": ("this",),
    "aws_internet_gateway": ("this",),
    "aws_egress_only_internet_gateway": ("this",),
    "aws_flow_log": ("this",),
    "aws_eip": ("nat-{region}*",),
    "aws_nat_gateway": ("nat-{region}*",),
    "aws_subnet": ("public-{region}*", "private-{region}*"),
    "aws_route_table": ("public", "private-{region}*"),
    "aws_route": ("public", "public-ipv6", "private-{region}*"),
    "aws_route_table_association": ("public-{region}*", "private-{region}*"),
    "aws_vpc_endpoint": ("*",),
    "aws_cloudwatch_log_group": ("hosts", "flow-logs"),
    "aws_sns_topic": ("ends",),
    "aws_sns_topic_subscription": ("ends-*",),
    "aws_security_group": ("scheduler", "worker", "clients", "hosts", "endpoints"),
    "aws_vpc_security_group_ingress_rule": ("*-from-*",),
    "aws_vpc_security_group_egress_rule": ("*-to-*",),
    "aws_iam_role": ("scheduler", "worker", "flow-logs"),
    "aws_iam_role_policy": ("scheduler", "worker", "flow-logs"),
    "aws_iam_policy": ("boundary",),
    "aws_iam_instance_profile": ("scheduler", "worker"),
    "aws_s3_object": ("workspace", "host-wheel", "descriptor", "baseline"),
    "aws_secretsmanager_secret": ("keys",),
    "aws_launch_template": ("scheduler-*", "worker-*"),
    "aws_autoscaling_group": ("*",),
    "aws_placement_group": ("hosts",),
    **{kind: ("workspace",) for kind in _STORAGE if kind.startswith("aws_s3_bucket")},
}

PROVIDER: Shape = {
    "region": must("{region}"),
    "skip_region_validation": must(True),
    "ignore_tags": must({"key_prefixes": must("terradask:run:")}),
}
#: The providers, by source and exact version.
REQUIRED_PROVIDERS: Shape = {
    "aws": must({"source": must("hashicorp/aws"), "version": must("{version}")})
}

BACKENDS: dict[str, Shape] = {
    "local": {"path": must("*/network.tfstate", "*/{cluster}.tfstate")},
    "s3": {
        "bucket": must("{bucket}", given("*")),
        "key": must("*workspaces/{workspace}/network.tfstate", "*{cluster}/terraform.tfstate"),
        "region": must("{region}"),
        "skip_region_validation": must(True),
        "encrypt": may(True),
        "use_lockfile": must(True),
        "kms_key_id": may(given(KEY_ARN)),
    },
}
