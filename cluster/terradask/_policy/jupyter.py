"""Notebook servers, where the policy forbids them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from terradask._policy.document import PlanDocument, written_document
from terradask._policy.findings import PolicyFinding

if TYPE_CHECKING:
    from terradask_stacks.settings.policy import PolicySettings

JUPYTER_CHECK = "jupyter"


def jupyter_findings(plan: PlanDocument, settings: PolicySettings) -> Iterator[PolicyFinding]:
    """Yield a finding for each cluster whose scheduler's host runs a notebook server."""
    if settings.allow_jupyter:
        return
    for item in plan.of("aws_s3_object"):
        scheduler = written_document(item).get("scheduler")
        if isinstance(scheduler, Mapping) and scheduler.get("jupyter"):
            yield PolicyFinding(
                JUPYTER_CHECK,
                "error",
                item.address,
                "the cluster's scheduler runs a notebook server; policy.allow_jupyter is false",
                "leave jupyter out of the cluster's settings",
            )
