"""Defects for each policy of the stacks, planted in a synthesized document."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

from .stack_policies import (
    Document,
    Policy,
    buckets_are_closed,
    hosts_are_hardened,
    images_are_named,
    no_secret_is_written,
    nothing_is_open_to_everyone,
    resources,
    rights_end_at_the_workspace,
    rules_say_why,
    user_data_is_harmless,
    workers_hear_only_their_own,
)


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
        lambda seeded: worker_template(seeded).update(
            user_data=encoded("export KEY=AKIAABCDEFGHIJKLMNOP")
        ),
    ),
    "a private key in compressed user data": (
        user_data_is_harmless,
        lambda seeded: worker_template(seeded).update(
            user_data=base64.b64encode(gzip.compress(b"-----BEGIN PRIVATE KEY-----")).decode()
        ),
    ),
    "user data beyond EC2's limit": (
        user_data_is_harmless,
        lambda seeded: worker_template(seeded).update(user_data=encoded("#" * 16_385)),
    ),
    "a disk in the clear": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["block_device_mappings"][0]["ebs"].update(
            encrypted="false"
        ),
    ),
    "IMDSv1": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["metadata_options"].update(http_tokens="optional"),
    ),
    "two hops": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["metadata_options"].update(
            http_put_response_hop_limit=2
        ),
    ),
    "a worker with a public address": (
        hosts_are_hardened,
        lambda seeded: worker_template(seeded)["network_interfaces"][0].update(
            associate_public_ip_address="true"
        ),
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
        lambda seeded: admit(
            seeded,
            "seeded",
            cidr_ipv4="203.0.113.7/32",
            security_group_id="${aws_security_group.worker.id}",
        ),
    ),
    "SSH": (
        workers_hear_only_their_own,
        lambda seeded: admit(
            seeded, "seeded", cidr_ipv4="203.0.113.7/32", from_port=20, to_port=30
        ),
    ),
    "a rule that doesn't say why": (
        rules_say_why,
        lambda seeded: admit(seeded, "seeded", cidr_ipv4="203.0.113.7/32", description=""),
    ),
    "a secret with a value": (
        no_secret_is_written,
        lambda seeded: seeded["resource"].update(
            aws_secretsmanager_secret_version={"keys": {"secret_string": "x"}}
        ),
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
        lambda seeded: grant(
            seeded, Action="ec2:CreateTags", Resource="arn:aws:ec2:us-east-1:1:volume/*"
        ),
    ),
    "all of S3": (
        rights_end_at_the_workspace,
        lambda seeded: grant(seeded, Action="s3:*", Resource="arn:aws:s3:::lake/*"),
    ),
    "an image by name": (
        images_are_named,
        lambda seeded: seeded.setdefault("data", {}).update(
            aws_ami={"latest": {"most_recent": True}}
        ),
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
