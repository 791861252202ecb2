"""Summaries of real plans: what `terraform show -json` printed for a small network, first created, then changed.

Between the two somebody also changed things by hand: a log group's retention, a rule for SSH, a group's desired capacity.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from terradask._plans.summary import PlanSummary, summarise

DATA = Path(__file__).with_name("data")


def _document(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"plan_{name}.json").read_text())


def _summary(document: dict[str, Any] | str) -> PlanSummary:
    return summarise(_document(document) if isinstance(document, str) else document, stack="network", plan_hash="ab" * 32)


@pytest.fixture(scope="module")
def created() -> PlanSummary:
    return _summary("create")


@pytest.fixture(scope="module")
def changed() -> PlanSummary:
    return _summary("change")


def _of(summary: PlanSummary, address: str):
    return next(change for change in summary.changes if change.address == address)


def _values(summary: PlanSummary, address: str) -> dict[str, tuple[Any, Any]]:
    return {a.path: (a.before, a.after) for a in _of(summary, address).attributes}


def test_facts_of_the_plan(created: PlanSummary):
    assert created.headline == "network: 11 to create"
    assert created.created_at == "2026-11-20T05:30:19Z"
    assert created.terraform_version == "1.11.4"
    assert created.providers == {"hashicorp/aws": "5.100.0"}
    assert created.changed


def test_counts_and_order_put_what_is_lost_first(changed: PlanSummary):
    assert changed.headline == "network: 3 to update, 2 to replace, 1 to destroy"
    assert [change.action for change in changed.changes] == ["delete", "replace", "replace", "update", "update", "update"]


def test_values_before_and_after_are_compared_leaf_by_leaf(changed: PlanSummary):
    assert _values(changed, "aws_iam_role_policy.worker") == {
        "policy.Statement[0].Action": (["s3:GetObject"], ["s3:GetObject", "s3:PutObject"])
    }
    assert _values(changed, "aws_vpc_security_group_ingress_rule.office") == {"cidr_ipv4": ("203.0.113.0/24", "0.0.0.0/0")}


def test_replacement_names_its_reason(changed: PlanSummary):
    change = _of(changed, "aws_cloudwatch_log_group.hosts")
    assert change.replaced_because_of == ("name",)
    assert change.reason == "the provider can't change it in place"


def test_creations_show_what_is_set_and_not_what_aws_will_answer(created: PlanSummary):
    values = _values(created, "aws_autoscaling_group.workers")
    assert values["max_size"] == (None, 5)
    assert values["vpc_zone_identifier"] == (None, "(known after apply)")
    assert "service_linked_role_arn" not in values


@pytest.mark.parametrize("name", ["create", "change"])
def test_no_secret_leaves_the_plan(name: str):
    document = _document(name)
    assert "hunter" in json.dumps(document)
    encoded = next(r["change"]["after"]["user_data"] for r in document["resource_changes"] if r["type"] == "aws_launch_template")
    text = json.dumps(_summary(document).as_dict())
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
    summary = _summary(_resource({name: value}))
    assert summary.changes[0].attributes[0].sensitive
    assert json.dumps(value)[1:-1] not in json.dumps(summary.as_dict())


@pytest.mark.parametrize(("name", "value"), [("http_tokens", "required"), ("force_overwrite_replica_secret", False), ("token", 3)])
def test_what_only_sounds_secret_is_shown(name: str, value: Any):
    attributes = _summary(_resource({name: value})).changes[0].attributes
    assert [(a.path, a.after) for a in attributes] == [(name, value)]


def test_marks_of_terraform_cover_what_lies_below():
    document = _resource({"block": [{"a": "open", "b": "closed"}], "whole": {"x": "closed"}})
    document["resource_changes"][0]["change"]["after_sensitive"] = {"block": [{"b": True}], "whole": True}
    shown = {a.path: a.after for a in _summary(document).changes[0].attributes}
    assert shown == {"block[0].a": "open", "block[0].b": "(sensitive)", "whole": "(sensitive)"}


def test_one_mark_in_a_plain_list_hides_the_list():
    document = _resource({"list": ["open", "hunter2"]}, {"list": ["hunter1"]})
    document["resource_changes"][0]["change"].update(after_sensitive={"list": [False, True]}, before_sensitive={"list": [True]})
    assert "hunter" not in json.dumps(_summary(document).as_dict())


def test_drift_is_what_somebody_did_and_no_noise(changed: PlanSummary):
    assert len(_document("change")["resource_drift"]) > 2
    assert [change.address for change in changed.drift] == ["aws_cloudwatch_log_group.hosts", "aws_security_group.scheduler"]
    assert [(a.path, a.before, a.after) for a in changed.drift[0].attributes] == [("retention_in_days", 30, 7)]
    ports = [a.after for a in changed.drift[1].attributes if a.path.endswith("from_port")]
    assert ports == [22], "the rules that stay are no part of it"


def test_drift_without_the_rule_by_hand_is_empty():
    document = _document("change")
    for entry in document["resource_drift"]:
        after = entry["change"]["after"]
        if entry["type"] == "aws_security_group":
            after["ingress"] = [rule for rule in after["ingress"] if rule["from_port"] != 22]
        if entry["type"] == "aws_cloudwatch_log_group":
            after["retention_in_days"] = 30
    assert _summary(document).drift == ()


def test_inline_policy_that_nobody_declared_is_drift():
    document = _document("change")
    entry = next(e for e in document["resource_drift"] if e["type"] == "aws_iam_role")
    extra = {"name": "backdoor", "policy": '{"Statement": []}'}
    entry["change"]["after"]["inline_policy"].append(extra)
    assert "aws_iam_role.worker" in [change.address for change in _summary(document).drift]


def test_deleted_beside_terraform_is_drift():
    document = _document("change")
    entry = copy.deepcopy(document["resource_drift"][0])
    entry["change"].update(actions=["delete"], after=None)
    document["resource_drift"] = [entry]
    assert [(c.address, c.action) for c in _summary(document).drift] == [(entry["address"], "delete")]


def test_dangers_of_the_change(changed: PlanSummary):
    found = [(d.kind, d.address) for d in changed.dangers]
    assert found == [
        ("destroy", "aws_autoscaling_group.workers"),
        ("replace", "aws_cloudwatch_log_group.hosts"),
        ("replace", "aws_secretsmanager_secret_version.keys"),
        ("ingress", "aws_vpc_security_group_ingress_rule.office"),
        ("iam", "aws_iam_role_policy.worker"),
    ]
    texts = {d.kind: d.text for d in changed.dangers}
    assert "the whole internet" in texts["ingress"]
    assert texts["iam"] == "allows s3:PutObject on arn:aws:s3:::bucket/*"
    assert "every host of the group ends" in texts["destroy"]


def _resource(after: Any, before: Any = None, *, kind: str = "aws_thing", actions: list[str] | None = None) -> dict[str, Any]:
    actions = actions or (["create"] if before is None else ["update"])
    change = {"actions": actions, "before": before, "after": after, "after_unknown": {}}
    return {"resource_changes": [{"address": f"{kind}.x", "type": kind, "mode": "managed", "change": change}]}


def _dangers(*arguments: Any, **options: Any) -> list[str]:
    return [d.text for d in _summary(_resource(*arguments, **options)).dangers]


def _rule(cidr: str, first: int = 8786, last: int = 8787, protocol: str = "tcp") -> dict[str, Any]:
    return {"cidr_ipv4": cidr, "from_port": first, "to_port": last, "ip_protocol": protocol}


def test_ingress_that_narrows_is_no_danger():
    kind = "aws_vpc_security_group_ingress_rule"
    assert _dangers(_rule("10.1.0.0/16"), _rule("10.0.0.0/8"), kind=kind) == []
    assert _dangers(_rule("10.0.0.0/8"), _rule("10.1.0.0/16"), kind=kind) == ["lets 10.0.0.0/8 in at tcp 8786-8787"]
    assert _dangers(_rule("10.0.0.0/8", 22, 22), _rule("10.0.0.0/8"), kind=kind) == ["lets 10.0.0.0/8 in at tcp 22"]
    assert _dangers({"referenced_security_group_id": "sg-1", "ip_protocol": "-1"}, kind=kind) == []
    assert _dangers({"cidr_ipv6": "::/0", "ip_protocol": "-1"}, kind=kind) == ["lets ::/0 in at every port - the whole internet"]


def test_a_rule_with_another_name_that_lets_in_no_more_is_no_danger():
    kind = "aws_vpc_security_group_ingress_rule"
    old = _resource(None, {**_rule("10.0.0.0/8"), "security_group_id": "sg-1"}, kind=kind, actions=["delete"])
    narrow = _resource({**_rule("10.0.0.0/9"), "security_group_id": "sg-1"}, kind=kind)
    wide = _resource({**_rule("0.0.0.0/1"), "security_group_id": "sg-1"}, kind=kind)
    elsewhere = _resource({**_rule("10.0.0.0/9"), "security_group_id": "sg-2"}, kind=kind)
    found = {
        name: [d.text for d in _summary({"resource_changes": [*old["resource_changes"], *new["resource_changes"]]}).dangers]
        for name, new in (("narrow", narrow), ("wide", wide), ("elsewhere", elsewhere))
    }
    assert found == {
        "narrow": ["is destroyed"],
        "wide": ["is destroyed", "lets 0.0.0.0/1 in at tcp 8786-8787"],
        "elsewhere": ["is destroyed", "lets 10.0.0.0/9 in at tcp 8786-8787"],
    }


def test_ingress_inside_of_a_security_group_is_seen():
    rule = {"cidr_blocks": ["0.0.0.0/0"], "from_port": 22, "to_port": 22, "protocol": "tcp"}
    assert _dangers({"ingress": [rule]}, {"ingress": []}, kind="aws_security_group") == ["lets 0.0.0.0/0 in at tcp 22 - the whole internet"]


def _policy(*statements: dict[str, Any]) -> dict[str, str]:
    return {"policy": json.dumps({"Statement": list(statements)})}


def test_policies_are_compared_by_meaning():
    allow = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "*"}
    same = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": ["*"]}
    assert _dangers(_policy(same), _policy(allow)) == []
    limited = {**allow, "Condition": {"StringEquals": {"aws:ResourceTag/a": "b"}}}
    assert _dangers(_policy(limited), _policy(allow)) == []
    assert _dangers(_policy(same), _policy({**allow, "Action": "s3:Get*"})) == []
    assert _dangers(_policy({**allow, "Action": "s3:*"}), _policy(allow)) == ["allows s3:* on *"]
    assert _dangers(_policy(allow), _policy(limited)) == ["allows s3:GetObject on *"]
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    assert _dangers(_policy(allow), _policy(allow, deny)) == ["no longer denies s3:* on *"]
    more = {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": ["b/*", "c/*"]}
    assert _dangers(_policy(allow, more), _policy(allow, deny)) == [
        "no longer denies s3:* on *; allows s3:DeleteObject, s3:PutObject on b/*; allows s3:DeleteObject, s3:PutObject on c/*"
    ]
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    assert _dangers(_policy(everything)) == ["allows * on *"]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
    assert _dangers({"assume_role_policy": json.dumps({"Statement": trust})}, {"assume_role_policy": "{}"}) == [
        'allows sts:AssumeRole to {"AWS": "*"} on itself'
    ]


def test_policy_known_after_apply_only_is_a_danger():
    document = _resource({}, _policy())
    document["resource_changes"][0]["change"]["after_unknown"] = {"policy": True}
    assert [d.text for d in _summary(document).dangers] == ["policy changes, and is known only after the apply"]


def test_nothing_to_do_says_so():
    summary = _summary({"resource_changes": [_resource({}, {}, actions=["no-op"])["resource_changes"][0]]})
    assert summary.headline == "network: no changes"
    assert not summary.changed


def test_dictionary_is_stable_json_of_a_known_format(changed: PlanSummary):
    data = changed.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data == _summary("change").as_dict()
    assert data["format"] == 1
    assert list(data) == [
        "format", "stack", "plan_sha256", "created_at", "terraform_version", "providers", "counts", "dangers", "changes", "drift",
        "outputs",
    ]  # fmt: skip
    assert data["counts"] == {"create": 0, "update": 3, "replace": 2, "delete": 1, "imports": 0}


# ---- drift after a clean apply ------------------------------------------------------------------------------------------


@pytest.fixture
def clean() -> dict[str, Any]:
    """The plan just after a first apply of the default network: nobody changed anything."""
    return _document("clean")


def test_after_a_clean_apply_every_entry_of_drift_is_noise(clean: dict[str, Any]):
    assert len(clean["resource_drift"]) == 19
    assert _summary(clean).drift == ()


@pytest.mark.parametrize(
    ("address", "name", "value"),
    [
        ("aws_iam_role.worker", "max_session_duration", 43200),
        ("aws_iam_role.worker", "assume_role_policy", '{"Statement": [{"Effect": "Allow", "Principal": "*"}]}'),
        ("aws_security_group.scheduler", "description", "mine"),
        ("aws_route_table.public", "tags", {"Name": "mine"}),
        ("aws_launch_template.worker-x86_64", "default_version", 9),
        ("aws_eip.nat-us-east-1a", "tags", {}),
        ("aws_nat_gateway.nat-us-east-1a", "subnet_id", "subnet-other"),
        ("aws_s3_object.workspace", "etag", "0123456789abcdef0123456789abcdef"),
        ("aws_s3_bucket.workspace", "force_destroy", False),
    ],
)
def test_among_the_noise_a_real_change_stays(clean: dict[str, Any], address: str, name: str, value: Any):
    entry = next(e for e in clean["resource_drift"] if e["address"] == address)
    assert entry["change"]["after"][name] != value
    entry["change"]["after"][name] = value
    assert [change.address for change in _summary(clean).drift] == [address]


@pytest.mark.parametrize(
    ("address", "name", "old"),
    [
        ("aws_route_table.private-us-east-1b", "route", {"cidr_block": "0.0.0.0/0", "nat_gateway_id": "nat-0of0before"}),
        ("aws_security_group.scheduler", "ingress", {"protocol": "tcp", "from_port": 8786, "to_port": 8787, "cidr_blocks": ["10.0.0.0/8"]}),
        ("aws_iam_role.worker", "inline_policy", {"name": "terradask", "policy": '{"Statement": []}'}),
    ],
)
def test_what_the_last_apply_changed_in_another_resource_is_no_drift(clean: dict[str, Any], address: str, name: str, old: dict[str, Any]):
    change = next(e for e in clean["resource_drift"] if e["address"] == address)["change"]
    change["before"][name] = [old]
    assert _summary(clean).drift == ()
    change["after"][name] = [*change["after"][name], {**old, "name": "by hand", "cidr_blocks": ["11.0.0.0/8"], "cidr_block": "11.0.0.0/8"}]
    assert [c.address for c in _summary(clean).drift] == [address]


def test_an_address_without_its_gateway_is_drift(clean: dict[str, Any]):
    resources = clean["prior_state"]["values"]["root_module"]["resources"]
    resources[:] = [r for r in resources if r["type"] != "aws_nat_gateway"]
    assert "aws_eip.nat-us-east-1a" in [change.address for change in _summary(clean).drift]


# ---- what widens ----------------------------------------------------------------------------------------------------


def test_policy_added_to_a_role_that_is_there_widens_it():
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    added = _resource({"role": "worker", **_policy(allow)}, kind="aws_iam_role_policy")
    assert [d.text for d in _summary(added).dangers] == ["allows s3:GetObject on *"]
    attached = _resource({"role": "worker", "policy_arn": "arn:aws:iam::aws:policy/Admin"}, kind="aws_iam_role_policy_attachment")
    assert [d.text for d in _summary(attached).dangers] == ["allows worker what arn:aws:iam::aws:policy/Admin allows"]
    with_role = _resource({"name": "worker"}, kind="aws_iam_role")
    added["resource_changes"] += with_role["resource_changes"]
    assert _summary(added).dangers == ()


def test_role_that_loses_its_boundary_is_wider():
    found = _dangers({"permissions_boundary": None}, {"permissions_boundary": "arn:aws:iam::1:policy/b"}, kind="aws_iam_role")
    assert found == ["is no longer bounded by arn:aws:iam::1:policy/b"]


def test_outputs_that_change_are_told():
    document = {"output_changes": {"url": {"actions": ["update"], "before": "a", "after": "b"}, "same": {"actions": ["no-op"]}}}
    assert [(o.path, o.before, o.after) for o in _summary(document).outputs] == [("url", "a", "b")]
