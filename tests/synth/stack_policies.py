"""What every stack keeps, each a function that complains of a document."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

Document = dict[str, Any]
Policy = Callable[[Document], list[str]]
SECRETS = re.compile(
    r"-----BEGIN|\b(AKIA|ASIA)[A-Z0-9]{16}\b|tls-key|DASK_INTERNAL_INHERIT_CONFIG|aws_secret_access_key",
    re.IGNORECASE,
)
USER_DATA_LIMIT = 16_384
WRITES = re.compile(r":(Add|Attach|Authorize|Create|Delete|Put|Set|Terminate|Update|Run|Pass)")


def resources(document: Document, kind: str) -> dict[str, Any]:
    """Return a type's resources by name."""
    found: dict[str, Any] = document.get("resource", {}).get(kind, {})
    return found


def user_data_is_harmless(document: Document) -> list[str]:
    """P1: no key or secret, and small enough."""
    broken = []
    for name, template in resources(document, "aws_launch_template").items():
        raw = base64.b64decode(template.get("user_data", ""))
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        if SECRETS.search(text.decode()):
            broken.append(f"{name}: a secret in user data")
        if len(raw) > USER_DATA_LIMIT:
            broken.append(f"{name}: {len(raw)} bytes of user data")
    return broken


def nothing_is_open_to_everyone(document: Document) -> list[str]:
    """P2: no ingress from the whole internet."""
    rules = resources(document, "aws_vpc_security_group_ingress_rule")
    return [
        f"{name}: {block}"
        for name, rule in rules.items()
        for block in (rule.get("cidr_ipv4"), rule.get("cidr_ipv6"))
        if block is not None and ip_network(block).prefixlen == 0
    ]


def hosts_are_hardened(document: Document) -> list[str]:
    """P3: IMDSv2 with one hop, encrypted disks, ends when off, tagged at birth, only schedulers
    with public addresses.
    """
    broken = []
    for name, template in resources(document, "aws_launch_template").items():
        metadata = template.get("metadata_options", {})
        wanted = {
            "IMDSv2": metadata.get("http_tokens") == "required",
            "one hop": metadata.get("http_put_response_hop_limit") == 1,
            "tags in metadata": metadata.get("instance_metadata_tags") == "enabled",
            "ends when off": template.get("instance_initiated_shutdown_behavior") == "terminate",
            "encrypted disks": all(
                disk["ebs"].get("encrypted") in (True, "true")
                for disk in template.get("block_device_mappings", [{"ebs": {}}])
            ),
            "tagged at birth": {
                each["resource_type"] for each in template.get("tag_specifications", [])
            }
            >= {"instance", "volume", "network-interface"},
            "no public address": name.startswith("scheduler")
            or all(
                card.get("associate_public_ip_address") == "false"
                for card in template.get("network_interfaces", [{}])
            ),
            "no SSH key": "key_name" not in template,
        }
        broken += [f"{name}: {rule}" for rule, kept in wanted.items() if not kept]
    return broken


def workers_hear_only_their_own(document: Document) -> list[str]:
    """P4: workers accept from schedulers and workers alone; nobody accepts SSH."""
    own = {"${aws_security_group.scheduler.id}", "${aws_security_group.worker.id}"}
    broken = []
    for name, rule in resources(document, "aws_vpc_security_group_ingress_rule").items():
        from_outside = rule.get("referenced_security_group_id") not in own
        if rule["security_group_id"] == "${aws_security_group.worker.id}" and from_outside:
            broken.append(f"{name}: workers reached from outside")
        if from_outside and rule["from_port"] <= 22 <= rule["to_port"]:
            broken.append(f"{name}: SSH")
    return broken


def rules_say_why(document: Document) -> list[str]:
    """Every rule and group has a description."""
    kinds = (
        "aws_security_group",
        "aws_vpc_security_group_ingress_rule",
        "aws_vpc_security_group_egress_rule",
    )
    return [
        name
        for kind in kinds
        for name, rule in resources(document, kind).items()
        if not rule.get("description")
    ]


def no_secret_is_written(document: Document) -> list[str]:
    """P5: nothing that would put a secret's value into the state."""
    broken = [
        f"{kind}: a secret's value"
        for kind in ("aws_secretsmanager_secret_version", "aws_ssm_parameter")
        if resources(document, kind)
    ]
    return broken + (["a secret"] if SECRETS.search(json.dumps(document)) else [])


def rights_end_at_the_workspace(document: Document) -> list[str]:
    """P6: what changes something names the workspace's resources; no role passes roles or does
    everything.
    """
    broken = []
    for name, role_policy in resources(document, "aws_iam_role_policy").items():
        for statement in json.loads(role_policy["policy"])["Statement"]:
            for action in listed(statement["Action"]):
                wide = [arn for arn in listed(statement["Resource"]) if arn == "*"]
                if action.endswith("*"):
                    broken.append(f"{name}: {action}")
                if WRITES.search(action) and (wide or "PassRole" in action):
                    broken.append(f"{name}: {action} on {statement['Resource']}")
                if (
                    action.startswith(("ec2:Create", "autoscaling:"))
                    and "Describe" not in action
                    and not is_own(statement)
                ):
                    broken.append(f"{name}: {action} without the workspace's tag")
                if wide and "aws:RequestedRegion" not in json.dumps(statement.get("Condition", {})):
                    broken.append(f"{name}: {action} in every region")
    return broken


def images_are_named(document: Document) -> list[str]:
    """P7: images by id; nothing looks one up by a name that anybody may give to theirs."""
    found = [
        f"{kind} looks up an image"
        for kind in document.get("data", {})
        if kind.startswith("data.aws_ami") or "aws_ami" in kind
    ]
    templates = resources(document, "aws_launch_template").items()
    return found + [
        name for name, template in templates if not template["image_id"].startswith("ami-")
    ]


def buckets_are_closed(document: Document) -> list[str]:
    """The bucket is private, encrypted, versioned and answers over TLS only."""
    if not resources(document, "aws_s3_bucket"):
        return []
    block = resources(document, "aws_s3_bucket_public_access_block").get("workspace", {})
    policy = resources(document, "aws_s3_bucket_policy").get("workspace", {}).get("policy", "{}")
    versioning = resources(document, "aws_s3_bucket_versioning").get("workspace", {})
    wanted = {
        "public access blocked": [value for value in block.values() if value is True] == [True] * 4,
        "encrypted": bool(
            resources(document, "aws_s3_bucket_server_side_encryption_configuration")
        ),
        "versioned": versioning.get("versioning_configuration", {}).get("status") == "Enabled",
        "TLS only": '"aws:SecureTransport": "false"' in policy and '"Deny"' in policy,
    }
    return [rule for rule, kept in wanted.items() if not kept]


def listed(value: str | list[str]) -> Iterator[str]:
    yield from [value] if isinstance(value, str) else value


def is_own(statement: dict[str, Any]) -> bool:
    return "aws:ResourceTag/terradask:workspace" in statement.get("Condition", {}).get(
        "StringEquals", {}
    )


ALL: list[Policy] = [
    user_data_is_harmless,
    nothing_is_open_to_everyone,
    hosts_are_hardened,
    workers_hear_only_their_own,
    rules_say_why,
    no_secret_is_written,
    rights_end_at_the_workspace,
    images_are_named,
    buckets_are_closed,
]
