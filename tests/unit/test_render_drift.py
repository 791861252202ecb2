"""Drift, written for people: equal changes once, and nothing that breaks out of its place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from terradask._plans.policy.values import AttributeChange
from terradask._plans.render_drift import drift_document, drift_markdown, drift_text
from terradask._plans.render_markdown import to_markdown
from terradask._plans.render_terminal import to_text
from terradask._plans.report import WorkspaceReport
from terradask._plans.summary import Change, PlanSummary, summarise

from .report_data import of_changes, whole
from .review_plans import CLUSTER, NETWORK, reviewed, stack_of
from .test_report_odd_plans import entry


def summary(stack: str, *drift: Change) -> PlanSummary:
    return PlanSummary(
        stack=stack,
        changes=(),
        drift=drift,
        dangers=(),
        plan_hash="0" * 64,
        created_at="2026-11-20T05:00:00Z",
        terraform_version="1.11.4",
    )


CHANGED = Change(
    "aws_s3_bucket.b",
    "aws_s3_bucket",
    "update",
    None,
    (AttributeChange("tags.team", "a", "b ```` c"),),
)
GONE = Change("aws_subnet.s", "aws_subnet", "delete")


def test_text_has_a_line_for_each_value_and_the_next_command() -> None:
    assert drift_text([summary("network", CHANGED, GONE), summary("etl")]).splitlines() == [
        "network: 2 resources changed outside Terraform",
        "  ~ aws_s3_bucket.b",
        '      tags.team = "a" -> "b ```` c"',
        "  - aws_subnet.s is gone",
        "",
        "next: terradask plan network, which shows what terradask apply network would set back",
    ]


def test_markdown_names_stacks_with_drift_and_can_not_be_broken_out_of() -> None:
    text = drift_markdown([summary("network", CHANGED), summary("etl")])

    assert text.startswith(
        "<!-- terradask drift -->\n## 1 resource changed outside Terraform\n\n"
        "- **network** `aws_s3_bucket.b`\n"
    )
    assert "etl" not in text
    assert text.count("```") == 2
    assert "<code>b &#96;&#96;&#96;&#96; c</code>" in text


def test_no_drift_says_what_was_looked_at() -> None:
    text = drift_markdown([summary("network"), summary("etl")])

    assert "No drift" in text
    assert "network, etl" in text


def tagged(stack: str, name: str) -> PlanSummary:
    """Return the drift of a stack of which each resource's tag was changed by hand."""
    summary = reviewed(stack, stack_of(name), stack_of(name, tag="4712")).summary
    return replace(summary, changes=(), drift=summary.changes)


def planned(*summaries: PlanSummary) -> WorkspaceReport:
    return whole(*(replace(of_changes(), summary=summary) for summary in summaries))


def named(text: str) -> set[str]:
    """Return the addresses in a text, also those that are together in braces."""
    found = re.findall(r"(aws_\w+)\.(?:\{([^}]+)\}|([\w-]+))", text)
    return {f"{kind}.{name}" for kind, many, one in found for name in (many or one).split(", ")}


def test_a_tag_changed_by_hand_on_a_whole_network_is_one_line_and_its_resources() -> None:
    network = tagged("network", NETWORK)
    assert len(network.drift) == 43
    value = 'tags.cost-centre = "4711" -> "4712"'
    lines = drift_text([network]).splitlines()
    assert len(lines) == 5
    assert lines[:2] == [
        "network: 43 resources changed outside Terraform",
        f"  ~ 43 resources: {value}",
    ]
    in_terminal = to_text(planned(network)).splitlines()
    at = in_terminal.index("changed outside Terraform since its last run:")
    assert in_terminal[at + 1 : at + 3] == lines[1:3]
    assert in_terminal[at + 3] == ""
    addresses = {change.address for change in network.drift}
    assert named(lines[2]) == addresses
    text = drift_markdown([network])
    assert len(text.splitlines()) <= 16
    assert len(text) <= 3_000
    once = "- **43 resources** (network 43): `tags.cost-centre` `4711` → `4712`"
    assert once in text.splitlines()
    report = to_markdown(planned(network))
    assert once.replace(" (network 43)", "") in report.splitlines()
    assert len(report.splitlines()) <= 16
    assert named(text) == named(report) == addresses


def test_equal_clusters_are_once_with_all_their_names() -> None:
    stacks = [tagged("network", NETWORK), *(tagged(f"c{i}", CLUSTER) for i in range(8))]
    text = drift_text(stacks)
    assert len(text.splitlines()) == 9
    assert "c0, c1, c2, c3, c4, c5, c6, c7: each 4 resources changed outside Terraform\n" in text
    text = drift_markdown(stacks)
    assert "## 75 resources changed outside Terraform\n" in text
    assert "- **75 resources** (in 9 stacks): `tags.cost-centre`" in text
    assert len(text.splitlines()) <= 18
    assert ": **c0, c1, c2, c3, c4, c5, c6, c7** `aws_autoscaling_group.{" in text


@pytest.mark.parametrize("several", [False, True])
def test_drift_of_different_kinds_loses_nothing(several: bool) -> None:
    network = tagged("network", NETWORK)
    addresses = [change.address for change in network.drift]
    own = AttributeChange("description", "old", "by hand")
    drift = [
        *(replace(one, attributes=(*one.attributes, own)) for one in network.drift[:1]),
        *network.drift[1:],
        *(
            Change(f"aws_subnet.s{i}", "aws_subnet", "update", None, (value,))
            for i, value in enumerate(
                [AttributeChange("map_public_ip_on_launch", False, True)] * 3
                + [AttributeChange("tags.cost-centre", "4711", "other")] * 2
            )
        ),
        GONE,
    ]
    found = replace(network, drift=tuple(drift))
    others = [summary("etl", CHANGED), summary("ml", CHANGED)] if several else []
    lines = drift_text([found, *others]).splitlines()
    assert len(lines) <= 20
    assert "  ~ 3 aws_subnet resources: map_public_ip_on_launch = false -> true" in lines
    markdown = drift_markdown([found, *others])
    report = to_markdown(planned(found, *others))
    for text in ("\n".join(lines), markdown, report, to_text(planned(found, *others))):
        assert named(text) >= {*addresses, *(change.address for change in drift)}
        for value in ("4711", "4712", "by hand", "map_public_ip_on_launch", "other"):
            assert value in text
    assert "  - aws_subnet.s is gone" in lines
    at = lines.index(f"  ~ {addresses[0]}")
    assert lines[at + 1] == '      description = "old" -> "by hand"'
    for text in (markdown, report):
        assert "`aws_subnet.s` is gone\n" in text
        assert "**3 `aws_subnet` resources**" in text
        assert text.count("`other`") == 2
        if several:
            assert "- **etl, ml** `aws_s3_bucket.b`\n" in text


def test_an_entry_of_a_list_keeps_its_place() -> None:
    ports = (
        AttributeChange(f"ingress[{i}].from_port", None, port) for i, port in ((0, 22), (2, 80))
    )
    change = replace(CHANGED, attributes=tuple(ports))
    for text in (drift_text([summary("network", change)]), to_text(planned(summary("a", change)))):
        assert "      ingress[0].from_port = 22\n      ingress[2].from_port = 80\n" in text
    markdown = drift_markdown([summary("network", change)])
    assert "`ingress[2].from_port` `80` (new)" in markdown


def test_an_empty_tag_of_a_group_that_somebody_added_is_shown() -> None:
    tag = {"key": "mine", "propagate_at_launch": True, "value": ""}
    old = {**tag, "key": "team", "value": "a"}
    group = entry("aws_autoscaling_group.w", "update", {"tag": [old]}, {"tag": [old, tag]})
    found = summarise(
        {"resource_changes": [], "resource_drift": [group]}, stack="etl", plan_hash=""
    )
    assert "tag.mine.propagate_at_launch = true" in drift_text([found])


def test_ssh_that_somebody_opened_comes_first_with_the_command_that_closes_it() -> None:
    group = {"id": "sg-1", "ingress": [], "name": "scheduler"}
    rule = {"protocol": "tcp", "from_port": 22, "to_port": 22, "cidr_blocks": ["0.0.0.0/0"]}
    logs = {"before": {"retention_in_days": 30}, "after": {"retention_in_days": 7}}
    opened = {"before": group, "after": {**group, "ingress": [rule]}}
    document = {
        "resource_changes": [],
        "resource_drift": [
            {
                "address": f"{kind}.x",
                "type": kind,
                "mode": "managed",
                "change": {**change, "actions": ["update"]},
            }
            for kind, change in (
                ("aws_cloudwatch_log_group", logs),
                ("aws_security_group", opened),
            )
        ],
    }
    found = summarise(document, stack="network", plan_hash="")
    (danger,) = found.drift_dangers
    revoke = (
        "aws ec2 revoke-security-group-ingress --group-id sg-1 --ip-permissions "
        "'IpProtocol=tcp,FromPort=22,ToPort=22,IpRanges=[{CidrIp=0.0.0.0/0}]'"
    )
    assert danger.command == revoke
    lines = drift_text([found]).splitlines()
    assert lines[:3] == [
        "network: 2 resources changed outside Terraform (needs review)",
        "! aws_security_group.x lets 0.0.0.0/0 in at tcp 22 - the whole internet",
        f"    {revoke}",
    ]
    assert lines[-2] == f"next: {revoke}"
    text = drift_markdown([found])
    assert text.index("[!CAUTION]\n> - **network** `aws_security_group.x`") < text.index(
        "retention"
    )
    (entry,) = drift_document([found])
    assert entry["next"][0] == revoke
    assert entry["dangers"][0]["kind"] == "ingress"


def test_what_somebody_deleted_is_weighed_by_what_is_lost() -> None:
    gone = {"before": {"id": "vpc-1"}, "after": None, "actions": ["delete"]}
    entry = {"address": "aws_vpc.x", "type": "aws_vpc", "mode": "managed", "change": gone}
    found = summarise(
        {"resource_changes": [], "resource_drift": [entry]}, stack="network", plan_hash=""
    )
    assert [danger.text for danger in found.drift_dangers] == [
        "is gone: every cluster of the workspace is cut off"
    ]
