"""Assumptions about AWS that the account check tests, and its verdicts on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from terradask._doctor.account_check.steps import StepResult

Verdict = Literal["proven", "contradicted", "not tried"]

#: Key of an assumption, as in ``docs/aws-facts.md`` -> the step that tests it.
TESTED_BY = {
    "ec2-filter-values": "region",
    "price-usage-types": "prices",
    "asg-lists-members": "cluster",
    "imds-tags": "reports",
    "asg-shows-launches": "grow",
    "asg-protection": "shrink",
}


def verdicts(results: Iterable[StepResult]) -> dict[str, Verdict]:
    """Return the verdict on each assumption."""
    seen = {key: holds for one in results for key, holds in one.assumptions.items()}
    found: dict[str, Verdict] = dict.fromkeys(TESTED_BY, "not tried")
    return found | {key: "proven" if holds else "contradicted" for key, holds in seen.items()}


def summary(results: Iterable[StepResult]) -> str:
    """Return the verdicts in a line, with the keys of each."""
    found = verdicts(results)
    parts = [
        f"{verdict}: {', '.join(keys)}"
        for verdict in get_args(Verdict)
        if (keys := [key for key, its in found.items() if its == verdict])
    ]
    return f"assumptions about AWS (docs/aws-facts.md) {'; '.join(parts)}"
