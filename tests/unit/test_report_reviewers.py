"""What reviewers see of six changes, and how much of it: the budgets of a comment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from terradask._plans.cautions import cautions
from terradask._plans.impact import RunningCluster
from terradask._plans.render_markdown import MARKDOWN_LIMIT, to_markdown
from terradask._plans.render_terminal import to_text
from terradask._plans.report import WorkspaceReport

from ..golden import check_golden
from .report_data import CONTEXT
from .review_plans import CHANGES, CLUSTER, NETWORK, change, reviewed, stack_of

GOLDEN = Path(__file__).with_name("reports")
#: Those whose folded parts are too long to keep.
LONG = ("new-network", "fifty-stacks")


def opened(markdown: str) -> str:
    """Return what is seen before anything is unfolded: of each fold, its summary."""
    return re.sub(r"(<details><summary>.*?</summary>).*?</details>", r"\1", markdown, flags=re.S)


@pytest.mark.parametrize("name", CHANGES)
def test_reports_are_as_they_were_looked_at(name: str) -> None:
    text = to_markdown(change(name))
    check_golden(GOLDEN / f"{name}.md", opened(text) if name in LONG else text)
    if name not in LONG:
        check_golden(GOLDEN / f"{name}.txt", to_text(change(name), details=False))


@pytest.mark.parametrize("name", CHANGES)
def test_they_fit(name: str) -> None:
    text = to_markdown(change(name))
    assert len(text) < MARKDOWN_LIMIT
    assert "left out" not in text


def test_a_tag_of_a_network_and_three_clusters_is_one_line() -> None:
    text = to_markdown(change("changed-tag"))
    assert len(text.splitlines()) <= 25
    assert len(text) <= 3_000
    (line,) = [line for line in text.splitlines() if "4712" in line]
    assert line == (
        "- **55 resources** (network 43, etl 4, ml 4, bi 4): `tags.cost-centre` `4711` → `4712`"
    )
    assert "$" not in text
    assert "CAUTION" not in text
    assert "<br>plans of 2026-11-20" in text
    assert "<br>plan of 2026-11-20" in to_markdown(change("one-value"))
    in_terminal = to_text(change("changed-tag"), details=False).splitlines()
    assert len(in_terminal) <= 15
    assert '  ~ 43 resources: tags.cost-centre = "4711" -> "4712"' in in_terminal


def test_an_unchanged_network_gives_no_line_of_its_own() -> None:
    same = reviewed("network", stack_of(NETWORK), stack_of(NETWORK))
    grown = reviewed("etl", stack_of(CLUSTER), stack_of(CLUSTER, text={"200": "240"}))
    other = replace(same, summary=replace(same.summary, stack="bi"))
    text = to_markdown(WorkspaceReport(CONTEXT, (same, grown, other)))
    about = [line for line in opened(text).splitlines() if "network" in line]
    assert about[0] == "network, bi: no changes"
    # The other one names the plans.
    assert len(about) == 2
    assert about[1].startswith("<sub>")
    alone = to_markdown(WorkspaceReport(CONTEXT, (same,), stack="network"))
    assert "\n- " not in alone
    assert "<details>" not in alone
    assert "$" not in alone


def test_a_wider_rule_is_a_line_before_and_one_after() -> None:
    shown = opened(to_markdown(change("widened-rule")))
    assert "admits more\n>   ```diff\n" in shown
    ends = [line for line in shown.splitlines() if "203.0.113." in line]
    assert ends == [
        ">   - tcp 8786 from 203.0.113.7/32",
        ">   + tcp 8786 from 203.0.113.0/24",
    ]
    assert "is destroyed" not in shown


def test_a_replaced_vpc_is_one_caution_with_its_consequence() -> None:
    (caution,) = cautions(change("replaced-vpc").plans)
    assert caution.address == "aws_vpc.this"
    assert caution.following == "30 more resources with it"
    assert len(caution.running) == 2
    shown = opened(to_markdown(change("replaced-vpc")))
    (line,) = [line for line in shown.splitlines() if line.startswith("> - ")]
    assert "(because of `cidr_block` `10.64.0.0/16` → `10.9.0.0/16`)" in line
    etl, ml = [line for line in shown.splitlines() if line.startswith(">   - cluster ")]
    assert "cluster etl is running, with 12 workers" in etl
    assert ml.endswith("apply refuses it before `terradask stop ml`")
    # None of the moved rules admits anybody new.
    assert "lets " not in shown


def test_equal_texts_are_there_once_and_addresses_before_them() -> None:
    text = to_markdown(change("new-network"))
    assert text.count("terradask-host.service starts") == 1
    assert text.count("user_data: document") == 10
    assert text.count("\n`user_data` of ") == 1
    short = to_markdown(change("new-network"), limit=6_000)
    assert "left out for length: documents" in short
    for address in ("aws_security_group.{scheduler, worker}", "aws_vpc.this", "aws_iam_role."):
        assert address in short


def test_fifty_stacks_are_one_screen_before_the_first_fold() -> None:
    before_folds = to_markdown(change("fifty-stacks")).partition("<details>")[0]
    assert len(before_folds.splitlines()) <= 20
    assert "`aws_autoscaling_group.workers` is destroyed" in before_folds
    assert "- **together**: \\$" in before_folds
    assert len(to_text(change("fifty-stacks"), details=False).splitlines()) <= 60
    # What only resources of one type have names it.
    assert "- **8 `aws_autoscaling_group` resources** (in 8 stacks): `max_size`" in before_folds
    # The fold has every stack.
    whole = to_markdown(change("fifty-stacks"))
    assert all(f"team-{number:02}-nightly" in whole for number in range(48))


def test_the_cost_is_a_difference_before_the_whole_table() -> None:
    text = to_markdown(change("one-value"))
    assert "**Cost** at most \\$28,977 → \\$34,743 (+\\$5,766) a month\n" in text
    assert text.index("**Cost**") < text.index("Cost of each resource</summary>")
    lines = to_text(change("one-value"), details=False).splitlines()
    (cost,) = [line for line in lines if line.startswith("cost: ")]
    assert cost.endswith("; at the largest size $28,976.56 -> $34,742.96 a month")


def test_what_is_worst_comes_first() -> None:
    wide = {"203.0.113.7/32": "0.0.0.0/0", "203_0_113_7_32": "0_0_0_0_0"}
    moved = stack_of(NETWORK, text={**wide, "terradask-default-nat": "other"})
    left = {address: each for address, each in moved.items() if address != "aws_eip.none"}
    del left["aws_route.public"]
    running = (RunningCluster("etl", "running", {"scheduler": 1, "workers": 1}),)
    network = reviewed("network", stack_of(NETWORK), left)
    workers = {a: each for a, each in stack_of(CLUSTER).items() if "workers" not in a}
    cluster = reviewed("etl", stack_of(CLUSTER), workers, running=running)
    found = cautions([network, cluster])
    assert [one.address for one in found] == [
        "aws_autoscaling_group.workers",
        "aws_vpc_security_group_ingress_rule.scheduler-from-0_0_0_0_0-8786-8786",
        "aws_route.public",
    ]
    assert "admits more - the whole internet" in found[1].texts


def test_the_verdict_is_the_last_line_of_a_terminal() -> None:
    last = to_text(change("replaced-vpc"), details=False).rstrip().splitlines()[-1]
    assert last == "workspace default: needs review: 11 to update, 31 to replace"
    assert to_text(change("changed-tag")).rstrip().splitlines()[-1] == (
        "workspace default: 55 to update"
    )
