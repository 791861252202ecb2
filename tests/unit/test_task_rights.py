"""What tasks may do outside the workspace: as settings say it, as policies have it, and what is
refused since a task could raise itself by it.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from terradask_modules.policies import access_statements
from terradask_modules.task_limits import overlap, raising
from terradask_stacks.settings import NetworkSettings, Settings
from terradask_stacks.settings.task_rights import entry_for

ACCOUNT, REGION = "123456789012", "us-east-1"
BUCKET = f"arn:aws:s3:::terradask-default-{ACCOUNT}-{REGION}"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0123abcd-01ab-23cd-45ef-0123456789ab"
FAR_KEY = KEY.replace(REGION, "eu-west-1")
TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/prices"
POLICY = f"arn:aws:iam::{ACCOUNT}:policy/athena"
REPOSITORY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/dask"

RAISING = {
    "everything": ("*", "*"),
    "all of IAM": ("iam:*", "*"),
    "passing a role, by a wildcard": ("iam:P*", TABLE),
    "passing a role, in other letters": ("IAM:passrole", f"arn:aws:iam::{ACCOUNT}:role/data"),
    "a wildcard of one letter": ("iam:P?ssRole", "*"),
    "the account's limits": ("organizations:LeaveOrganization", "*"),
    "any role": ("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/*"),
    "another role of terradask's": (
        "sts:Assume*",
        f"arn:aws:iam::{ACCOUNT}:role/platform/terradask-default-scheduler",
    ),
    "all objects": ("s3:GetObject", "arn:aws:s3:::*"),
    "objects by their key": ("s3:PutObject", "arn:aws:s3:::*/run.json"),
    "an object of a workspace": ("s3:PutObject", f"{BUCKET}/clusters/etl/run.json"),
    "a workspace's bucket": ("s3:PutBucketPolicy", BUCKET),
    "buckets of all workspaces": ("s3:Get*", "arn:aws:s3:::terra*"),
    "a letter left open": ("s3:GetObject", f"{BUCKET.replace('terradask', 'terr?dask')}/*"),
    "an ARN without its end": ("s3:GetObject", "arn:aws:s3*"),
    "an access point": ("s3:CreateAccessPoint", f"arn:aws:s3:{REGION}:{ACCOUNT}:accesspoint/mine"),
    "all secrets": ("secretsmanager:GetSecretValue", "*"),
    "secrets of clusters": (
        "secretsmanager:GetSecretValue",
        f"{SECRET}:terradask/default/ml-??????",
    ),
    "secrets that begin alike": ("secretsmanager:*", f"{SECRET}:t*"),
    "a cluster's group": (
        "autoscaling:UpdateAutoScalingGroup",
        f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/*",
    ),
    "machines": ("ec2:RunInstances", "*"),
    "disks": ("ec2:CreateSnapshot", f"arn:aws:ec2:{REGION}:{ACCOUNT}:volume/*"),
    "logging in": ("ec2-instance-connect:SendSSHPublicKey", "*"),
    "commands on machines": ("ssm:SendCommand", "*"),
    "sessions, by a wildcard": ("ssm:S*", "*"),
    "a key's policy": ("kms:PutKeyPolicy", KEY),
    "a key's grants, by a wildcard": ("kms:*", KEY),
}
#: Near to one of those above.
HARMLESS = {
    "a bucket whose name begins alike": ("s3:*Object", "arn:aws:s3:::terradask-data/*"),
    "where buckets are": ("s3:ListAllMyBuckets", "*"),
    "one role": ("sts:AssumeRole", "arn:aws:iam::210987654321:role/lake-reader"),
    "its own name": ("sts:GetCallerIdentity", "*"),
    "one secret": ("secretsmanager:GetSecretValue", f"{SECRET}:orders-AbCdEf"),
    "a team's secrets": ("secretsmanager:GetSecretValue", f"{SECRET}:team/*"),
    "names of secrets": ("secretsmanager:ListSecrets", "*"),
    "a parameter": ("ssm:GetParameter*", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/token"),
    "decrypting": ("kms:Decrypt", KEY),
    "an access point's objects": (
        "s3:GetObject",
        f"arn:aws:s3:{REGION}:{ACCOUNT}:accesspoint/lake/object/*",
    ),
    "lists of machines": ("ec2:DescribeInstances", "*"),
    "all of a service that has no machines": ("dynamodb:*", "*"),
}


def settings(**network: Any) -> Settings:
    return Settings.model_validate({"network": network})


def statements(**network: Any) -> dict[str, dict[str, Any]]:
    given = settings(**network)
    hosts = given.network.hosts(given.workspace.where(ACCOUNT))
    return {one.pop("Sid"): one for one in access_statements(hosts)}


def right(**more: Any) -> dict[str, Any]:
    return {"reason": "prices", "actions": ["dynamodb:GetItem"], "resources": [TABLE], **more}


@pytest.mark.parametrize("what", RAISING)
def test_what_lets_a_task_raise_itself_is_refused(what: str) -> None:
    action, resource = RAISING[what]

    assert [(one.action, one.resource) for one in raising([action], [resource])] == [
        (action, resource)
    ]


@pytest.mark.parametrize("what", HARMLESS)
def test_what_is_near_to_it_is_not(what: str) -> None:
    action, resource = HARMLESS[what]

    assert list(raising([action], [resource])) == []


def test_the_refusal_names_entry_action_and_resource() -> None:
    with pytest.raises(ValidationError) as caught:
        settings(task_rights=[right(), right(reason="helper", actions=["iam:P*"], resources=["*"])])

    (error,) = caught.value.errors()
    assert error["loc"] == ("network", "task_rights", 1)
    assert "'helper' allows iam:P* on *, by which a task could raise itself" in error["msg"]
    assert error["ctx"]["advice"] == "name the actions and the ARNs that your tasks use"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (right(reason=""), "at least 1|match pattern"),
        (right(reason="${aws}"), "match pattern"),
        (right(reason="…"), "has no letters"),
        (right(actions=[]), "neither a statement nor a managed policy"),
        (right(policy_arn=POLICY), "neither a statement nor a managed policy"),
        ({"reason": "athena", "policy_arn": "athena"}, "not the ARN of an IAM policy"),
        (
            {"reason": "athena", "policy_arn": POLICY.replace("aws:", "aws-cn:", 1)},
            "another partition",
        ),
        (right(clusters=["etl"]), "is for etl alone, and clusters share"),
        (right(clusters=["Etl!"]), "cluster's name"),
        (right(clusters=[]), "at least 1"),
        (right(actions=["GetItem"]), "'GetItem' is not an action of IAM"),
        (right(actions=["dynamodb:GetItem"] * 2), "given twice"),
        (right(resources=["prices"]), "'prices' is not the ARN of a resource"),
        (right(resources=[f"{TABLE}/${{aws:username}}"]), "is not the ARN"),
        (right(resources=[TABLE.replace("aws:", "aws-cn:", 1)]), "another partition"),
        (
            right(conditions={"StringEquals": {"a:b": "${aws:username}"}}),
            "values without variables",
        ),
        (right(conditions={"StringEquals": ["x"]}), "valid dictionary"),
    ],
)
def test_bad_entries_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(task_rights=[given])


def test_an_entry_is_a_statement_with_its_reason() -> None:
    conditions = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["a", "b"]}}
    given = [
        right(reason="prices, by key", conditions=conditions),
        right(reason="Prices by key"),
        right(reason="prices by key", actions=["dynamodb:Query", "dynamodb:Scan"]),
    ]

    assert statements(task_rights=given) == {
        "TaskPricesByKey": {
            "Effect": "Allow",
            "Action": "dynamodb:GetItem",
            "Resource": TABLE,
            "Condition": conditions,
        },
        "TaskPricesByKey1": {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": TABLE},
        "TaskPricesByKey2": {
            "Effect": "Allow",
            "Action": ["dynamodb:Query", "dynamodb:Scan"],
            "Resource": TABLE,
        },
    }


def test_a_text_is_a_bucket_to_write() -> None:
    table = {"name": "lake", "prefix": "raw", "access": "write"}

    assert statements(data_buckets=["lake/raw"]) == statements(data_buckets=[table])


def test_a_bucket_to_read_with_its_key() -> None:
    found = statements(
        data_buckets=[
            "results",
            {"name": "lake", "prefix": "2026/", "kms_key_arn": KEY},
            {"name": "far", "access": "write", "kms_key_arn": FAR_KEY},
        ]
    )

    assert found["ReadData"]["Action"] == "s3:GetObject"
    assert found["ReadData"]["Resource"] == "arn:aws:s3:::lake/2026/*"
    assert found["UseData"]["Resource"] == ["arn:aws:s3:::far/*", "arn:aws:s3:::results/*"]
    assert found["ReadDataKeysUsEast1"] == {
        "Effect": "Allow",
        "Action": "kms:Decrypt",
        "Resource": KEY,
        "Condition": {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}},
    }
    assert found["UseDataKeysEuWest1"] == {
        "Effect": "Allow",
        "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Resource": FAR_KEY,
        "Condition": {"StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}},
    }


@pytest.mark.parametrize(
    ("bucket", "message"),
    [
        (f"terradask-default-{ACCOUNT}-{REGION}", "a workspace's bucket"),
        ({"name": f"terradask-state-{ACCOUNT}-{REGION}"}, "a workspace's bucket"),
        ("states", "the networks' states"),
        ("states/workspaces/default", "the networks' states"),
        ({"name": "s3://lake"}, "not the name of an S3 bucket"),
        ({"name": "lake", "prefix": "*"}, "no \\*"),
        ({"name": "lake", "access": "own"}, "'read' or 'write'"),
        ({"name": "lake", "kms_key_arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:alias/x"}, "KMS key"),
        (
            {"name": "lake", "kms_key_arn": KEY.replace("aws:", "aws-cn:", 1)},
            "another partition",
        ),
    ],
)
def test_bad_buckets_are_refused(bucket: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate(
            {"state": {"bucket": "states"}, "network": {"data_buckets": [bucket]}}
        )


def test_data_may_be_beside_the_networks_states() -> None:
    given = {"state": {"bucket": "ours"}, "network": {"data_buckets": ["ours/data"]}}

    assert Settings.model_validate(given).network.data[0].path == "ours/data"


def test_images_that_hosts_run_are_not_changed() -> None:
    pushing = right(actions=["ecr:PutImage"], resources=["arn:aws:ecr:*:*:repository/d*"])

    settings(task_rights=[pushing])
    with pytest.raises(ValidationError, match="images that hosts run"):
        settings(task_rights=[pushing], container_repositories=[REPOSITORY])


def test_a_bucket_is_given_once() -> None:
    with pytest.raises(ValidationError, match="lake/raw is given twice"):
        settings(data_buckets=["lake/raw", {"name": "lake", "prefix": "raw"}])


def test_the_entry_that_errors_print_is_one() -> None:
    text = entry_for('the "orders" database', ["secretsmanager:GetSecretValue"], [f"{SECRET}:o-1"])
    (entry,) = NetworkSettings.model_validate(tomllib.loads(text)["network"]).task_rights

    assert entry.reason == 'the "orders" database'
    assert entry.actions == ["secretsmanager:GetSecretValue"]


def test_patterns_overlap_if_they_match_a_text_in_common() -> None:
    def as_regex(pattern: str) -> re.Pattern[str]:
        signs = {"*": "[^/]*", "?": "."}
        return re.compile("".join(signs.get(sign, sign) for sign in pattern))

    texts = ["".join(text) for n in range(5) for text in itertools.product("ab", repeat=n)]
    patterns = ["".join(one) for n in range(4) for one in itertools.product("ab?*", repeat=n)]
    for one, other in itertools.product(patterns, patterns[::3]):
        # A common text is no longer than both patterns together.
        if any(as_regex(one).fullmatch(it) and as_regex(other).fullmatch(it) for it in texts):
            assert overlap(one, other), (one, other)
        elif "*" not in one + other:
            assert not overlap(one, other), (one, other)
    assert not overlap("lake/x", "*x")
    assert overlap("lake/x", "**x")
    assert overlap("la*", "lake/x")
