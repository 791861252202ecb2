"""Managed policies of tasks: read at each plan, refused by what they allow, and held by denials of
the role's own policy if they change later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._network.task_policies import read_task_policies
from terradask.errors import AccessDenied, SettingsError
from terradask_modules.caller_policies import CallerScope, boundary_policy, caller_statements
from terradask_modules.errors import InvalidInput
from terradask_modules.policies import PolicyScope, scheduler_policy, worker_policy
from terradask_modules.task_rights import TaskPolicy
from terradask_modules.where import Where
from terradask_simulator.iam import Policy, Request, evaluate
from terradask_stacks.settings import Settings

from ..moto_account import moto_account
from .baselines import ACCOUNT, REGION, baseline

ARN = f"arn:aws:iam::{ACCOUNT}:policy/athena"
ATHENA = {"Sid": "Ask", "Effect": "Allow", "Action": "athena:*", "Resource": "*"}
WHERE = Where(partition="aws", region=REGION, account=ACCOUNT, workspace="default")
BUCKET = f"arn:aws:s3:::terradask-default-{ACCOUNT}-{REGION}"
#: A policy that was harmless when it was attached.
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


@pytest.fixture(scope="module", autouse=True)
def _moto() -> Iterator[None]:
    with moto_account():
        yield


@pytest.fixture
def iam() -> Iterator[Any]:
    client = boto3.client("iam", region_name=REGION)
    yield client
    for policy in client.list_policies(Scope="Local")["Policies"]:
        client.delete_policy(PolicyArn=policy["Arn"])
    client.close()


def settings(*policies: str, **more: Any) -> Settings:
    entries = [{"reason": "queries", "policy_arn": arn} for arn in policies or (ARN,)]
    return Settings.model_validate({"network": {"task_rights": entries}, **more})


def make(iam: Any, *statements: dict[str, Any]) -> None:
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    iam.create_policy(PolicyName="athena", PolicyDocument=json.dumps(document))


def test_what_a_policy_allows_is_read(iam: Any) -> None:
    make(iam, ATHENA, {"Effect": "Deny", "Action": "athena:Delete*", "Resource": "*"})

    assert read_task_policies(settings(), Aws(REGION)) == {ARN: [ATHENA]}


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (EVERYTHING, "statement 1 of the managed policy allows * on *"),
        ({**ATHENA, "Sid": "Roles", "Action": ["athena:*", "iam:Pass*"]}, "Roles of the managed"),
        ({**ATHENA, "Sid": "Get", "Action": "s3:Get*"}, "a workspace's bucket"),
        (
            {
                **EVERYTHING,
                "Action": "s3:GetObject",
                "Resource": "arn:aws:s3:::ours/${aws:username}",
            },
            "the networks' states",
        ),
        (
            {"Sid": "Most", "Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},
            "Most of the managed policy allows everything except the listed NotAction",
        ),
        (
            {"Effect": "Allow", "Action": "athena:*", "NotResource": "arn:aws:s3:::x"},
            "everything except the listed NotResource",
        ),
    ],
)
def test_a_policy_by_which_a_task_could_raise_itself_is_refused(
    iam: Any, statement: dict[str, Any], problem: str
) -> None:
    make(iam, ATHENA, statement)

    with pytest.raises(SettingsError, match=problem.replace("*", "\\*")) as caught:
        read_task_policies(settings(state={"bucket": "ours"}), Aws(REGION))
    (finding,) = caught.value.findings
    assert (finding.where, finding.given) == ("network.task_rights", ARN)


def test_policies_that_are_not_there_are_refused_together(iam: Any) -> None:
    foreign = "arn:aws:iam::210987654321:policy/athena"

    with pytest.raises(SettingsError) as caught:
        read_task_policies(settings(ARN, foreign), Aws(REGION))
    assert [finding.given for finding in caught.value.findings] == [ARN, foreign]


def test_an_unreadable_policy_is_refused(iam: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Denying:
        def get_policy(self, **_: Any) -> Any:
            raise AccessDenied("iam:GetPolicy", "no")

    aws = Aws(REGION)
    monkeypatch.setattr(aws, "client", lambda _: Denying())
    with pytest.raises(SettingsError, match="can't be checked") as caught:
        read_task_policies(settings(), aws)
    assert "iam:GetPolicy" in str(caught.value.findings[0].given)


def test_a_role_has_no_more_policies_than_aws_lets_it() -> None:
    arns = [f"{ARN}-{number}" for number in range(11)]

    settings(*arns[:10])
    with pytest.raises(ValueError, match="attaches 11 managed policies to each role"):
        settings(*arns)


# ---- a policy that changes later -----------------------------------------------------------------

SHARED = PolicyScope(where=WHERE, task_policies=[TaskPolicy(arn=ARN)])
ISOLATED = replace(SHARED, where=WHERE.of_cluster("etl"), groups=("scheduler", "workers"))
SCOPES = {"shared": SHARED, "isolated": ISOLATED}
OWN = {
    "aws:ResourceTag/terradask:workspace": ("default",),
    "aws:ResourceTag/terradask:cluster": ("etl",),
}
SISTER = {**OWN, "aws:ResourceTag/terradask:cluster": ("ml",)}
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:"
INSTANCE = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-1"

#: Action, resource, tags of the resource.
DENIED = {
    "a role": ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin", {}),
    "its own role": ("iam:PutRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/terradask-x", {}),
    "the program of hosts": ("s3:PutObject", f"{BUCKET}/host/0a/terradask_host.whl", {}),
    "the network's facts": ("s3:PutObject", f"{BUCKET}/workspace.json", {}),
    "a cluster's run": ("s3:PutObject", f"{BUCKET}/clusters/ml/run.json", {}),
    "a network's state": (
        "s3:PutObject",
        f"{BUCKET.replace('default', 'state')}/workspaces/default/network.tfstate",
        {},
    ),
    "a state": ("s3:GetObject", f"{BUCKET}/clusters/etl/terraform.tfstate", {}),
    "an old state": ("s3:GetObjectVersion", f"{BUCKET}/clusters/etl/terraform.tfstate", {}),
    "the bucket's policy": ("s3:PutBucketPolicy", BUCKET, {}),
    "deletion": ("s3:DeleteObject", f"{BUCKET}/clusters/etl/hosts/i-1.json", {}),
    "another workspace's keys": (
        "secretsmanager:GetSecretValue",
        f"{SECRET}terradask/other/etl-AbCdEf",
        {"aws:ResourceTag/terradask:workspace": ("other",)},
    ),
    "keys without a tag": (
        "secretsmanager:GetSecretValue",
        f"{SECRET}terradask/other/etl-AbCdEf",
        {},
    ),
    "its own keys' value": (
        "secretsmanager:PutSecretValue",
        f"{SECRET}terradask/default/etl-AbCdEf",
        OWN,
    ),
    "a machine": ("ec2:ModifyInstanceAttribute", INSTANCE, OWN),
    "commands on a machine": ("ssm:SendCommand", INSTANCE, {}),
    "a group's limits": ("autoscaling:UpdateAutoScalingGroup", "*", OWN),
}
ALLOWED = {
    "queries": ("athena:StartQueryExecution", "*", {}),
    "data": ("s3:PutObject", "arn:aws:s3:::lake/a", {}),
    "its own report": ("s3:PutObject", f"{BUCKET}/clusters/etl/hosts/i-1.json", {}),
    "its own run": ("s3:GetObject", f"{BUCKET}/clusters/etl/run.json", {}),
    "its own keys": (
        "secretsmanager:GetSecretValue",
        f"{SECRET}terradask/default/etl-AbCdEf",
        OWN,
    ),
    "its own group": ("autoscaling:TerminateInstanceInAutoScalingGroup", "*", OWN),
    "a company's secret": ("secretsmanager:GetSecretValue", f"{SECRET}orders-AbCdEf", {}),
}


def allowed(scope: PolicyScope, action: str, resource: str, tags: dict[str, Any]) -> set[bool]:
    attached = {"Version": "2012-10-17", "Statement": [EVERYTHING]}
    request = Request(action, resource, tags)
    return {
        evaluate(request, [Policy.parse(own(scope)), Policy.parse(attached)]).allowed
        for own in (scheduler_policy, worker_policy)
    }


@pytest.mark.parametrize("isolation", SCOPES)
@pytest.mark.parametrize("what", DENIED)
def test_a_policy_that_became_everything_raises_nothing(what: str, isolation: str) -> None:
    assert allowed(SCOPES[isolation], *DENIED[what]) == {False}


@pytest.mark.parametrize("isolation", SCOPES)
@pytest.mark.parametrize("what", ALLOWED)
def test_the_denials_leave_hosts_what_they_need(what: str, isolation: str) -> None:
    assert allowed(SCOPES[isolation], *ALLOWED[what]) == {True}


def test_keys_of_other_clusters_are_denied_where_clusters_are_isolated() -> None:
    theirs = ("secretsmanager:GetSecretValue", f"{SECRET}terradask/default/ml-AbCdEf", SISTER)

    assert allowed(ISOLATED, *theirs) == {False}
    assert allowed(SHARED, *theirs) == {True}


def test_a_role_without_policies_denies_nothing() -> None:
    assert "Deny" not in worker_policy(replace(SHARED, task_policies=()))


# ---- callers, boundaries, clusters ---------------------------------------------------------------


def test_setup_attaches_these_policies_alone() -> None:
    scope = CallerScope(hosts=SHARED, permissions_boundary=f"{ARN}-boundary")
    policy = Policy.parse({"Version": "2012-10-17", "Statement": caller_statements(scope, "setup")})
    role = f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker"

    def may(arn: str, boundary: str, target: str = role) -> bool:
        context = {"iam:PolicyARN": (arn,), "iam:PermissionsBoundary": (boundary,)}
        return evaluate(Request("iam:AttachRolePolicy", target, context), [policy]).allowed

    assert may(ARN, f"{ARN}-boundary")
    assert not may(ARN, "none")
    assert not may("arn:aws:iam::aws:policy/AdministratorAccess", f"{ARN}-boundary")
    assert not may(ARN, f"{ARN}-boundary", f"arn:aws:iam::{ACCOUNT}:role/admin")


def test_a_boundary_contains_what_was_read_and_no_more() -> None:
    read = TaskPolicy(arn=ARN, statements=(ATHENA,), clusters=("etl",))
    _, document = boundary_policy(CallerScope(hosts=replace(SHARED, task_policies=[read])))

    assert {name: ATHENA[name] for name in EVERYTHING} in document["Statement"]
    assert not [one for one in document["Statement"] if one["Effect"] == "Deny"]
    long = replace(read, statements=(ATHENA,) * 80)
    with pytest.raises(InvalidInput, match="longer than AWS allows"):
        boundary_policy(CallerScope(hosts=replace(SHARED, task_policies=[long])))


def test_a_network_names_the_policies_of_each_cluster() -> None:
    deployed = baseline(
        isolated={
            "role_path": "/",
            "role_name_prefix": "",
            "task_policies": {"*": [ARN], "etl": [ARN, f"{ARN}-2"]},
        }
    )

    assert deployed.task_policies("etl") == [ARN, f"{ARN}-2"]
    assert deployed.task_policies("ml") == [ARN]
    # As an older version wrote it, and without isolation.
    older = baseline(isolated={"role_path": "/", "role_name_prefix": ""})
    assert older.task_policies("etl") == baseline().task_policies("etl") == []
