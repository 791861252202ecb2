"""`terradask doctor --live` of callers with more or fewer rights: what its step `rights` says is
true, and what it doesn't say lacks nothing later.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from terradask import Workspace
from terradask._catalog.instance_types.listing import load_catalog
from terradask._doctor.account_check import account, place
from terradask._doctor.account_check.check import LiveCheck, Offer
from terradask._doctor.account_check.rights import needed
from terradask._doctor.account_check.steps import Runner
from terradask_modules.caller_policies import Caller, CallerScope, caller_policies
from terradask_modules.iam import allow, policy_document
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..left_over import leftovers
from ..seeds import drawn
from .unsettled_aws import unsettled

pytestmark = [pytest.mark.simulator, pytest.mark.life]

DRAWN = "5e7a"
NAME = f"smoke-{DRAWN}"
#: What may be asked of AWS's policy simulator, and of oneself.
ASKS = policy_document(
    [allow("Ask", ["iam:SimulatePrincipalPolicy", "iam:SimulateCustomPolicy", "iam:GetRole"], "*")]
)


class FreeStepsPassedError(Exception):
    """The check asks: everything that is free is well."""


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the check's workspace, and take the region's instance types from disk."""
    monkeypatch.setattr(place, "secrets", SimpleNamespace(token_hex=lambda _bytes: DRAWN))
    monkeypatch.setattr(account, "load_catalog", lambda aws, **_refresh: load_catalog(aws))


def scope_of(workspace: str) -> CallerScope:
    where = Where(partition="aws", region="us-east-1", account="123456789012", workspace=workspace)
    return CallerScope(
        hosts=PolicyScope(where=where),
        network_state=f"terradask-state-{workspace}-123456789012/workspaces/{workspace}/"
        "network.tfstate",
        session_manager=True,
        settings=frozenset({"flow_logs"}),
    )


def generated(scope: CallerScope) -> list[Any]:
    """Return what `terradask iam setup` and `terradask iam user` print."""
    callers: tuple[Caller, ...] = ("setup", "user")
    return [one for caller in callers for one in caller_policies(scope, caller).values()]


def power_user(sim: Simulator) -> Any:
    """Return AWS's own policy for those who may do all but manage identities."""
    with sim.applied():
        iam = Workspace.load().aws.client("iam")
        found = iam.get_policy(PolicyArn="arn:aws:iam::aws:policy/PowerUserAccess")["Policy"]
        version = iam.get_policy_version(
            PolicyArn=found["Arn"], VersionId=found["DefaultVersionId"]
        )
    return version["PolicyVersion"]["Document"]


def lacking(sim: Simulator, name: str, *policies: Any) -> tuple[set[str], str]:
    """Return the rights that the check says this caller lacks, and all that it says."""

    def passed(_offer: Offer) -> None:
        raise FreeStepsPassedError

    with sim.acting_as(name, *policies):
        check = LiveCheck(Workspace.load(), Runner())
        check.run(passed)
    failed = check.runner.failed
    assert failed is not None
    assert failed.name == "rights", failed
    assert failed.error is not None
    named = failed.error["given"].split("; not known")[0]
    return {one.split()[0] for one in named.split("; ")}, json.dumps(failed.error)


def test_a_power_user_is_told_that_rights_in_iam_lack_and_what_would_do(sim: Simulator) -> None:
    found, said = lacking(sim, "power", power_user(sim))
    assert found == {"iam:ListInstanceProfiles", "iam:ListPolicies"}
    assert "at least 2" in said
    assert "not known: all others, without iam:GetRole" in said
    assert "an administrator's credentials" in said
    assert "terradask iam user" in said


def test_a_power_user_who_may_ask_is_told_each_right_in_iam_and_no_other(sim: Simulator) -> None:
    found, _ = lacking(sim, "asking", power_user(sim), ASKS)
    wanted = {
        action
        for one in needed(scope_of(NAME))
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
        if action.startswith("iam:")
    }
    may = {"iam:CreateServiceLinkedRole", "iam:GetRole", "iam:ListRoles"}
    assert found == wanted - may


def test_rights_for_another_workspace_are_not_those_for_the_check(sim: Simulator) -> None:
    found, said = lacking(sim, "elsewhere", *generated(scope_of("default")), ASKS)
    assert {"iam:CreateRole", "s3:CreateBucket", "autoscaling:CreateAutoScalingGroup"} <= found
    # These policies allow describing anywhere, where they need it.
    described = {one for one in found if one.startswith("ec2:Describe")}
    assert described == {"ec2:DescribeEgressOnlyInternetGateways"}
    assert f"for workspace {NAME}" in said


def test_the_generated_rights_suffice_for_all_that_follows(sim: Simulator) -> None:
    scope = scope_of(NAME)
    beyond = [
        one
        for one in needed(scope)
        if one["Sid"] in ("MakeTheRole", "MakeItsPolicies", "LookForLeftovers")
        or one["Sid"].startswith("Remove")
    ]
    with (
        sim.acting_as("exact", *generated(scope), policy_document(beyond), ASKS),
        unsettled(sim, drawn("exact")),
    ):
        check = LiveCheck(Workspace.load(), Runner())
        check.run(lambda _offer: None)
    asked = sim.requests()["arn:aws:iam::123456789012:role/exact"]
    refused = {one.request.action for one in asked if not one.allowed}
    # Asked earlier, and done without.
    assert (check.runner.failed, refused) == (None, {"freetier:GetAccountPlanState"})
    facts = {one.name: (one.outcome, one.facts) for one in check.runner.results}
    outcome, said = facts["rights"]
    # Of the caller's own sessions, whose names AWS's simulator isn't told.
    assert outcome == "passed"
    assert said["not_known"] == ["ssm:ResumeSession", "ssm:TerminateSession"]
    with sim.applied():
        assert leftovers(NAME) == []
