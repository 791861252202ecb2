"""Reports as GitHub's and GitLab's parsers and sanitizers make pages of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import unescape

import pytest

from terradask._plans.documents import DocumentChange
from terradask._plans.folder import Plans
from terradask._plans.markdown import code, escaped, html_code, row, small, table
from terradask._plans.policy.findings import PolicyFinding, Waived
from terradask._plans.policy.values import AttributeChange
from terradask._plans.render_drift import drift_markdown
from terradask._plans.render_markdown import to_markdown
from terradask._plans.report import WorkspaceReport
from terradask._plans.summary import Change
from terradask._workspace.folders import InFolder
from terradask.cli._render_folders import several_markdown
from terradask.errors import TerradaskError

from ..code_hosts import Host, meanings, removed, rendered, sanitized
from .report_data import CONTEXT, COST, FINDING, of_changes, report, whole
from .review_plans import CHANGES, change

HOSTS: tuple[Host, ...] = ("github", "gitlab")

#: Whatever Markdown and the two hosts make something of.
MEANT = (
    'Ünï |`<b>x</b>` <!-- c --> ``` @team #12 !5 $7 a$8 $a$ %3 %"m" &4 &amp; ~bug ~~s~~ :rocket: '
    "[[wiki]] [a](https://e.example) ![i](x) {+a+} [-b-] **b** _c_ a_b http://e.example "
    "www.e.example me@e.example GL-1 GH-2 C:\\*x \\ [^1] arn:aws:iam::123456789012:role/a\n> q"
)
FINDINGS = (
    PolicyFinding("P1", "error", f"aws_thing.{MEANT}", MEANT, advice=MEANT),
    FINDING.waive(Waived(MEANT, "2026-12-31")),
)


def texts(html: str) -> str:
    """Return what is read of a page, without what is there to keep signs apart."""
    return unescape(re.sub(r"<[^>]+>", "", html)).replace("\u200b", "")


def several() -> str:
    """Return the comment on several workspaces, one of which can't be planned."""
    place = {"account": "123456789012", "region": "us-east-1", "workspace": "default"}
    return several_markdown(
        [
            InFolder("a", Plans((), change("widened-rule")), **place),
            InFolder(f"b/{MEANT}", error=TerradaskError(MEANT), **place),
            InFolder("c", Plans((), hostile()), **place),
        ]
    )


#: Every comment that terradask writes.
COMMENTS: dict[str, Callable[[], str]] = {
    **{name: partial(lambda name: to_markdown(change(name)), name) for name in CHANGES},
    "hostile": lambda: to_markdown(hostile()),
    "drift": lambda: drift_markdown([plan.summary for plan in hostile().plans]),
    "several": several,
}


def hostile() -> WorkspaceReport:
    """Return a report of which every text was chosen by somebody else."""
    value = AttributeChange(f"tags.{MEANT}", MEANT, f"{MEANT}2")
    changes = (
        Change(f'aws_thing.x["{MEANT}"]', "aws_thing", "update", MEANT, (value,)),
        Change("aws_thing.y", "aws_thing", "create", None, (replace(value, before=None),)),
        Change(
            "aws_thing.z", "aws_thing", "update", None, (), (DocumentChange("p", (f"+{MEANT}",)),)
        ),
    )
    made = of_changes(*changes, stack="etl")
    alike = (replace(changes[0], address=f"a.{i} {MEANT}", type=MEANT) for i in range(3))
    alone = replace(changes[0], attributes=(replace(value, after=MEANT.upper()),))
    summary = replace(made.summary, drift=(alone, *alike), outputs=(value,))
    plan = replace(
        made, summary=summary, findings=FINDINGS, hardware={"workers": MEANT}, environment=MEANT
    )
    priced = report(cost=COST, findings=FINDINGS)
    return whole(plan, priced, failed={"ml": MEANT})


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", COMMENTS)
def test_hosts_keep_all_of_it_and_make_no_links_of_it(name: str, host: Host) -> None:
    html = rendered(COMMENTS[name](), host)
    assert removed(html) == []
    assert meanings(html, host) == []


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", [name for name in COMMENTS if name in CHANGES])
def test_no_markup_is_left_as_text(name: str, host: Host) -> None:
    html = rendered(COMMENTS[name](), host)
    prose = texts(re.sub(r"<(code|pre)\b.*?</\1>", "", html, flags=re.S))
    left = r"\*\*|`|\]\(|\|-|\[!|^#|&lt;|^ *(?:[-*+~±]|&gt;) "
    assert re.findall(left, prose, re.M) == []
    # A fold's content is blocks of its own, not text that goes on after its summary.
    folds = re.findall(r"<details><summary>.*?</summary>\s*<(?:ul|p|table|pre)\b", html)
    assert len(folds) == html.count("<details>") == html.count("</details>")


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "written",
    [
        escaped(MEANT),
        small(escaped(MEANT)),
        code(MEANT),
        html_code(MEANT),
        table(["a"], [row([escaped(MEANT)])]),
        table(["a"], [row([code(MEANT)])]),
        f"<details><summary>{html_code(MEANT)}</summary>\n\na\n\n</details>\n",
    ],
    ids=["text", "small", "code", "html", "cell", "code in a cell", "summary"],
)
def test_a_text_is_read_as_it_was_written(written: str, host: Host) -> None:
    html = rendered(written, host)
    assert removed(html) == []
    assert meanings(html, host) == []
    assert MEANT.replace("\n", " ") in texts(html)


def test_what_hosts_would_make_of_it_is_seen_by_these_tests() -> None:
    for host in HOSTS:
        for bad in ("a @team", "#12", "[a](b)", ":rocket:", "https://e.example", "$a$"):
            assert meanings(rendered(bad, host), host), (host, bad)
    for bad in ("$28,977", "!5", "~bug", "[[wiki]]", "{+a+}"):
        assert meanings(rendered(bad, "gitlab"), "gitlab"), bad
    for bad in ("<font>a</font>", '<p style="color: red">a</p>', "<script>a</script>"):
        assert removed(bad), bad
    assert "script" not in sanitized("<script>a</script>")
    assert WorkspaceReport(CONTEXT, ()).verdict == "no changes"
