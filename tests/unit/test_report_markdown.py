"""A report as a comment on a pull request: what is in it, what folds, what fits."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from terradask._catalog.prices.prices import CostEstimate, CostItem
from terradask._plans.documents import DocumentChange
from terradask._plans.impact import RunningCluster
from terradask._plans.policy.findings import Waived
from terradask._plans.policy.values import AttributeChange
from terradask._plans.render_markdown import MARKDOWN_LIMIT, to_markdown
from terradask._plans.render_terminal import to_text
from terradask._plans.summary import Change
from terradask.cli._plan import show

from .report_data import COST, FINDING, large, of_changes, report, whole


def test_first_line_is_a_marker_that_stays_the_same():
    first = to_markdown(whole(report(), report("create", stack="etl"))).splitlines()[0]
    # However many of the workspace's stacks have changed this time.
    assert (
        first
        == to_markdown(whole(report("create", stack="etl"), stack=None)).splitlines()[0]
        == to_markdown(whole()).splitlines()[0]
    )
    second = to_markdown(whole(report("create"))).splitlines()[0]
    assert first == "<!-- terradask plan default 123456789012 us-east-1 -->"
    assert second == "<!-- terradask plan network of default 123456789012 us-east-1 -->"


def test_verdict_counts_dangers_and_reasons_come_first():
    lines = to_markdown(whole(report())).splitlines()
    assert lines[1] == "## network: 3 to update, 2 to replace, 1 to destroy (needs review)"
    assert "> [!CAUTION]" in lines
    text = "\n".join(lines)
    assert "`aws_vpc_security_group_ingress_rule.office` admits more - the whole internet" in text
    assert "- tcp 8786-8787 from 203.0.113.0/24\n>   + tcp 8786-8787 from 0.0.0.0/0\n" in text
    assert "allows s3:PutObject on arn:aws:s3:::bucket/&#42;" in text
    assert "(because of `name` `/terradask/default` → `/terradask/other`)" in text
    assert (
        text.index("[!CAUTION]")
        < text.index("- update `")
        < text.index("**Changed outside Terraform**")
        < text.index("<summary>All 6 resources")
    )


def test_values_documents_and_what_is_known_later_each_have_their_place():
    text = to_markdown(whole(report()))
    assert "`cidr_ipv4` `203.0.113.0/24` → `0.0.0.0/0`\n" in text
    assert "```diff\n@@ -2,7 +2,8 @@\n" in text
    assert '+        "s3:PutObject"\n' in text
    assert "-# step 1\n+# step 2\n" in text
    assert "known after apply: log_group_class" in text
    made = to_markdown(whole(report("create")))
    assert "- create 11: " in made
    assert "+ aws_vpc.main\n" in made


def test_versions_commit_hash_time_and_expiry_are_there():
    text = to_markdown(whole(report()))
    for fact in (
        "terradask 0.1.0",
        "Terraform 1.11.4",
        "hashicorp/aws 5.100.0",
        "-dirty",
        f"network <code>{'ab' * 6}</code>",
        "2026-11-20T05:31:27Z",
        "2026-11-21T05",
    ):
        assert fact in text


def test_policy_and_cost_have_their_places():
    waived = FINDING.waive(Waived("until the move", "2026-12-31"))
    text = to_markdown(whole(report(findings=(FINDING, waived), cost=COST)))
    assert "(blocked by policy)" in text
    assert to_text(report(findings=(FINDING, waived))).splitlines()[-1] == (
        "network: blocked by policy: 3 to update, 2 to replace, 1 to destroy: terradask apply "
        "refuses this plan"
    )
    assert (
        "- **error** `P1` `aws_iam_role_policy.worker` allows everything<br><sub>name the "
        "actions</sub>\n"
    ) in text
    assert "waived until 2026-12-31" in text
    assert "until the move" in text
    assert (
        r"| `workers`<br>m6i.xlarge | \$0.00<br><sub>0 × \$0.1920 an "
        r"hour</sub> | \$1,401.60<br><sub>10 × \$0.1920 an hour</sub> |"
    ) in text
    assert r"| \$32.85<br><sub>\$0.0450 an hour</sub> | \$32.85<br>" in text
    assert r"**\$32.85**" in text
    assert "AWS Price List API, us-east-1, 2026-11-01; 1 without a price" in text
    in_terminal = to_text(report(cost=COST))
    assert "cost: $0.0450 an hour, $32.85 a month" in in_terminal
    assert (
        "without a price, and not in the totals: aws_autoscaling_group.workers: x9.huge: no price "
        "of x9.huge: not found"
    ) in in_terminal


def test_equal_findings_are_one_and_notes_are_folded():
    many = tuple(
        replace(FINDING, severity="warning", address=f"aws_thing.number_{i}") for i in range(9)
    )
    note = replace(FINDING, severity="note", message="a remark")
    text = to_markdown(whole(report(findings=(note, *many)), report(stack="etl", findings=many)))
    (line,) = [line for line in text.splitlines() if line.startswith("- **warning**")]
    assert line.startswith(
        "- **warning** `P1` network, etl `aws_thing.{number_0, number_1, number_2, number_3}` and "
        "5 more allows everything"
    )
    assert text.index("Policy: 1 more finding</summary>") < text.index("a remark")


def test_without_any_price_the_reason_stands_in_the_place_of_totals():
    none = CostEstimate(
        "us-east-1",
        "AWS Price List API",
        "",
        (CostItem("aws_nat_gateway.a", "NAT gateway", None),),
        problem="no answer",
    )
    assert "cost: no prices: no answer" in to_text(report(cost=none))
    assert "**Cost** no prices: no answer\n" in to_markdown(whole(report(cost=none)))


def test_what_a_stopped_cluster_costs_stands_beside_what_a_started_one_does():
    items = (
        CostItem("aws_secretsmanager_secret.keys", "secret", Decimal("0.001")),
        CostItem(
            "aws_autoscaling_group.workers",
            "m6i.xlarge",
            Decimal("0.2"),
            desired=4,
            maximum=10,
            while_stopped=False,
        ),
    )
    of_cluster = report(
        stack="etl", cost=CostEstimate("us-east-1", "AWS Price List API", "2026-11-01", items)
    )
    assert r"| while stopped | \$0.73 | \$0.73 |" in to_markdown(whole(of_cluster))
    in_terminal = (
        "cost: $0.0010 an hour, $0.73 a month while stopped; when started $0.8010 an "
        "hour, $584.73 a month; at the largest size"
    )
    assert in_terminal in to_text(of_cluster)
    assert "while stopped" not in to_markdown(whole(report(cost=COST)))


def test_several_stacks_have_a_cost_together():
    none = CostEstimate(
        "us-east-1",
        "AWS Price List API",
        "",
        (CostItem("aws_nat_gateway.a", "NAT gateway", None),),
        problem="no answer",
    )
    both = whole(report(cost=COST), report(stack="etl", cost=COST), report(stack="ml", cost=none))
    together = r"- **together**: \$65.70 a month, at most \$2,869, 3 without a price"
    assert together in to_markdown(both)
    in_terminal = (
        "cost of these stacks together: $0.0900 an hour, $65.70 a month; at the largest "
        "size $3.9300 an hour, $2,868.90 a month"
    )
    assert f"{in_terminal} (without 3 that have no price)" in to_text(both)
    assert both.as_dict()["cost"]["desired_monthly_usd"] == "65.70"
    for alone in (
        whole(report(cost=COST)),
        whole(report(), report(stack="etl", cost=COST)),
        whole(report(cost=none), report(cost=none)),
    ):
        assert alone.as_dict()["cost"] is None
        assert "together**" not in to_markdown(alone)
        assert "together" not in to_text(alone)


def test_what_is_printed_is_what_is_saved(capsys: pytest.CaptureFixture[str]):
    made = whole(report(), report("create", stack="etl"))
    show(made, form="markdown")
    assert capsys.readouterr().out == to_markdown(made)


def test_running_clusters_that_are_hit_stand_first():
    hit = report(running=(RunningCluster("etl", "running", {"workers": 12}),))
    dangers = [line for line in to_markdown(whole(hit)).splitlines() if line.startswith("> - ")]
    assert dangers[0].startswith("> - `aws_autoscaling_group.workers` is destroyed: every host")
    assert (
        "cluster etl is running, with 12 workers, on a network that loses "
        "aws_autoscaling_group.workers"
    ) in dangers[0]


def test_several_stacks_are_told_apart():
    both = whole(
        report(),
        report("create", stack="etl"),
        waiting=("ml",),
        unchanged=("bi",),
        failed={"gpu": "no such type <b>"},
    )
    text = to_markdown(both)
    assert (
        "## workspace default: 11 to create, 3 to update, 2 to replace, 1 to destroy (1 stack "
        "could not be planned)"
    ) in text
    for note in (
        "- **etl**: 11 to create (needs review)",
        "ml: waiting for the apply of the network",
        "bi: unchanged since the last apply",
        "- **gpu** could not be planned: no such type &lt;b&gt;",
        "- **network** update `",
        "- **etl** create 11: ",
    ):
        assert note in text


def test_no_change_is_short():
    text = to_markdown(whole(of_changes()))
    assert "## network: no changes\n" in text
    assert len(text) < 600


@pytest.mark.parametrize(
    ("resources", "limit"), [(2000, MARKDOWN_LIMIT), (50, 5000), (5, 1000), (500, 65_536)]
)
def test_it_stays_under_the_limit_and_says_what_is_missing(resources: int, limit: int):
    text = to_markdown(large(resources), limit=limit)
    assert len(text) < limit
    assert "left out for length" in text
    assert text.count("```") % 2 == 0
    assert text.count("<details") == text.count("</details>")
    assert "terradask apply DIR" in text


def test_what_matters_least_goes_first():
    text = to_markdown(whole(report(cost=COST, findings=(FINDING,))), limit=3_400)
    assert "left out for length: documents" in text
    assert "[!CAUTION]" in text
    assert r"**Cost** \$32.85" in text
    assert "allows everything" in text


def test_many_stacks_fit_too():
    many = whole(*(report("create", stack=f"cluster-{number}") for number in range(60)))
    text = to_markdown(many)
    assert len(text) < MARKDOWN_LIMIT
    # What is equal in all of them is there once.
    assert "left out for length" not in text
    assert text.count("aws_vpc.main\n") == 1


def test_it_can_not_be_broken_out_of():
    evil = "```\n</details> | <script> @everyone `x` [a](https://evil.example) --> *b*"
    change = Change(
        f'aws_thing.x["{evil}"]',
        "aws_thing",
        "update",
        evil,
        (AttributeChange("tags.a", evil, evil),),
        (DocumentChange("policy", (f"+{evil}", "-```")),),
    )
    text = to_markdown(whole(of_changes(change)))
    assert text.count("```") == 2
    outside = "".join(part for index, part in enumerate(text.split("```")) if index % 2 == 0)
    for bad in ("<script>", "@everyone", " [a]", "://", "</details> |", "*b*"):
        assert bad not in outside
    assert "-->" not in outside.partition("\n")[2]
