"""What a workspace has in its account, and what kills Terraform there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import boto3

from terradask._common.progress import ProgressEvent, ResourceChanged

#: Newer than the provider's and the S3 backend's own lists of regions.
REGION = "ap-southeast-6"
BUCKET = f"terradask-default-123456789012-{REGION}"
STATE_BUCKET = f"terradask-state-123456789012-{REGION}"
STATE_KEY = "workspaces/default/network.tfstate"
#: A grace with which nothing is too young to be swept.
OLD = -2
SETTINGS = f"""
[workspace]
region = "{REGION}"
[network]
zones = ["{REGION}a"]
nat = "none"
public_workers = true
[[network.ingress]]
cidr = "203.0.113.7/32"
[cluster]
max_workers = 5
"""


def groups() -> list[str]:
    return [
        g["AutoScalingGroupName"]
        for g in boto3.client("autoscaling", REGION).describe_auto_scaling_groups()[
            "AutoScalingGroups"
        ]
    ]


def keys(prefix: str) -> list[str]:
    found = boto3.client("s3", REGION).list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"] for entry in found.get("Contents", [])]


def killing_terraform(
    folder: Path, stack: str, action: str, *, at: int = 1
) -> Callable[[ProgressEvent], None]:
    """Return what kills a stack's Terraform, as the end of a machine's memory does, as soon as it
    acts for so many times.
    """
    begun: set[str] = set()

    def kill(event: ProgressEvent) -> None:
        if (
            not isinstance(event, ResourceChanged)
            or event.action != action
            or event.address in begun
        ):
            return
        begun.add(event.address)
        if len(begun) == at:
            note = json.loads((folder / f"cdktf.out/stacks/.{stack}.lock").read_text())
            os.killpg(note["child"], signal.SIGKILL)

    return kill
