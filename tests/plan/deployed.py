"""What a workspace has in its account, and what kills Terraform there."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import boto3
from rich.console import Console

from terradask._common.progress import ProgressEvent, ResourceChanged
from terradask._plans.render_terminal import to_terminal
from terradask._plans.summary import PlanSummary

from ..golden import UPDATE_VARIABLE

IMAGES = Path(__file__).parents[2] / "docs" / "images"
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


def keep_picture(summary: PlanSummary, name: str) -> None:
    """Draw a plan as a terminal shows it; with `UPDATE_VARIABLE` the docs get the picture."""
    console = Console(file=io.StringIO(), record=True, width=120, force_terminal=True)
    console.print(to_terminal(summary, details=False))
    drawn = console.export_svg(title="terradask plan network", unique_id="plan")
    # Without fonts that a browser would load from elsewhere.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    assert "lets hosts out" in picture.replace("&#160;", " ")
    if os.environ.get(UPDATE_VARIABLE):
        (IMAGES / name).write_text(picture)


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
