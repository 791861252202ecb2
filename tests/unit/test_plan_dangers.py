"""Dangers of a plan: what it loses, lets in, or widens."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from terradask._plans.summary import PlanSummary
from terradask_modules.policies import PolicyScope, worker_policy
from terradask_modules.task_rights import DataBucket, TaskRight
from terradask_modules.where import Where

from .plan_documents import changed_resource, dangers_of, policy_text, rule_to, summary_of


@pytest.fixture(scope="module")
def changed() -> PlanSummary:
    return summary_of("change")


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


def test_ingress_that_narrows_is_no_danger():
    kind = "aws_vpc_security_group_ingress_rule"
    assert dangers_of(rule_to("10.1.0.0/16"), rule_to("10.0.0.0/8"), kind=kind) == []
    assert dangers_of(rule_to("10.0.0.0/8"), rule_to("10.1.0.0/16"), kind=kind) == [
        "lets 10.0.0.0/8 in at tcp 8786-8787"
    ]
    assert dangers_of(rule_to("10.0.0.0/8", 22, 22), rule_to("10.0.0.0/8"), kind=kind) == [
        "lets 10.0.0.0/8 in at tcp 22"
    ]
    assert (
        dangers_of({"referenced_security_group_id": "sg-1", "ip_protocol": "-1"}, kind=kind) == []
    )
    assert dangers_of({"cidr_ipv6": "::/0", "ip_protocol": "-1"}, kind=kind) == [
        "lets ::/0 in at every port - the whole internet"
    ]


def test_a_rule_with_another_name_that_lets_in_no_more_is_no_danger():
    kind = "aws_vpc_security_group_ingress_rule"
    old = changed_resource(
        None, {**rule_to("10.0.0.0/8"), "security_group_id": "sg-1"}, kind=kind, actions=["delete"]
    )
    narrow = changed_resource({**rule_to("10.0.0.0/9"), "security_group_id": "sg-1"}, kind=kind)
    wide = changed_resource({**rule_to("0.0.0.0/1"), "security_group_id": "sg-1"}, kind=kind)
    elsewhere = changed_resource({**rule_to("10.0.0.0/9"), "security_group_id": "sg-2"}, kind=kind)
    found = {
        name: [
            d.text
            for d in summary_of(
                {"resource_changes": [*old["resource_changes"], *new["resource_changes"]]}
            ).dangers
        ]
        for name, new in (("narrow", narrow), ("wide", wide), ("elsewhere", elsewhere))
    }
    assert found == {
        "narrow": ["is destroyed"],
        "wide": ["is destroyed", "lets 0.0.0.0/1 in at tcp 8786-8787"],
        "elsewhere": ["is destroyed", "lets 10.0.0.0/9 in at tcp 8786-8787"],
    }


def test_ingress_inside_of_a_security_group_is_seen():
    rule = {"cidr_blocks": ["0.0.0.0/0"], "from_port": 22, "to_port": 22, "protocol": "tcp"}
    assert dangers_of({"ingress": [rule]}, {"ingress": []}, kind="aws_security_group") == [
        "lets 0.0.0.0/0 in at tcp 22 - the whole internet"
    ]


def test_policies_are_compared_by_meaning():
    allow = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "*"}
    same = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": ["*"]}
    assert dangers_of(policy_text(same), policy_text(allow)) == []
    limited = {**allow, "Condition": {"StringEquals": {"aws:ResourceTag/a": "b"}}}
    assert dangers_of(policy_text(limited), policy_text(allow)) == []
    assert dangers_of(policy_text(same), policy_text({**allow, "Action": "s3:Get*"})) == []
    assert dangers_of(policy_text({**allow, "Action": "s3:*"}), policy_text(allow)) == [
        "allows s3:* on *"
    ]
    assert dangers_of(policy_text(allow), policy_text(limited)) == ["allows s3:GetObject on *"]
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    assert dangers_of(policy_text(allow), policy_text(allow, deny)) == [
        "no longer denies s3:* on *"
    ]
    more = {
        "Effect": "Allow",
        "Action": ["s3:PutObject", "s3:DeleteObject"],
        "Resource": ["b/*", "c/*"],
    }
    assert dangers_of(policy_text(allow, more), policy_text(allow, deny)) == [
        (
            "no longer denies s3:* on *; allows s3:DeleteObject, s3:PutObject on b/*; allows "
            "s3:DeleteObject, s3:PutObject on c/*"
        )
    ]
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    assert dangers_of(policy_text(everything)) == ["allows * on *"]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
    assert dangers_of(
        {"assume_role_policy": json.dumps({"Statement": trust})}, {"assume_role_policy": "{}"}
    ) == ['allows sts:AssumeRole to {"AWS": "*"} on itself']


def test_policy_known_after_apply_only_is_a_danger():
    document = changed_resource({}, policy_text())
    document["resource_changes"][0]["change"]["after_unknown"] = {"policy": True}
    assert [d.text for d in summary_of(document).dangers] == [
        "policy changes, with a value known only after the apply"
    ]


def test_policy_added_to_a_role_that_is_there_widens_it():
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    added = changed_resource({"role": "worker", **policy_text(allow)}, kind="aws_iam_role_policy")
    assert [d.text for d in summary_of(added).dangers] == ["allows s3:GetObject on *"]
    attached = changed_resource(
        {"role": "worker", "policy_arn": "arn:aws:iam::aws:policy/Admin"},
        kind="aws_iam_role_policy_attachment",
    )
    assert [d.text for d in summary_of(attached).dangers] == [
        "gives worker the permissions of arn:aws:iam::aws:policy/Admin"
    ]
    with_role = changed_resource({"name": "worker"}, kind="aws_iam_role")
    added["resource_changes"] += with_role["resource_changes"]
    assert summary_of(added).dangers == ()


def test_wider_rights_of_tasks_are_dangers():
    where = Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/prices"
    right = TaskRight(reason="prices", actions=("dynamodb:GetItem",), resources=(table,))
    read = PolicyScope(where=where, data_buckets=[DataBucket(path="lake", access="read")])
    more = replace(read, data_buckets=[DataBucket(path="lake")], task_rights=[right])

    (told,) = dangers_of({"policy": worker_policy(more)}, {"policy": worker_policy(read)})
    assert told == (
        f"allows dynamodb:GetItem on {table}; allows s3:AbortMultipartUpload, s3:DeleteObject, "
        "s3:ListMultipartUploadParts, s3:PutObject on arn:aws:s3:::lake/*"
    )
    assert dangers_of({"policy": worker_policy(read)}, {"policy": worker_policy(more)}) == []


def test_role_that_loses_its_boundary_is_wider():
    found = dangers_of(
        {"permissions_boundary": None},
        {"permissions_boundary": "arn:aws:iam::1:policy/b"},
        kind="aws_iam_role",
    )
    assert found == ["loses its permissions boundary arn:aws:iam::1:policy/b"]


EGRESS = "aws_vpc_security_group_egress_rule"
GROUP = {"id": "sg-1", "name": "terradask-default-worker"}


def let_out(**rule: object) -> list[str]:
    """Return what a new rule of workers is told with, on a network that exists."""
    new = changed_resource(
        {"security_group_id": "sg-1", "ip_protocol": "tcp", "from_port": 5432, "to_port": 5432}
        | {"description": "orders database"}
        | rule,
        kind=EGRESS,
    )
    network = {
        "aws_security_group": GROUP,
        "aws_vpc": {"cidr_block": "10.64.0.0/16"},
        "aws_eip": {"public_ip": "203.0.113.9"},
    }
    kept = [
        entry
        for kind, values in network.items()
        for entry in changed_resource(values, values, kind=kind, actions=["no-op"])[
            "resource_changes"
        ]
    ]
    found = summary_of({"resource_changes": [*kept, *new["resource_changes"]]}).dangers
    assert {danger.kind for danger in found} <= {"egress"}
    return [danger.text for danger in found]


@pytest.mark.parametrize(
    "peer",
    [
        {"cidr_ipv4": "10.1.0.0/16"},
        {"cidr_ipv6": "fd00:ec2::/56"},
        {"referenced_security_group_id": "123456789012/sg-2"},
        {"prefix_list_id": "pl-1"},
    ],
)
def test_a_new_destination_is_told_with_whom_its_owner_must_admit(peer: dict[str, str]) -> None:
    (destination,) = peer.values()
    assert let_out(**peer) == [
        f"lets hosts out to {destination} at tcp 5432 (orders database); the other side must admit "
        "sg-1 (terradask-default-worker)"
    ]


def test_the_internet_is_reached_from_the_nat_gateways_address() -> None:
    assert let_out(cidr_ipv4="0.0.0.0/0", from_port=22, to_port=22) == [
        "lets hosts out to 0.0.0.0/0 at tcp 22 - the whole internet (orders database); the other "
        "side must admit 203.0.113.9"
    ]


def test_the_ways_out_of_every_network_are_no_danger() -> None:
    assert let_out(cidr_ipv4="0.0.0.0/0", from_port=443, to_port=443) == []
    assert let_out(cidr_ipv4="10.64.0.0/16", ip_protocol="-1") == []
    assert let_out(referenced_security_group_id="sg-1", from_port=1024, to_port=65535) == []


def test_egress_that_narrows_is_no_danger() -> None:
    wide = {**rule_to("10.0.0.0/8"), "security_group_id": "sg-1"}
    narrow = {**wide, "cidr_ipv4": "10.1.0.0/16"}
    assert dangers_of(narrow, wide, kind=EGRESS) == []
    (told,) = dangers_of(wide, narrow, kind=EGRESS)
    assert told.startswith("lets hosts out to 10.0.0.0/8 at tcp 8786-8787; the other side")
    listed = {"id": "sg-1", "egress": [{"cidr_blocks": ["::/0"], "protocol": "-1"}]}
    (told,) = dangers_of(listed, {"id": "sg-1", "egress": []}, kind="aws_security_group")
    assert told.startswith("lets hosts out to ::/0 at every port - the whole internet")
