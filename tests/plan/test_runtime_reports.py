"""Reports on plans that the real Terraform makes: the budget of a comment, and its JSON schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from terradask import Workspace
from terradask._plans.cautions import cautions
from terradask._plans.render_markdown import to_markdown

from ..unit.test_report_schema import problems
from .deployed import SETTINGS

pytestmark = [pytest.mark.life, pytest.mark.slow]

NAMES = ("etl", "ml", "bi")


def settings(tag: str, cidr: str = "10.64.0.0/16") -> str:
    """Return the deployed settings, with a tag and three clusters."""
    tagged = SETTINGS.replace("[workspace]", f'[workspace]\ntags = {{ cost-centre = "{tag}" }}')
    tagged = tagged.replace("[network]", f'[network]\ncidr = "{cidr}"')
    return tagged + "".join(f"[clusters.{name}]\n" for name in NAMES)


def test_a_tag_and_a_vpc_of_a_network_and_three_clusters(
    workspace: Workspace, machine: Callable[[str], Path]
) -> None:
    folder = machine("reports")
    toml = folder / "terradask.toml"
    toml.write_text(settings("4711"))
    for stack in ("network", *NAMES):
        (plan,) = Workspace.load(folder).plan([stack]).plans
        Workspace.load(folder).apply(plan)

    same = Workspace.load(folder).plan().report
    assert same.verdict == "no changes"
    toml.write_text(settings("4712"))
    changed = Workspace.load(folder).plan().report
    text = to_markdown(changed)
    assert len(text.splitlines()) <= 25
    assert len(text) <= 3_000
    (line,) = [line for line in text.splitlines() if "4712" in line]
    assert "`tags.cost-centre` `4711` → `4712`" in line
    # Twenty templates with public addresses, which the settings ask for, are one finding.
    assert text.count("- **warning** `P3`") == 1
    assert "$" not in text
    assert cautions(changed.plans) == []

    toml.write_text(settings("4711", "10.9.0.0/16"))
    moved = Workspace.load(folder).plan(["network"]).report
    (caution,) = cautions(moved.plans)
    assert caution.address == "aws_vpc.this"
    assert caution.following is not None
    for report in (same, changed, moved):
        assert problems(report.as_dict()) == []
