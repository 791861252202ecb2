"""The record of an account check: nothing that is secret, in the form that the reader of records
takes.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
from pathlib import Path

import botocore.session
import pytest

from terradask._aws.observing import ObservedCall
from terradask._doctor.account_check.harmless import harmless_message
from terradask._doctor.account_check.recorder import cases, names_of

from ..records.record import parse
from ..simulator.secret_search import Secrets

PLANTED = {
    "account": "998877665544",
    "caller": "grace.hopper@acme.example",
    "key": "AKIAQ7VXWZ2LKPLANTED",
    "secret": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    "address": "203.0.113.77/32",
    "instance": "i-0a1b2c3d4e5f60718",
}
ALL = " ".join(PLANTED.values())
ARN = f"arn:aws:iam::{PLANTED['account']}:role/{PLANTED['caller']}"
SOURCES = {"live": {"repository": "AWS"}}

CALLS = json.loads((Path(__file__).parent / "data/aws_calls.json").read_bytes())
ACTIONS = sorted(set(re.findall(r"\b[a-z0-9-]+:[A-Z][A-Za-z0-9]+", json.dumps(CALLS))))
CLIENTS = {"elasticfilesystem": "efs", "servicequotas": "service-quotas", "tag": None}


@functools.cache
def model_of(service):
    return botocore.session.get_session().get_service_model(service)


def call(action, parameters, answer=None, *, status=200, error=None):
    service, operation = action.split(":")
    full = {**(answer or {}), "ResponseMetadata": {"HTTPStatusCode": status, "HostId": ALL}}
    if error:
        full["Error"] = error
    return ObservedCall(model_of(service).operation_model(operation), "us-east-1", parameters, full)


def written(*calls):
    found = list(cases("step", list(calls), "2026-11-27T00:00:00Z", names_of([calls])))
    parse({"sources": SOURCES, "cases": found}, "record.json")
    return found


def filled(shape, text, depth=0):
    """A value of a shape with what is planted wherever it may stand."""
    if shape is None:
        return {}
    kind = shape.type_name
    if kind == "structure":
        return (
            {key: filled(one, text, depth + 1) for key, one in shape.members.items()}
            if depth < 7
            else {}
        )
    if kind == "list":
        return [filled(shape.member, text, depth + 1)]
    if kind == "map":
        return {text: filled(shape.value, text, depth + 1)}
    if getattr(shape, "enum", ()):
        return shape.enum[0]  # AWS's own
    return {
        "string": text,
        "blob": text.encode(),
        "timestamp": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "boolean": True,
    }.get(kind, int(PLANTED["account"]))


def operations():
    known = set(botocore.session.get_session().get_available_services())
    for action in ACTIONS:
        service, operation = action.split(":")
        if service in known and operation in model_of(service).operation_names:
            yield action


@pytest.mark.parametrize("planted", [*PLANTED, "all", "arn"])
def test_nothing_that_is_planted_is_in_a_record(planted):
    secrets, count = Secrets(PLANTED), 0
    one = {**PLANTED, "all": ALL, "arn": ARN}[planted]
    for action in operations():
        service, operation = action.split(":")
        model, count = model_of(service).operation_model(operation), count + 1
        asked, told = filled(model.input_shape, one), filled(model.output_shape, one)
        error = {"Code": "Failed", "Message": f"{one} of '{ARN}'", "Type": one, "Detail": one}
        for found in (
            written(call(action, asked, told)),
            written(call(action, asked, {"message": one}, status=400, error=error)),
        ):
            text = json.dumps(found)
            assert secrets.find(action, text.encode()) == []
            assert not re.search("grace|acme|hopper", text), action
    assert count > 60


def test_what_a_call_made_is_kept_for_the_next():
    role = call(
        "iam:CreateRole",
        {
            "RoleName": "acme-check",
            "AssumeRolePolicyDocument": '{"Statement": [{"Effect": "Allow", "Resource": "*"}]}',
        },
        {"Role": {"RoleName": "acme-check", "Arn": ARN, "Path": "/", "CreateDate": "now"}},
    )
    policy = call(
        "iam:CreatePolicy",
        {"PolicyName": "acme", "PolicyDocument": "{}"},
        {"Policy": {"Arn": f"{ARN}/policy", "AttachmentCount": 0}},
    )
    attach = call(
        "iam:AttachRolePolicy", {"RoleName": "acme-check", "PolicyArn": f"{ARN}/policy"}, {}
    )
    (case,) = written(role, policy, attach)
    made, policy, attached = case["calls"]
    assert "not_replayed" not in case
    assert made["parameters"]["RoleName"] == "${role_name}"
    assert made["parameters"]["AssumeRolePolicyDocument"]["Statement"][0]["Effect"] == "Allow"
    assert made["answer"]["Role"] == {
        "RoleName": "${role_name}",
        "Arn": "<…>",
        "Path": "/",
        "CreateDate": "<…>",
    }
    assert policy["keep"] == {"policy_arn": "Policy.Arn"}
    assert policy["answer"] == {"Policy": {"Arn": "<…>", "AttachmentCount": "<number>"}}
    assert attached["parameters"] == {"RoleName": "${role_name}", "PolicyArn": "${policy_arn}"}


@pytest.mark.parametrize(
    ("asked", "alone"),
    [
        (call("ec2:DescribeVpcs", {}, {"Vpcs": []}), True),
        (call("ec2:DescribeVpcs", {"VpcIds": ["vpc-1234abcd"]}, {"Vpcs": []}), False),
        (call("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"}, {"Vpc": {}}), True),
        (call("iam:CreateRole", {"RoleName": "a", "PermissionsBoundary": ARN}, {}), False),
        (
            call("s3:HeadBucket", {"Bucket": "acme"}, {}, status=404, error={"Code": "404"}),
            True,
        ),
        (
            call("iam:ListRoles", {}, {}, status=403, error={"Code": "AccessDenied"}),
            False,
        ),
    ],
)
def test_what_needs_others_resources_is_marked(asked, alone):
    (case,) = written(asked)
    assert ("not_replayed" not in case) == alone


def test_lists_are_shapes_and_repeated_calls_are_one():
    zones = [
        {"ZoneName": "us-east-1a", "State": "available"},
        {"ZoneName": "us-east-1b", "State": "available"},
        {"ZoneName": "us-east-1c", "State": "impaired"},
    ]
    asked = call(
        "ec2:DescribeAvailabilityZones", {}, {"AvailabilityZones": zones, "NextToken": "t"}
    )
    (case,) = written(asked, asked)
    assert [one["answer"] for one in case["calls"]] == [
        {
            "AvailabilityZones": [
                {"ZoneName": "<…>", "State": "available"},
                {"ZoneName": "<…>", "State": "impaired"},
                "<more>",
            ],
        }
    ] or case["calls"][0]["answer"].pop("NextToken")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            f"User: {ARN} is not authorized to perform: ec2:CreateVpc on resource: {ARN}",
            "User: <…> is not authorized to perform: ec2:CreateVpc on resource: <…>",
        ),
        (
            "The role with name grace cannot be found.",
            "The role with name <…> cannot be found.",
        ),
        (
            "Encoded authorization failure message: xY9z-AbCdEfGhIjKlMnOpQrStUvWxYz",
            "Encoded authorization failure message: <…>",
        ),
        ("Secrets Manager can't find the secret.", "Secrets Manager can't find the secret."),
        ("1 validation error detected: Value", "1 validation error detected: Value"),
    ],
)
def test_a_message_keeps_its_words(message, shown):
    assert harmless_message(message, frozenset({"grace"})) == shown
