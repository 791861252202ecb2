"""Run the built-in checks on a plan with the team's policy: the entry point is `evaluate`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from terradask._plans.policy.complete_plan import UNREADABLE, unreadable_plan
from terradask._plans.policy.document import PlanDocument, RoleRules, read
from terradask._plans.policy.egress import egress_findings
from terradask._plans.policy.expected import expected_findings
from terradask._plans.policy.findings import SEVERITIES, PolicyFinding
from terradask._plans.policy.iam import iam_findings
from terradask._plans.policy.images import image_findings, launch_template_findings
from terradask._plans.policy.ingress import ingress_findings, worker_findings
from terradask._plans.policy.patterns import Scrubber
from terradask._plans.policy.scope import WorkspaceRules
from terradask._plans.policy.secrets import secret_findings
from terradask._plans.policy.team import cost_findings, jupyter_findings, waive
from terradask._plans.policy.user_data import user_data_findings

if TYPE_CHECKING:
    from terradask._catalog.prices.prices import CostEstimate
    from terradask_stacks.settings.policy import PolicySettings


_AWS = "https://docs.aws.amazon.com"


@dataclass(frozen=True)
class Check:
    """A built-in check: its requirement, and the reason."""

    #: The id in findings and waivers.
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
        "hosts reach HTTPS, their network, and what the settings name",
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
        "Only schedulers and workers may reach workers; SSH only as in the settings; no key for it",
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
        "The plan has exactly what terradask makes for the settings",
        "https://csrc.nist.gov/glossary/term/allowlist",
        expected_findings,
    ),
)


def evaluate(
    document: Mapping[str, Any],
    *,
    settings: PolicySettings,
    today: date,
    stack: str = "",
    estimate: CostEstimate | None = None,
    role_rules: RoleRules | None = None,
    open_to_anywhere: bool = False,
    workspace_rules: WorkspaceRules | None = None,
    expected: Mapping[str, Any] | None = None,
) -> tuple[PolicyFinding, ...]:
    """Check a plan.

    ``expected`` is the ``cdk.tf.json`` that `Workspace.synth` writes for the stack, for the
    comparison of P8.

    Raises `InvalidInput`.
    """
    try:
        plan = replace(
            read(document),
            role_rules=role_rules or RoleRules(),
            open_to_anywhere=open_to_anywhere,
            rules=workspace_rules or WorkspaceRules(),
            expected=expected,
        )
        found = [*findings_in(plan), *jupyter_findings(plan, settings)]
    except UNREADABLE as error:
        raise unreadable_plan(error) from error
    if estimate is not None:
        found += cost_findings(estimate, settings)
    marked = waive(found, settings.waivers, stack=stack, today=today)
    if not marked:
        return ()
    scrubber = Scrubber(document)
    return tuple(sorted(dict.fromkeys(map(scrubber.finding, marked)), key=_rank))


def findings_in(plan: PlanDocument) -> list[PolicyFinding]:
    """Return the findings of the built-in checks."""
    return [replace(finding, check=check.id) for check in CHECKS for finding in check.find(plan)]


def blocking(findings: tuple[PolicyFinding, ...]) -> tuple[PolicyFinding, ...]:
    """Return the findings that stop an apply."""
    return tuple(finding for finding in findings if finding.blocking)


def _rank(finding: PolicyFinding) -> tuple[Any, ...]:
    return (
        finding.waived is not None,
        SEVERITIES.index(finding.severity),
        finding.check,
        finding.address,
        finding.message,
    )
