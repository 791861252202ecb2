"""The table of built-in checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from terradask._policy.document import PlanDocument
from terradask._policy.findings import PolicyFinding
from terradask._policy.iam import iam_findings
from terradask._policy.images import image_findings
from terradask._policy.ingress import ingress_findings, worker_findings
from terradask._policy.launch_templates import launch_template_findings
from terradask._policy.secrets import secret_findings
from terradask._policy.user_data import user_data_findings

_AWS = "https://docs.aws.amazon.com"


@dataclass(frozen=True)
class Check:
    """What a built-in check demands, and why."""

    #: Its name in findings and waivers.
    id: str
    #: What it demands, in a sentence.
    title: str
    #: The page that says why.
    source: str
    #: Yields what breaks it.
    find: Callable[[PlanDocument], Iterator[PolicyFinding]]


CHECKS = (
    Check(
        "P1",
        "User data holds no keys or secrets, and is at most 16,384 bytes long",
        f"{_AWS}/AWSEC2/latest/UserGuide/instancedata-add-user-data.html",
        user_data_findings,
    ),
    Check(
        "P2",
        "Nobody is let in from the whole internet, in one rule or in several",
        f"{_AWS}/securityhub/latest/userguide/ec2-controls.html#ec2-18",
        ingress_findings,
    ),
    Check(
        "P3",
        "Launch templates demand IMDSv2 with one hop, encrypted disks, tags from birth, termination when off, no public addresses",
        f"{_AWS}/securityhub/latest/userguide/ec2-controls.html#ec2-170",
        launch_template_findings,
    ),
    Check(
        "P4",
        "Workers are reached by schedulers and workers alone; no SSH, and no key for it",
        f"{_AWS}/securityhub/latest/userguide/ec2-controls.html#ec2-19",
        worker_findings,
    ),
    Check(
        "P5",
        "No secret's value stands in the plan, its outputs, or what the state will hold",
        "https://developer.hashicorp.com/terraform/language/manage-sensitive-data",
        secret_findings,
    ),
    Check(
        "P6",
        "Rights end at the workspace; roles are passed by name, and to EC2 alone; every role carries its boundary",
        f"{_AWS}/IAM/latest/UserGuide/best-practices.html#grant-least-privilege",
        iam_findings,
    ),
    Check(
        "P7",
        "Images are looked up among named owners' images",
        f"{_AWS}/AWSEC2/latest/UserGuide/finding-an-ami.html",
        image_findings,
    ),
)
