"""Service-linked roles and the key of volumes: what is found, made and said. No AWS is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.stub import Stubber

from terradask._aws.service_roles import ensure_service_roles, find_service_roles
from terradask._doctor.doctor import check_service_roles
from terradask._doctor.finding import Finding
from terradask._doctor.volume_key_check import (
    check_volume_key,
    missing_statements,
    statements_for,
)
from terradask.errors import AccessDenied, AwsError

from .stubbed_aws import ACCOUNT, StubbedAws, aws

__all__ = ["aws"]

KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
ROLE = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/"
    "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
)
FOUND = {
    "Role": {"Path": "/", "RoleName": "x", "RoleId": "A" * 16, "Arn": "a" * 20, "CreateDate": 0}
}
TAKEN = (
    "Service role name AWSServiceRoleForAutoScaling has been taken in this account, please "
    "try a different suffix."
)


def missing(stub: Stubber) -> None:
    stub.add_client_error("get_role", "NoSuchEntity", http_status_code=404)


def denied(stub: Stubber, method: str, action: str) -> None:
    stub.add_client_error(
        method,
        "AccessDenied",
        f"User: x is not authorized to perform: {action} on resource: y",
        http_status_code=403,
    )


# ---- service-linked roles ------------------------------------------------------------------------


def test_roles_are_found_missing_or_not_to_be_seen(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    iam.add_response("get_role", FOUND, {"RoleName": "AWSServiceRoleForAutoScaling"})
    missing(iam)
    autoscaling, spot = find_service_roles(aws)
    assert (autoscaling.exists, spot.exists) == (True, False)
    assert (
        spot.command == "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    )
    for _ in range(2):
        denied(iam, "get_role", "iam:GetRole")
    assert [role.exists for role in find_service_roles(aws)] == [None, None]


def test_missing_roles_are_made_once(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    iam.add_response("get_role", FOUND)
    missing(iam)
    iam.add_response("create_service_linked_role", FOUND, {"AWSServiceName": "spot.amazonaws.com"})
    assert [role.name for role in ensure_service_roles(aws)] == ["AWSServiceRoleForEC2Spot"]
    for _ in range(2):
        iam.add_response("get_role", FOUND)
    assert ensure_service_roles(aws) == []


def test_role_that_somebody_else_made_in_between_is_no_error(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    missing(iam)
    iam.add_response("get_role", FOUND)
    iam.add_client_error("create_service_linked_role", "InvalidInput", TAKEN)
    assert ensure_service_roles(aws) == []


def test_wrong_input_stays_an_error(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    missing(iam)
    iam.add_response("get_role", FOUND)
    iam.add_client_error("create_service_linked_role", "InvalidInput", "no such service")
    with pytest.raises(aws.client("iam").exceptions.InvalidInputException):
        ensure_service_roles(aws)


def test_missing_role_that_may_not_be_made_says_who_can(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    missing(iam)
    iam.add_response("get_role", FOUND)
    denied(iam, "create_service_linked_role", "iam:CreateServiceLinkedRole")
    with pytest.raises(AwsError, match="AWSServiceRoleForAutoScaling") as caught:
        ensure_service_roles(aws)
    assert caught.value.given == "AWS refuses iam:CreateServiceLinkedRole"
    assert "create-service-linked-role --aws-service-name autoscaling.amazonaws.com" in str(
        caught.value
    )


def test_role_that_may_neither_be_seen_nor_made_stops_nobody(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    for _ in range(2):
        denied(iam, "get_role", "iam:GetRole")
    for _ in range(2):
        denied(iam, "create_service_linked_role", "iam:CreateServiceLinkedRole")
    assert ensure_service_roles(aws) == []


def test_missing_role_of_spot_that_may_not_be_made_stops_nobody(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    iam.add_response("get_role", FOUND)
    missing(iam)
    denied(iam, "create_service_linked_role", "iam:CreateServiceLinkedRole")
    assert ensure_service_roles(aws) == []


def test_doctor_misses_the_role_of_auto_scaling_alone(aws: StubbedAws) -> None:
    iam = aws.stub("iam")
    missing(iam)
    missing(iam)
    finding = check_service_roles(aws)
    assert not finding.ok
    assert "terradask apply network" in str(finding.fix)
    iam.add_response("get_role", FOUND)
    missing(iam)
    finding = check_service_roles(aws)
    assert finding.ok
    assert "AWSServiceRoleForEC2Spot is missing" in finding.found


# ---- the key of volumes --------------------------------------------------------------------------


def allow(action: str | list[str], principal: Any, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Principal": principal, "Resource": "*", **more}


WHOLE = [*statements_for(ROLE)]
ROOT = allow("kms:*", {"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
OF_ACCOUNT = {"StringEquals": {"kms:CallerAccount": ACCOUNT}}


@pytest.mark.parametrize(
    ("statements", "lacking"),
    [
        ([ROOT, *WHOLE], 0),
        # The account may, but the role's own policy says nothing of keys.
        ([ROOT], 2),
        ([ROOT, WHOLE[0]], 1),
        ([allow("kms:*", {"AWS": [ROLE]})], 0),
        ([allow("kms:*", "*", Condition=OF_ACCOUNT)], 0),
        (
            [
                allow(
                    "kms:*",
                    {"AWS": "*"},
                    Condition={"StringEquals": {"kms:CallerAccount": "999999999999"}},
                )
            ],
            2,
        ),
        (
            [
                allow(
                    "kms:*", {"AWS": ROLE}, Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
                )
            ],
            2,
        ),
        ([*WHOLE, {**allow("kms:CreateGrant", "*"), "Effect": "Deny"}], 1),
        ([allow("kms:*", {"AWS": ROLE.replace("AutoScaling", "Other")})], 2),
        ([allow(["kms:Decrypt"], {"AWS": ROLE}), WHOLE[1]], 1),
    ],
)
def test_statements_that_a_keys_policy_lacks(
    statements: list[dict[str, Any]], lacking: int
) -> None:
    assert len(missing_statements({"Statement": statements}, role=ROLE, account=ACCOUNT)) == lacking


def test_what_is_lacking_is_what_to_add() -> None:
    lacking = missing_statements({"Statement": ROOT}, role=ROLE, account=ACCOUNT)
    assert missing_statements({"Statement": [ROOT, *lacking]}, role=ROLE, account=ACCOUNT) == ()


def described(**fields: Any) -> dict[str, Any]:
    return {
        "KeyMetadata": {
            "KeyId": KEY,
            "Arn": KEY,
            "KeyState": "Enabled",
            "KeySpec": "SYMMETRIC_DEFAULT",
            **fields,
        }
    }


@contextmanager
def key(aws: StubbedAws, statements: list[dict[str, Any]]) -> Iterator[Stubber]:
    kms = aws.stub("kms")
    kms.add_response("describe_key", described())
    kms.add_response("get_key_policy", {"Policy": json.dumps({"Statement": statements})})
    yield kms


def test_key_that_auto_scaling_may_use(aws: StubbedAws) -> None:
    with key(aws, WHOLE):
        assert check_volume_key(aws, KEY) == Finding(
            "volume-key", True, f"the policy of {KEY} lets AWSServiceRoleForAutoScaling use the key"
        )


def test_key_that_it_may_not_use_says_what_to_add(aws: StubbedAws) -> None:
    with key(aws, [ROOT]) as kms:
        kms.add_response("list_grants", {"Grants": []}, {"KeyId": KEY, "GranteePrincipal": ROLE})
        check = check_volume_key(aws, KEY)
    assert check.ok is False
    assert json.loads(str(check.fix).removeprefix("add to the key's policy: ")) == list(
        statements_for(ROLE)
    )


def test_grant_stands_in_for_the_policy(aws: StubbedAws) -> None:
    operations = [
        "Encrypt",
        "Decrypt",
        "ReEncryptFrom",
        "ReEncryptTo",
        "GenerateDataKey",
        "GenerateDataKeyWithoutPlaintext",
        "DescribeKey",
        "CreateGrant",
    ]
    with key(aws, [ROOT]) as kms:
        kms.add_response(
            "list_grants", {"Grants": [{"GranteePrincipal": ROLE, "Operations": operations}]}
        )
        assert check_volume_key(aws, KEY).ok


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"KeyState": "Disabled"}, "Disabled"), ({"KeySpec": "RSA_2048"}, "symmetric")],
)
def test_key_that_no_volume_takes(aws: StubbedAws, fields: dict[str, str], said: str) -> None:
    aws.stub("kms").add_response("describe_key", described(**fields))
    finding = check_volume_key(aws, KEY)
    assert not finding.ok
    assert said in finding.found
    assert finding.fix == "correct network.kms_key_arn"


def test_key_that_is_not_there_or_not_to_be_seen(aws: StubbedAws) -> None:
    kms = aws.stub("kms")
    kms.add_client_error("describe_key", "NotFoundException")
    denied(kms, "describe_key", "kms:DescribeKey")
    assert not check_volume_key(aws, KEY).ok
    finding = check_volume_key(aws, KEY)
    assert finding.ok
    assert "kms:DescribeKey" in finding.found


def test_no_key_needs_no_aws(aws: StubbedAws) -> None:
    assert check_volume_key(aws, None).ok


def test_other_refusals_are_explained(aws: StubbedAws) -> None:
    aws.stub("iam").add_client_error("get_role", "ExpiredToken")
    with pytest.raises(Exception, match="expired") as caught:
        find_service_roles(aws)
    assert not isinstance(caught.value, AccessDenied)
