"""Summaries of real plans: what `terraform show -json` printed for a small network, first created,
then changed.

Between the two somebody also changed things by hand: a log group's retention, a rule for SSH, a
group's desired capacity.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from terradask._plans.render_terminal import made_with
from terradask._plans.summary import PlanSummary

from .plan_documents import change_of, changed_resource, plan_document, summary_of, values_of


@pytest.fixture(scope="module")
def created() -> PlanSummary:
    return summary_of("create")


@pytest.fixture(scope="module")
def changed() -> PlanSummary:
    return summary_of("change")


def test_facts_of_the_plan(created: PlanSummary):
    assert created.headline == "network: 11 to create"
    assert created.created_at == "2026-11-20T05:30:19Z"
    assert (created.program, created.terraform_version) == ("Terraform", "1.11.4")
    assert created.providers == {"hashicorp/aws": "5.100.0"}
    assert created.changed


def test_facts_of_opentofus_plan():
    text = json.dumps(plan_document("create"))
    document = json.loads(text.replace("registry.terraform.io/", "registry.opentofu.org/"))
    summary = summary_of(document)
    assert (summary.program, summary.terraform_version) == ("OpenTofu", "1.11.4")
    assert made_with(summary) == "OpenTofu 1.11.4, hashicorp/aws 5.100.0"
    assert replace(summary, program="Terraform") == summary_of("create")


def test_counts_and_order_put_what_is_lost_first(changed: PlanSummary):
    assert changed.headline == "network: 3 to update, 2 to replace, 1 to destroy"
    assert [change.action for change in changed.changes] == [
        "delete",
        "replace",
        "replace",
        "update",
        "update",
        "update",
    ]


def test_values_before_and_after_are_compared_leaf_by_leaf(changed: PlanSummary):
    assert values_of(changed, "aws_iam_role_policy.worker") == {
        "policy.Statement[0].Action": (["s3:GetObject"], ["s3:GetObject", "s3:PutObject"])
    }
    assert values_of(changed, "aws_vpc_security_group_ingress_rule.office") == {
        "cidr_ipv4": ("203.0.113.0/24", "0.0.0.0/0")
    }


def test_replacement_names_its_reason(changed: PlanSummary):
    change = change_of(changed, "aws_cloudwatch_log_group.hosts")
    assert change.replaced_because_of == ("name",)
    assert change.reason == "the provider can't change it in place"


def test_creations_show_what_is_set_and_not_what_aws_will_answer(created: PlanSummary):
    values = values_of(created, "aws_autoscaling_group.workers")
    assert values["max_size"] == (None, 5)
    assert values["vpc_zone_identifier"] == (None, "(known after apply)")
    assert "service_linked_role_arn" not in values


@pytest.mark.parametrize("name", ["create", "change"])
def test_no_secret_leaves_the_plan(name: str):
    document = plan_document(name)
    assert "hunter" in json.dumps(document)
    encoded = next(
        r["change"]["after"]["user_data"]
        for r in document["resource_changes"]
        if r["type"] == "aws_launch_template"
    )
    text = json.dumps(summary_of(document).as_dict())
    assert "hunter" not in text
    assert encoded not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user_data", "IyEvYmluL3No"),
        ("db_password", "hunter2"),
        ("token", "hunter2"),
        ("api_key", "hunter2"),
        ("content", "-----BEGIN RSA PRIVATE KEY-----\nx"),
        ("note", "use AKIAABCDEFGHIJKLMNOP"),
        ("environ", {"A": "-----BEGIN PRIVATE KEY-----"}),
        ("list", ["ASIAABCDEFGHIJKLMNOP"]),
    ],
)
def test_our_own_list_of_secrets_is_masked(name: str, value: Any):
    summary = summary_of(changed_resource({name: value}))
    assert summary.changes[0].attributes[0].sensitive
    assert json.dumps(value)[1:-1] not in json.dumps(summary.as_dict())


@pytest.mark.parametrize(
    ("name", "value"),
    [("http_tokens", "required"), ("force_overwrite_replica_secret", False), ("token", 3)],
)
def test_what_only_sounds_secret_is_shown(name: str, value: Any):
    attributes = summary_of(changed_resource({name: value})).changes[0].attributes
    assert [(a.path, a.after) for a in attributes] == [(name, value)]


def test_marks_of_terraform_cover_what_lies_below():
    document = changed_resource({"block": [{"a": "open", "b": "closed"}], "whole": {"x": "closed"}})
    document["resource_changes"][0]["change"]["after_sensitive"] = {
        "block": [{"b": True}],
        "whole": True,
    }
    shown = {a.path: a.after for a in summary_of(document).changes[0].attributes}
    assert shown == {"block[0].a": "open", "block[0].b": "(sensitive)", "whole": "(sensitive)"}


def test_one_mark_in_a_plain_list_hides_the_list():
    document = changed_resource({"list": ["open", "hunter2"]}, {"list": ["hunter1"]})
    document["resource_changes"][0]["change"].update(
        after_sensitive={"list": [False, True]}, before_sensitive={"list": [True]}
    )
    assert "hunter" not in json.dumps(summary_of(document).as_dict())


def test_nothing_to_do_says_so():
    summary = summary_of(
        {"resource_changes": [changed_resource({}, {}, actions=["no-op"])["resource_changes"][0]]}
    )
    assert summary.headline == "network: no changes"
    assert not summary.changed


def test_dictionary_is_stable_json_of_a_known_format(changed: PlanSummary):
    data = changed.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data == summary_of("change").as_dict()
    assert data["format"] == 1
    assert list(data) == [
        "format",
        "stack",
        "plan_sha256",
        "created_at",
        "program",
        "terraform_version",
        "providers",
        "counts",
        "dangers",
        "changes",
        "drift",
        "drift_dangers",
        "outputs",
    ]
    assert data["counts"] == {"create": 0, "update": 3, "replace": 2, "delete": 1, "imports": 0}


def test_outputs_that_change_are_told():
    document = {
        "output_changes": {
            "url": {"actions": ["update"], "before": "a", "after": "b"},
            "same": {"actions": ["no-op"]},
        }
    }
    assert [(o.path, o.before, o.after) for o in summary_of(document).outputs] == [
        ("url", "a", "b")
    ]
