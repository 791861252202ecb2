"""Refusals of AWS: read from their texts, and the policies that would allow them."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from terradask._aws.translation import typed_error
from terradask._workspace.missing_rights import policy_with
from terradask.errors import AccessDenied
from terradask_modules.caller_policies import CallerScope
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where

PLACE = Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
SCOPE = CallerScope(
    hosts=PolicyScope(where=PLACE),
    network_state="terradask-state-123456789012-us-east-1/workspaces/default/network.tfstate",
)
BUCKET = "arn:aws:s3:::terradask-default-123456789012-us-east-1"


@pytest.mark.parametrize(
    ("why", "by", "advice"),
    [
        ("because no identity-based policy allows it", "role", "ask an administrator to allow"),
        (
            "with an explicit deny in a service control policy",
            "organization",
            "a policy of the organization refuses it, which its managers change. Ask an admin",
        ),
        (
            "because no permissions boundary allows it",
            "boundary",
            "this caller's permissions boundary has to allow it, too. Ask",
        ),
        ("because no VPC endpoint policy allows it", "endpoint", "the policy of the VPC's"),
        ("because no session policy allows it", "session", "log in without a session policy"),
        ("", None, "ask an administrator"),
    ],
)
def test_a_refusal_names_the_resource_and_whoever_can_change_it(
    why: str, by: str | None, advice: str
) -> None:
    message = (
        "User: arn:aws:iam::123456789012:user/ada is not authorized to perform: s3:GetObject on "
        f'resource: "{BUCKET}/clusters/etl/run.json" {why}'
    )
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, "GetObject")
    typed = typed_error(error, "us-east-1")
    assert isinstance(typed, AccessDenied)
    assert (typed.action, typed.by) == ("s3:GetObject", by)
    assert typed.resource == f"{BUCKET}/clusters/etl/run.json"
    assert advice in str(typed.advice)


@pytest.mark.parametrize(
    ("action", "resource", "policy"),
    [
        ("ec2:DescribeVolumes", None, "user"),
        ("s3:GetObject", f"{BUCKET}/clusters/etl/run.json", "user"),
        ("s3:GetObject", f"arn:aws:s3:::{SCOPE.network_state}", "ongoing"),
        ("s3:GetObject", "arn:aws:s3:::elsewhere/x", None),
        ("iam:CreateRole", "arn:aws:iam::123456789012:role/terradask-default-worker", "setup"),
        ("freetier:GetAccountPlanState", None, None),
    ],
)
def test_the_policy_with_a_right_is_that_with_the_fewest(
    action: str, resource: str | None, policy: str | None
) -> None:
    assert policy_with(SCOPE, action, resource) == policy
