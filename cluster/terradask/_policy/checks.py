"""The table of built-in checks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from terradask._policy.allow_list import beyond_findings
from terradask._policy.document import PlanDocument
from terradask._policy.egress import egress_findings
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
    """A built-in check: its requirement, and the reason."""

    #: Its name in findings and waivers.
    id: str
    title: str
    #: The page with the reason.
    source: str
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
        "No rule, and no rules together, allow ingress from a large part of the internet; "
        "hosts reach HTTPS and their network",
        f"{_AWS}/securityhub/latest/userguide/ec2-controls.html#ec2-18",
        lambda document: itertools.chain(ingress_findings(document), egress_findings(document)),
    ),
    Check(
        "P3",
        "Launch templates require IMDSv2 with one hop, encrypted disks, tags at launch, "
        "termination on shutdown, no public addresses",
        f"{_AWS}/securityhub/latest/userguide/ec2-controls.html#ec2-170",
        launch_template_findings,
    ),
    Check(
        "P4",
        "Only schedulers and workers may reach workers; SSH only as settings say; no key for it",
        f"{_AWS}/securityhub/latest/userguide/ec2-controls.html#ec2-19",
        worker_findings,
    ),
    Check(
        "P5",
        "No secret's value is in the plan, its outputs, or the future state",
        "https://developer.hashicorp.com/terraform/language/manage-sensitive-data",
        secret_findings,
    ),
    Check(
        "P6",
        "Permissions are limited to the workspace; roles are passed by name, and only to EC2; "
        "every role has its boundary",
        f"{_AWS}/IAM/latest/UserGuide/best-practices.html#grant-least-privilege",
        iam_findings,
    ),
    Check(
        "P7",
        "Images are looked up only among named owners' images",
        f"{_AWS}/AWSEC2/latest/UserGuide/finding-an-ami.html",
        image_findings,
    ),
    Check(
        "P8",
        "The plan has only what terradask's stacks make: known resources, set as they set them",
        "https://csrc.nist.gov/glossary/term/allowlist",
        beyond_findings,
    ),
)
