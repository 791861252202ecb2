"""What bounds the roles that ``setup`` makes: it gives itself nothing by them, and hosts have all
of their rights within it.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from terradask_modules.caller_policies import (
    CallerScope,
    boundary_policy,
    bounded,
)
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import MAX_POLICY_CHARACTERS, characters, statements_of
from terradask_modules.kinds.vpc import flow_logs_policy
from terradask_modules.policies import (
    PolicyScope,
    bounding_statements,
    scheduler_policy,
    worker_policy,
)
from terradask_modules.task_rights import TaskRight
from terradask_modules.where import Where
from terradask_simulator.iam import Policies, Policy, Request, evaluate

from .caller_scopes import ACCOUNT, FULL, ISOLATED, KEY, carries, may, scope

BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/terradask-team-boundary"
HOST = f"arn:aws:iam::{ACCOUNT}:role/terradask-team-worker"
#: With everything that adds to the rights of hosts.
PLACE = PolicyScope(
    where=Where(partition="aws", region="eu-west-1", account=ACCOUNT, workspace="team"),
    data_buckets=("lake", "lake-2/raw"),
    container_repositories=(f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/dask",),
    kms_key_arn=KEY,
    session_manager=True,
    notify_topic_arn=f"arn:aws:sns:eu-west-1:{ACCOUNT}:ends",
)
WHOLE = CallerScope(hosts=PLACE, settings=frozenset({"flow_logs"}))


@pytest.mark.parametrize("given", [scope(), ISOLATED], ids=["shared", "isolated"])
def test_who_makes_roles_gives_itself_nothing_by_them(given: CallerScope) -> None:
    within, own = bounded(given), {"iam:PermissionsBoundary": BOUNDARY}
    for action in ("CreateRole", "PutRolePolicy"):
        # Without a boundary: every right of the account, by a role that trusts the caller.
        assert may("setup", f"iam:{action}", HOST, given)
        assert not may("setup", f"iam:{action}", HOST, within)
        other = {"iam:PermissionsBoundary": "arn:aws:iam::aws:policy/AdministratorAccess"}
        assert not may("setup", f"iam:{action}", HOST, within, **other)
        assert may("setup", f"iam:{action}", HOST, within, **own)
    assert not may("setup", "iam:DeleteRolePermissionsBoundary", HOST, within, **own)
    assert not may("setup", "iam:AttachRolePolicy", HOST, within, **own)
    for action in (
        "CreatePolicy",
        "CreatePolicyVersion",
        "SetDefaultPolicyVersion",
        "DeletePolicy",
    ):
        assert not may("setup", f"iam:{action}", BOUNDARY, within)


def test_all_that_hosts_may_do_is_within_it() -> None:
    name, document = boundary_policy(WHOLE)
    assert name == "terradask-team-boundary"
    for text in (scheduler_policy(PLACE), flow_logs_policy(PLACE.where)):
        for one in statements_of(json.loads(text)):
            assert one in document["Statement"]
    # A worker's: of other conditions where it leaves.
    for one in statements_of(json.loads(worker_policy(PLACE))):
        assert one in document["Statement"] or one["Sid"] == "JoinAndLeave"
    leave = "autoscaling:TerminateInstanceInAutoScalingGroup"
    group = f"arn:aws:autoscaling:eu-west-1:{ACCOUNT}:autoScalingGroup:1:autoScalingGroupName/"
    tags = {key: (value,) for key, value in carries({"terradask:workspace": "team"}).items()}
    held = Policies((Policy.parse(worker_policy(PLACE)),), boundary=Policy.parse(document))
    for action in (leave, "autoscaling:CompleteLifecycleAction"):
        request = Request(action, f"{group}terradask-team-etl-workers", tags)
        assert evaluate(request, held).allowed
    more = Policies((Policy.parse(EVERYTHING),), boundary=Policy.parse(document))
    for action in ("iam:CreateUser", "sts:AssumeRole", "ec2:RunInstances", "s3:ListAllMyBuckets"):
        assert not evaluate(Request(action, "*"), more).allowed


EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"},
}


def test_it_is_no_longer_than_aws_takes() -> None:
    assert characters(boundary_policy(WHOLE)[1]) < MAX_POLICY_CHARACTERS
    many = tuple(f"bucket-{number}-{'x' * 40}" for number in range(60))
    with pytest.raises(InvalidInput, match="longer than AWS allows"):
        boundary_policy(replace(WHOLE, hosts=replace(PLACE, data_buckets=many)))
    # One that is given is the company's.
    assert bounded(scope()).permissions_boundary == BOUNDARY
    assert FULL.permissions_boundary != BOUNDARY


#: A role of the cluster ``etl``, and what its owner may have written into its policy.
OF_ETL = {"aws:PrincipalTag/terradask:cluster": ("etl",), "aws:EC2InstanceSourceVPC": ("vpc-1",)}
WORKSPACE = f"terradask-team-{ACCOUNT}-eu-west-1"


def of_role(action: str, resource: str, given: PolicyScope = PLACE, **keys: str) -> bool:
    """Return whether a role of ``etl`` with every right, in an isolated workspace, may do it."""
    bound = {
        "Version": "2012-10-17",
        "Statement": bounding_statements(given, of_each=True),
    }
    held = Policies((Policy.parse(EVERYTHING),), boundary=Policy.parse(bound))
    context = {**OF_ETL, **{key: (value,) for key, value in keys.items()}}
    context = {key: values for key, values in context.items() if values != ("",)}
    return evaluate(Request(action, resource, context), held).allowed


@pytest.mark.parametrize(
    ("action", "resource", "tagged"),
    [
        ("s3:GetObject", f"arn:aws:s3:::{WORKSPACE}/clusters/{{}}/run.json", False),
        ("s3:PutObject", f"arn:aws:s3:::{WORKSPACE}/clusters/{{}}/hosts/i-1.json", False),
        ("s3:PutObject", f"arn:aws:s3:::{WORKSPACE}/environments/{{}}/a.tar.zst", False),
        ("s3:PutObject", f"arn:aws:s3:::{WORKSPACE}/reports/{{}}/a.html.gz", False),
        (
            "secretsmanager:GetSecretValue",
            f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team/{{}}-a1B2c3",
            False,
        ),
        (
            "logs:PutLogEvents",
            f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:/terradask/team:log-stream:{{}}/w/i-1",
            False,
        ),
        (
            "autoscaling:SetDesiredCapacity",
            f"arn:aws:autoscaling:eu-west-1:{ACCOUNT}:autoScalingGroup:1:autoScalingGroupName/"
            "terradask-team-{}-workers",
            True,
        ),
    ],
)
def test_a_clusters_role_reaches_no_other_cluster_whatever_its_policy(
    action: str, resource: str, tagged: bool
) -> None:
    def may_for(cluster: str, **keys: str) -> bool:
        tags = carries({"terradask:workspace": "team", "terradask:cluster": cluster})
        owner = {"aws:ResourceAccount": ACCOUNT}
        return of_role(action, resource.format(cluster), **(tags if tagged else owner), **keys)

    assert may_for("etl")
    for other in ("ml", "etl-2", "et"):
        assert not may_for(other)
    # Of a role without the tag: the network's own.
    assert not may_for("etl", **{"aws:PrincipalTag/terradask:cluster": ""})
    # A session that somebody else makes of the role, with another tag or the same.
    assert not may_for("etl", **{"aws:EC2InstanceSourceVPC": ""})
    other_tag = {"aws:PrincipalTag/terradask:cluster": "ml", "aws:EC2InstanceSourceVPC": ""}
    assert not may_for("ml", **other_tag)


def test_a_service_uses_a_key_for_a_host() -> None:
    use = {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}
    assert of_role("kms:Decrypt", KEY, **use)
    through = {"aws:EC2InstanceSourceVPC": "", "aws:ViaAWSService": "true"}
    assert of_role("kms:Decrypt", KEY, **use, **through)


def test_rights_of_one_clusters_tasks_are_its_own() -> None:
    right = TaskRight(
        actions=("sqs:SendMessage",), resources=("*",), reason="queue", clusters=("ml",)
    )
    given = replace(PLACE, task_rights=(right,))
    assert not of_role("sqs:SendMessage", "*", given)
    assert of_role("sqs:SendMessage", "*", given, **{"aws:PrincipalTag/terradask:cluster": "ml"})
