"""Policies that every stack keeps, and a seeded defect for each of them that must be caught.

A policy takes the synthesised JSON and returns what breaks it.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
import re
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

import pytest

Document = dict[str, Any]
Policy = Callable[[Document], list[str]]

SECRETS = re.compile(r"-----BEGIN|\b(AKIA|ASIA)[A-Z0-9]{16}\b|tls-key|DASK_INTERNAL_INHERIT_CONFIG|aws_secret_access_key", re.IGNORECASE)
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
    """P3: IMDSv2 with one hop, encrypted disks, ends when off, tagged at birth, only schedulers with public addresses."""
    broken = []
    for name, template in resources(document, "aws_launch_template").items():
        metadata = template.get("metadata_options", {})
        wanted = {
            "IMDSv2": metadata.get("http_tokens") == "required",
            "one hop": metadata.get("http_put_response_hop_limit") == 1,
            "tags in metadata": metadata.get("instance_metadata_tags") == "enabled",
            "ends when off": template.get("instance_initiated_shutdown_behavior") == "terminate",
            "encrypted disks": all(
                disk["ebs"].get("encrypted") in (True, "true") for disk in template.get("block_device_mappings", [{"ebs": {}}])
            ),
            "tagged at birth": {each["resource_type"] for each in template.get("tag_specifications", [])}
            >= {"instance", "volume", "network-interface"},
            "no public address": name.startswith("scheduler")
            or all(card.get("associate_public_ip_address") == "false" for card in template.get("network_interfaces", [{}])),
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
    kinds = ("aws_security_group", "aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule")
    return [name for kind in kinds for name, rule in resources(document, kind).items() if not rule.get("description")]


def no_secret_is_written(document: Document) -> list[str]:
    """P5: nothing that would put a secret's value into the state."""
    broken = [
        f"{kind}: a secret's value" for kind in ("aws_secretsmanager_secret_version", "aws_ssm_parameter") if resources(document, kind)
    ]
    return broken + (["a secret"] if SECRETS.search(json.dumps(document)) else [])


def rights_end_at_the_workspace(document: Document) -> list[str]:
    """P6: what changes something names the workspace's resources; no role passes roles or does everything."""
    broken = []
    for name, role_policy in resources(document, "aws_iam_role_policy").items():
        for statement in json.loads(role_policy["policy"])["Statement"]:
            for action in _listed(statement["Action"]):
                wide = [arn for arn in _listed(statement["Resource"]) if arn == "*"]
                if action.endswith("*"):
                    broken.append(f"{name}: {action}")
                if WRITES.search(action) and (wide or "PassRole" in action):
                    broken.append(f"{name}: {action} on {statement['Resource']}")
                if action.startswith(("ec2:Create", "autoscaling:")) and "Describe" not in action and not _own(statement):
                    broken.append(f"{name}: {action} without the workspace's tag")
                if wide and "aws:RequestedRegion" not in json.dumps(statement.get("Condition", {})):
                    broken.append(f"{name}: {action} in every region")
    return broken


def images_are_named(document: Document) -> list[str]:
    """P7: images by id; nothing looks one up by a name that anybody may give to theirs."""
    found = [f"{kind} looks up an image" for kind in document.get("data", {}) if kind.startswith("data.aws_ami") or "aws_ami" in kind]
    templates = resources(document, "aws_launch_template").items()
    return found + [name for name, template in templates if not template["image_id"].startswith("ami-")]


def buckets_are_closed(document: Document) -> list[str]:
    """The bucket is private, encrypted, versioned and answers over TLS only."""
    if not resources(document, "aws_s3_bucket"):
        return []
    block = resources(document, "aws_s3_bucket_public_access_block").get("workspace", {})
    policy = resources(document, "aws_s3_bucket_policy").get("workspace", {}).get("policy", "{}")
    versioning = resources(document, "aws_s3_bucket_versioning").get("workspace", {})
    wanted = {
        "public access blocked": [value for value in block.values() if value is True] == [True] * 4,
        "encrypted": bool(resources(document, "aws_s3_bucket_server_side_encryption_configuration")),
        "versioned": versioning.get("versioning_configuration", {}).get("status") == "Enabled",
        "TLS only": '"aws:SecureTransport": "false"' in policy and '"Deny"' in policy,
    }
    return [rule for rule, kept in wanted.items() if not kept]


def _listed(value: str | list[str]) -> Iterator[str]:
    yield from [value] if isinstance(value, str) else value


def _own(statement: dict[str, Any]) -> bool:
    return "aws:ResourceTag/terradask:workspace" in statement.get("Condition", {}).get("StringEquals", {})


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

VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one NAT gateway per zone": {"nat": "per_zone"},
    "no way out but endpoints": {
        "nat": "none",
        "interface_endpoints": ["secretsmanager", "autoscaling", "ec2", "logs", "sts"],
    },
    "ARM": {"architectures": ["x86_64", "arm64"]},
    "ingress": {"ingress": [{"cidr": "203.0.113.7/32"}, {"cidr": "2001:db8::/56", "ports": [8786]}]},
    "data": {"data_buckets": ["lake/raw", "results"]},
    "private, as a company prescribes": {
        "public_schedulers": False,
        "flow_logs": True,
        "dual_stack": True,
        "kms_key_arn": "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab",
        "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary",
        "role_path": "/platform/",
        "role_name_prefix": "acme-",
    },
    "a given VPC": {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnets": {zone: {"scheduler": "subnet-00000000", "worker": "subnet-00000001"} for zone in ("us-east-1a", "us-east-1b")},
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_network_keeps_every_policy(synth: Callable[..., Document], variant: str) -> None:
    document = synth("network", network=VARIANTS[variant])

    assert {policy.__name__: policy(document) for policy in ALL} == {policy.__name__: [] for policy in ALL}


def test_a_cluster_keeps_every_policy(cluster: Document) -> None:
    assert {policy.__name__: policy(cluster) for policy in ALL} == {policy.__name__: [] for policy in ALL}


def test_public_workers_are_the_one_exception(synth: Callable[..., Document]) -> None:
    document = synth("network", network={"public_workers": True})

    assert hosts_are_hardened(document) == ["worker-x86_64: no public address"]
    assert [policy.__name__ for policy in ALL if policy(document)] == ["hosts_are_hardened"]


def worker_template(document: Document) -> dict[str, Any]:
    template: dict[str, Any] = resources(document, "aws_launch_template")["worker-x86_64"]
    return template


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def admit(document: Document, name: str, **rule: Any) -> None:
    rules = document["resource"]["aws_vpc_security_group_ingress_rule"]
    rules[name] = {
        "security_group_id": "${aws_security_group.scheduler.id}",
        "from_port": 8786,
        "to_port": 8787,
        "description": "seeded",
        **rule,
    }


def grant(document: Document, **statement: Any) -> None:
    held = document["resource"]["aws_iam_role_policy"]["worker"]
    policy = json.loads(held["policy"])
    policy["Statement"].append({"Effect": "Allow", **statement})
    held["policy"] = json.dumps(policy)


SEEDS: dict[str, tuple[Policy, Callable[[Document], Any]]] = {
    "an access key in user data": (
        user_data_is_harmless,
        lambda seeded: worker_template(seeded).update(user_data=encoded("export KEY=AKIAABCDEFGHIJKLMNOP")),
    ),
    "a private key in compressed user data": (
        user_data_is_harmless,
        lambda seeded: worker_template(seeded).update(user_data=base64.b64encode(gzip.compress(b"-----BEGIN PRIVATE KEY-----")).decode()),
    ),
    "user data beyond EC2's limit": (
        user_data_is_harmless,
        lambda seeded: worker_template(seeded).update(user_data=encoded("#" * 16_385)),
    ),
    "a disk in the clear": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["block_device_mappings"][0]["ebs"].update(encrypted="false"),
    ),
    "IMDSv1": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["metadata_options"].update(http_tokens="optional"),
    ),
    "two hops": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["metadata_options"].update(http_put_response_hop_limit=2),
    ),
    "a worker with a public address": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["network_interfaces"][0].update(associate_public_ip_address="true"),
    ),
    "a stopped host that stays": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded).update(instance_initiated_shutdown_behavior="stop"),
    ),
    "a volume without tags": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["tag_specifications"].pop(1),
    ),
    "the scheduler open to all": (
        nothing_is_open_to_everyone,
        lambda seeded: admit(seeded, "seeded", cidr_ipv4="0.0.0.0/0"),
    ),
    "the dashboard open to all of IPv6": (
        nothing_is_open_to_everyone,
        lambda seeded: admit(seeded, "seeded", cidr_ipv6="::/0", from_port=8787),
    ),
    "workers reached from an office": (
        workers_hear_only_their_own,
        lambda seeded: admit(seeded, "seeded", cidr_ipv4="203.0.113.7/32", security_group_id="${aws_security_group.worker.id}"),
    ),
    "SSH": (
        workers_hear_only_their_own,
        lambda seeded: admit(seeded, "seeded", cidr_ipv4="203.0.113.7/32", from_port=20, to_port=30),
    ),
    "a rule that doesn't say why": (
        rules_say_why,
        lambda seeded: admit(seeded, "seeded", cidr_ipv4="203.0.113.7/32", description=""),
    ),
    "a secret with a value": (
        no_secret_is_written,
        lambda seeded: seeded["resource"].update(aws_secretsmanager_secret_version={"keys": {"secret_string": "x"}}),
    ),
    "PassRole on everything": (
        rights_end_at_the_workspace,
        lambda seeded: grant(seeded, Action="iam:PassRole", Resource="*"),
    ),
    "ending anybody's instances": (
        rights_end_at_the_workspace,
        lambda seeded: grant(seeded, Action="ec2:TerminateInstances", Resource="*"),
    ),
    "tagging anybody's volumes": (
        rights_end_at_the_workspace,
        lambda seeded: grant(seeded, Action="ec2:CreateTags", Resource="arn:aws:ec2:us-east-1:1:volume/*"),
    ),
    "all of S3": (
        rights_end_at_the_workspace,
        lambda seeded: grant(seeded, Action="s3:*", Resource="arn:aws:s3:::lake/*"),
    ),
    "an image by name": (
        images_are_named,
        lambda seeded: seeded.setdefault("data", {}).update(aws_ami={"latest": {"most_recent": True}}),
    ),
    "a bucket without its block": (
        buckets_are_closed,
        lambda seeded: seeded["resource"].pop("aws_s3_bucket_public_access_block"),
    ),
    "a bucket that answers in the clear": (
        buckets_are_closed,
        lambda seeded: seeded["resource"].pop("aws_s3_bucket_policy"),
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_defect_is_caught(network: Document, seed: str) -> None:
    policy, plant = SEEDS[seed]
    seeded = copy.deepcopy(network)
    assert policy(seeded) == []
    plant(seeded)

    assert policy(seeded) != []
