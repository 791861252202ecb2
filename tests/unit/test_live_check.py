"""The account check's own parts: order, failure, removal, report. What it does is seen in
`tests/simulator/test_live_check.py`.
"""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from botocore.exceptions import ClientError

from terradask import Workspace
from terradask._doctor.account_check import assumptions, rights
from terradask._doctor.account_check.check import LiveCheck, time_limit, without_identity
from terradask._doctor.account_check.cluster import seconds_by_state
from terradask._doctor.account_check.place import NAME, CheckWorkspace, check_settings, new_name
from terradask._doctor.account_check.rights import NOT_KNOWN, Answer, answers, questions, verdicts
from terradask._doctor.account_check.steps import Runner, Step, StepResult
from terradask._workspace.host_packages import packages_folder
from terradask.errors import AccessDenied, TerradaskError
from terradask_host.documents import HostReport
from terradask_modules.iam import allow
from terradask_stacks.loading import settings_in
from terradask_stacks.settings import Settings

REFUSAL = {"Error": {"Code": "UnauthorizedOperation", "Message": "You are not authorized"}}


class Steps:
    """Steps that write down that they ran, and fail in some way."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def step(self, name: str, do: Callable[[StepResult], str | None] = lambda _: None) -> Step:
        def run(result: StepResult) -> str | None:
            self.ran.append(name)
            return do(result)

        return Step(name, f"{name} works", run)


def denied(_: StepResult) -> None:
    try:
        raise ClientError(REFUSAL, "CreateVpc")
    except ClientError as error:
        raise AccessDenied("ec2:CreateVpc", "You are not authorized") from error


def interrupted(_: StepResult) -> None:
    raise KeyboardInterrupt


def test_steps_end_at_the_first_that_fails_with_awss_words() -> None:
    steps, runner = Steps(), Runner(clock=iter(range(100)).__next__)
    left_out = steps.step("session", lambda _: "there is no plugin")
    assert not runner.run(
        [steps.step("one"), left_out, steps.step("vpc", denied), steps.step("next")]
    )
    assert steps.ran == ["one", "session", "vpc"]
    assert [(one.outcome, one.seconds) for one in runner.results] == [
        ("passed", 1),
        ("left out", 1),
        ("failed", 1),
    ]
    assert runner.results[1].why_left_out == "there is no plugin"
    failed = runner.failed
    assert failed is not None
    assert (failed.name, failed.exit_code) == ("vpc", 3)
    assert failed.texts == ["UnauthorizedOperation: You are not authorized"]
    assert failed.error is not None
    assert failed.error["action"] == "ec2:CreateVpc"


@pytest.mark.parametrize("how", [denied, interrupted])
def test_what_was_made_is_removed_in_any_case(how: Callable[[StepResult], None]) -> None:
    steps, runner = Steps(), Runner()
    making = [steps.step("make", how), steps.step("use")]
    # A part of the removal that fails doesn't keep the next from trying.
    removal = [steps.step("remove", denied), steps.step("prove")]
    try:
        runner.run_and_remove(making, removal, before_removal=[lambda: steps.ran.append("let go")])
    except KeyboardInterrupt:
        assert how is interrupted
    assert steps.ran == ["make", "let go", "remove", "prove"]
    assert [one.outcome for one in runner.results] == ["failed", "failed", "passed"]
    assert runner.failed is not None
    assert runner.failed.name == "make"


def test_a_failed_removal_fails_a_check_that_passed() -> None:
    steps, runner = Steps(), Runner()
    runner.run_and_remove([steps.step("make")], [steps.step("remove", denied)])
    assert runner.failed is not None
    assert runner.failed.name == "remove"


def test_an_interrupted_removal_ends_there() -> None:
    steps, runner = Steps(), Runner()
    removal = [steps.step("remove", interrupted), steps.step("prove")]
    with pytest.raises(KeyboardInterrupt):
        runner.run_and_remove([steps.step("make")], removal)
    assert steps.ran == ["make", "remove"]


def test_a_check_that_takes_too_long_is_removed_and_fails() -> None:
    steps, runner = Steps(), Runner()

    def forever(_: StepResult) -> None:
        while True:
            datetime.datetime.now(datetime.UTC)

    with time_limit(0.01) as lift:
        making, removal = [steps.step("slow", forever)], [steps.step("remove")]
        runner.run_and_remove(making, removal, before_removal=[lift])
    assert steps.ran == ["slow", "remove"]
    assert runner.failed is not None
    assert runner.failed.error is not None
    assert "longer than it may" in runner.failed.error["problem"]
    assert runner.failed.exit_code == 1


def test_the_report_names_no_account_and_no_caller(tmp_path: Path) -> None:
    steps, runner = Steps(), Runner()

    def told(result: StepResult) -> None:
        result.facts["bucket"] = "terradask-smoke-1a2b-123456789012-us-east-1"
        result.text(
            "User: arn:aws:sts::123456789012:assumed-role/Admin/grace@acme.org is not authorized"
        )
        raise TerradaskError("no", given="203.0.113.7/32 and arn:aws:iam::123456789012:user/grace")

    runner.run([steps.step("told", told)])
    (tmp_path / "terradask.toml").write_text("[workspace]\nregion = 'us-east-1'\n")
    check = LiveCheck(Workspace.load(tmp_path), runner, started_at="2026-11-22T23:50:40Z")
    path = check.write_report(tmp_path)
    assert path.name == "terradask-live-20261122T235040Z.json"
    text = path.read_text()
    for secret in ("123456789012", "grace", "Admin", "203.0.113.7"):
        assert secret not in text
    assert "assumed-role/<name> is not authorized" in text
    assert check.report() == json.loads(text)
    assert check.report()["failed_step"] == "told"
    assert without_identity("/".join(["", "home", "grace", "x"])).endswith("/<name>/x")
    # Ids that only look alike stay.
    assert without_identity("i-012345678901a 1234567890123") == "i-012345678901a 1234567890123"


def test_the_settings_are_what_the_organisation_prescribes_and_cheap() -> None:
    user = Settings.model_validate(
        {
            "workspace": {"region": "eu-west-1", "tags": {"team": "data é"}},
            "network": {
                "role_name_prefix": "acme-",
                "nat": "per_zone",
                "host_packages": "archives",
                "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary",
            },
            "cluster": {"connect": "ssm", "worker_gpu": 8},
        }
    )
    document = check_settings(
        user,
        "smoke-1a2b",
        account="123456789012",
        until="2026-11-23T00:00:00Z",
        zone="eu-west-1a",
        types=["c7i.large"],
        disk_gib=12,
        own_cidr=None,
        host_packages=packages_folder(user, Path("/team")),
    )
    text = tomlkit.dumps(document)
    settings = settings_in(text, Path("terradask.toml"))
    assert tomllib.loads(text)["workspace"]["tags"]["team"] == "data é"
    assert settings.workspace.tags["terradask-live-check-until"] == "2026-11-23T00:00:00Z"
    network = settings.network
    assert (network.nat, network.interface_endpoints, network.ingress) == ("none", [], [])
    assert (network.role_name_prefix, network.permissions_boundary) == (
        "acme-",
        "arn:aws:iam::123456789012:policy/boundary",
    )
    assert network.host_packages == "/team/archives"
    cluster = settings.cluster_named("check")
    assert (cluster.connect, cluster.worker_gpu, cluster.max_workers) == ("ssm", None, 2)
    assert cluster.worker_groups["cheap"].spot_policy == "spot"


def test_what_a_killed_check_left_is_found_by_its_record(tmp_path: Path) -> None:
    limit = datetime.timedelta(minutes=1)
    place = CheckWorkspace.begin(
        tmp_path, account="1", region="us-east-1", limit=limit, name=new_name()
    )
    assert NAME.fullmatch(place.name)
    # It runs: this process is its own.
    assert CheckWorkspace.unfinished(tmp_path) == []
    record = place.folder / "record.json"
    document = json.loads(record.read_bytes())
    record.write_text(json.dumps({**document, "process_started": "0"}))
    (found,) = CheckWorkspace.unfinished(tmp_path)
    assert (found.name, found.has_settings) == (place.name, False)
    assert found.taken_over().runs
    assert CheckWorkspace.unfinished(tmp_path) == []
    # What isn't a check's is left alone.
    record.write_text(json.dumps({**document, "process_started": "0", "name": "default"}))
    assert CheckWorkspace.unfinished(tmp_path) == []
    place.forget()
    assert list(tmp_path.iterdir()) == []


def test_seconds_by_state_add_up_over_several_visits() -> None:
    at = "2026-11-22T00:00:{:02d}Z".format
    history = (("booting", at(0)), ("waiting", at(4)), ("starting", at(5)), ("waiting", at(8)))
    report = HostReport(
        "i-1",
        "worker",
        "workers",
        "running",
        None,
        at(9),
        "run",
        history=(*history, ("running", at(9))),
    )
    assert seconds_by_state(report) == {"booting": 4, "waiting": 2, "starting": 3}


def test_each_assumption_has_a_verdict() -> None:
    seen = StepResult("grow", "", assumptions={"asg-shows-launches": False})
    other = StepResult("cluster", "", assumptions={"asg-lists-members": True})
    found = assumptions.verdicts([seen, other, StepResult("shrink", "")])
    assert found["asg-shows-launches"] == "contradicted"
    assert found["asg-lists-members"] == "proven"
    assert found["asg-protection"] == "not tried"
    assert set(found) == set(assumptions.TESTED_BY)
    text = assumptions.summary([seen, other])
    assert "proven: asg-lists-members; contradicted: asg-shows-launches; not tried: " in text


def _told(action: str, decisions: dict[str, str], **more: object) -> dict[str, object]:
    return {
        "EvalActionName": action,
        "EvalResourceName": "arn:${Partition}",
        "EvalDecision": "implicitDeny",
        "ResourceSpecificResults": [
            {"EvalResourceName": name, "EvalResourceDecision": decision, **more}
            for name, decision in decisions.items()
        ],
    }


def test_a_right_is_missing_only_if_the_simulator_could_have_allowed_it() -> None:
    beyond = {"OrganizationsDecisionDetail": {"AllowedByOrganizations": False}}
    found = [
        _told("ec2:CreateVpc", {"vpc/*": "explicitDeny", "subnet/*": "explicitDeny"}),
        # Of two kinds it knows one.
        _told("ec2:CreateSubnet", {"vpc/*": "implicitDeny", "subnet/*": "allowed"}),
        _told("ec2:DeleteVolume", {"volume/*": "implicitDeny"}),
        _told("iam:PassRole", {"role/*": "implicitDeny"}, MissingContextValues=["iam:Any"]),
        {**_told("ec2:RunInstances", {"subnet/*": "implicitDeny"}), **beyond},
    ]
    judged = [
        _told("ec2:CreateVpc", {"vpc/*": "allowed", "subnet/*": "implicitDeny"}),
        _told("ec2:CreateSubnet", {"vpc/*": "implicitDeny", "subnet/*": "allowed"}),
        _told("ec2:DeleteVolume", {"volume/*": "implicitDeny"}),
        _told("iam:PassRole", {"role/*": "allowed"}),
        _told("ec2:RunInstances", {"subnet/*": "allowed"}),
    ]
    assert verdicts(answers(found), answers(judged)) == {
        "ec2:CreateVpc": "explicitDeny",
        "ec2:DeleteVolume": NOT_KNOWN,
        "iam:PassRole": NOT_KNOWN,
        "ec2:RunInstances": "implicitDeny, by a policy of the organisation",
    }


class RefusesToCombine:
    """An IAM whose simulator refuses calls with several actions, and an action under any policy."""

    def __init__(self, code: str) -> None:
        self.code = code

    def can_paginate(self, method: str) -> bool:
        return False

    def simulate_principal_policy(self, *, ActionNames: list[str], **_: Any) -> Any:  # noqa: N803
        if ActionNames != ["iam:GetUser"]:
            raise ClientError({"Error": {"Code": self.code, "Message": "x"}}, "Simulate")
        return {"EvaluationResults": [_told("iam:GetUser", {"user/*": "implicitDeny"})]}

    def simulate_custom_policy(self, **_: Any) -> Any:
        return {"EvaluationResults": [_told("iam:GetUser", {"user/*": "allowed"})]}


@pytest.mark.parametrize("code", ["InvalidInput", "PolicyEvaluation"])
def test_actions_that_the_simulator_refuses_together_are_asked_alone(code: str) -> None:
    statement = allow("Both", ["iam:GetUser", "iam:New"], "user/*")
    (question,) = questions([statement], "us-east-1", {})
    found = rights._verdicts(RefusesToCombine(code), "arn", question)
    assert found == {"iam:GetUser": "implicitDeny", "iam:New": NOT_KNOWN}


def test_a_result_without_resources_is_read_too() -> None:
    told = {
        "EvalActionName": "ec2:DescribeVpcs",
        "EvalResourceName": "*",
        "EvalDecision": "allowed",
        "MissingContextValues": [],
    }
    assert list(answers([told])) == [Answer("ec2:DescribeVpcs", "*", "allowed")]


def test_the_policy_simulator_is_asked_with_what_calls_would_carry() -> None:
    condition = {
        "StringEquals": {"aws:RequestTag/a": ["b", "c"]},
        "Null": {"aws:TagKeys": "false", "autoscaling:MaxSize": "true"},
        "ForAnyValue:StringEquals": {"aws:TagKeys": "a", "aws:CalledVia": ["x", "y"]},
        "ForAnyValue:StringLike": {"aws:TagKeys": "z"},
        "ForAllValues:StringNotEquals": {"aws:TagKeys": "no"},
    }
    statements = [
        allow("Make", [f"ec2:Create{n}" for n in range(60)], ["arn:1", "arn:2"], condition),
        allow("All", "s3:*", "*"),
        {"Effect": "Deny", "Action": "ec2:DeleteVpc", "Resource": "*"},
    ]
    first, second = questions(statements, "eu-west-1", {})
    assert (len(first.actions), len(second.actions)) == (50, 10)
    assert first.resources == ("arn:1", "arn:2")
    assert first.context == {
        "aws:RequestedRegion": ("string", "eu-west-1"),
        "aws:RequestTag/a": ("string", "b"),
        "aws:TagKeys": ("stringList", "any", "a", "z"),
        "aws:CalledVia": ("stringList", "x"),
    }


@pytest.mark.parametrize("key", [None, "arn:aws:kms:eu-west-1:123456789012:key/k"])
def test_the_policy_simulator_is_asked_about_writes_with_their_encryption(key: str | None) -> None:
    statements = [
        allow("Keep", ["s3:GetObject", "s3:PutObject"], ["arn:b/x", "arn:b/y"]),
        allow("Make", ["s3:PutObject"], "arn:other/x"),
    ]
    read, write, elsewhere = questions(statements, "eu-west-1", {"arn:b": key})
    region = {"aws:RequestedRegion": ("string", "eu-west-1")}
    named = {"s3:x-amz-server-side-encryption": ("string", "AES256" if key is None else "aws:kms")}
    if key is not None:
        named["s3:x-amz-server-side-encryption-aws-kms-key-id"] = ("string", key)
    assert (read.actions, read.context) == (("s3:GetObject",), region)
    assert (write.actions, write.context) == (("s3:PutObject",), {**region, **named})
    assert write.resources == ("arn:b/x", "arn:b/y")
    assert elsewhere.context == region
