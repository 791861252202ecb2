"""`terradask doctor --live` on the embedded AWS: it passes, and what is planted makes it fail at
the right step with AWS's words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask._catalog.instance_types.listing import load_catalog
from terradask._doctor.account_check import account
from terradask._doctor.account_check.assumptions import TESTED_BY
from terradask._doctor.account_check.check import LiveCheck, Offer
from terradask._doctor.account_check.steps import Runner
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..records.record import read
from ..seeds import drawn
from .unsettled_aws import unsettled

pytestmark = [pytest.mark.simulator, pytest.mark.life]

EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


class FreeStepsPassedError(Exception):
    """The check asks: everything that is free is well."""


@pytest.fixture
def kept_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the check take the region's instance types from disk: it asks AWS for all of them, each
    time anew, which takes longer than all other free steps.
    """
    monkeypatch.setattr(account, "load_catalog", lambda aws, **_refresh: load_catalog(aws))


def _passed(_offer: Offer) -> None:
    raise FreeStepsPassedError


def _without(*actions: str) -> dict[str, Any]:
    deny = {"Effect": "Deny", "Action": list(actions), "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [EVERYTHING, deny]}


def _free_steps(sim: Simulator, *denied: str) -> tuple[str, str, str]:
    """Run the free steps as a caller who lacks some rights; return the step that failed, its error,
    and AWS's words.
    """
    rights = _without(*denied or ("s3:CreateJob",))
    with sim.acting_as("newcomer", rights):
        return _failure_of(LiveCheck(Workspace.load(), Runner()))


def _failure_of(check: LiveCheck) -> tuple[str, str, str]:
    try:
        check.run(_passed)
    except FreeStepsPassedError:
        return "", "", ""
    failed = check.runner.failed
    assert failed is not None
    assert failed.error is not None
    return failed.name, failed.error["error"], " ".join(failed.texts)


def test_the_right_to_ask_for_instance_types_is_needed_though_they_are_on_disk(
    sim: Simulator,
) -> None:
    with sim.applied():
        load_catalog(Workspace.load().aws)
    failed, error, words = _free_steps(sim, "ec2:DescribeInstanceTypes")
    assert (failed, error) == ("instance-type", "AccessDenied")
    assert "ec2:DescribeInstanceTypes" in words


@pytest.mark.usefixtures("kept_catalog")
@pytest.mark.parametrize(
    ("action", "step"),
    [
        ("ec2:DescribeAvailabilityZones", "region"),
        ("ssm:GetParameter", "image"),
        ("ec2:DescribeImages", "image"),
        ("pricing:GetProducts", "prices"),
        ("servicequotas:GetServiceQuota", "quotas"),
        ("autoscaling:DescribeAccountLimits", "quotas"),
    ],
)
def test_a_missing_right_is_named_at_the_step_that_needs_it(
    sim: Simulator, action: str, step: str
) -> None:
    failed, error, words = _free_steps(sim, action)
    assert (failed, error) == (step, "AccessDenied")
    assert action in words or "not authorized" in words


@pytest.mark.usefixtures("kept_catalog")
def test_aws_own_simulator_finds_rights_that_lack_before_anything_is_made(sim: Simulator) -> None:
    with sim.acting_as("newcomer", _without("ec2:CreateFlowLogs", "iam:CreatePolicy")):
        check = LiveCheck(Workspace.load(), Runner())
        assert _failure_of(check)[:2] == ("rights", "TerradaskError")
    failed = check.runner.failed
    assert failed is not None
    assert failed.error is not None
    assert failed.error["given"] == (
        "ec2:CreateFlowLogs (explicitDeny); iam:CreatePolicy (explicitDeny)"
    )


def _encrypting(condition: dict[str, Any]) -> dict[str, Any]:
    deny = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*", "Condition": condition}
    return {"Version": "2012-10-17", "Statement": [EVERYTHING, deny]}


@pytest.mark.usefixtures("kept_catalog")
def test_aws_own_simulator_knows_which_encryption_writes_name(sim: Simulator) -> None:
    header = "s3:x-amz-server-side-encryption"
    with sim.acting_as("encrypting", _encrypting({"Null": {header: "true"}})):
        assert _failure_of(LiveCheck(Workspace.load(), Runner())) == ("", "", "")
    with sim.acting_as("keyed", _encrypting({"StringNotEquals": {header: "aws:kms"}})):
        check = LiveCheck(Workspace.load(), Runner())
        assert _failure_of(check)[:2] == ("rights", "TerradaskError")
    failed = check.runner.failed
    assert failed is not None
    assert failed.error is not None
    assert failed.error["given"] == (
        "s3:PutObject (explicitDeny, of objects encrypted with AES256)"
    )


@pytest.mark.usefixtures("kept_catalog")
def test_aws_own_simulator_finds_that_an_administrator_lacks_nothing(sim: Simulator) -> None:
    with sim.acting_as("administrator", {"Version": "2012-10-17", "Statement": [EVERYTHING]}):
        check = LiveCheck(Workspace.load(), Runner())
        found = _failure_of(check)
    rights = check.runner.results[-1]
    assert (found, rights.name, rights.outcome) == (("", "", ""), "rights", "passed")
    assert rights.facts["not_known"] == []
    assert rights.facts["actions"] > 150


@pytest.mark.usefixtures("kept_catalog")
def test_spot_prices_that_are_refused_are_noticed(sim: Simulator) -> None:
    action = "ec2:DescribeSpotPriceHistory"
    with sim.acting_as("newcomer", _without(action)):
        check = LiveCheck(Workspace.load(), Runner())
        assert _failure_of(check)[:2] == ("prices", "TerradaskError")
        assert check.runner.failed is not None
        assert action in str(check.runner.failed.error)


@pytest.mark.usefixtures("kept_catalog")
def test_an_account_on_the_free_plan_is_checked_with_a_type_of_it(sim: Simulator) -> None:
    with sim.applied(), sim.refuse_account("free-plan"):
        check = LiveCheck(Workspace.load(), Runner())
        assert _failure_of(check) == ("", "", "")
    facts = {one.name: one.facts for one in check.runner.results}
    assert "t3.micro" in facts["account-plan"]["types"]
    assert facts["instance-type"]["type"] == "m7i-flex.large"


@pytest.mark.usefixtures("kept_catalog")
@pytest.mark.parametrize(
    ("code", "most", "name"),
    [
        ("L-1216C47A", 5, "Running On-Demand Standard"),
        ("L-34B43A08", 1, "Spot Instance Requests"),
    ],
)
def test_a_quota_that_is_too_small_is_named_before_anything_is_made(
    sim: Simulator, code: str, most: int, name: str
) -> None:
    with sim.applied(), sim.set_quota(code, most):
        check = LiveCheck(Workspace.load(), Runner())
        assert _failure_of(check)[:2] == ("quotas", "QuotaExceeded")
        assert check.runner.failed is not None
        assert name in str(check.runner.failed.error)


@pytest.mark.parametrize(
    ("seconds", "step", "error"),
    [(600, "clock", "TerradaskError"), (3600, "identity", "AwsError")],
)
def test_a_wrong_clock_is_noticed(sim: Simulator, seconds: int, step: str, error: str) -> None:
    with sim.applied(), sim.skew_clock(seconds):
        check = LiveCheck(Workspace.load(), Runner())
        assert _failure_of(check)[:2] == (step, error)
    assert check.runner.failed is not None
    assert "clock" in str(check.runner.failed.error)


def test_credentials_that_end_meanwhile_are_named(
    sim: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = sim.environ_of("leaver", _without("s3:CreateJob"))
    sim.expire_credentials(environ["AWS_ACCESS_KEY_ID"])
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    failed, error, words = _failure_of(LiveCheck(Workspace.load(), Runner()))
    assert (failed, error) == ("identity", "NoCredentials")
    assert "ExpiredToken" in words


def test_a_region_that_does_not_exist_is_named(
    sim: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sim.applied():
        monkeypatch.setenv("TERRADASK_WORKSPACE__REGION", "us-east-9")
        found = _failure_of(LiveCheck(Workspace.load(), Runner()))
    assert found[:2] == ("identity", "RegionUnusable")


def test_nothing_is_made_without_an_answer(sim: Simulator, tmp_path: Path) -> None:
    done = in_this_process("doctor", "--live", environ=sim.environ, folder=tmp_path)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_passes_and_nothing_is_left(sim: Simulator, tmp_path: Path) -> None:
    administrator = sim.environ_of(
        "administrator", {"Version": "2012-10-17", "Statement": [EVERYTHING]}
    )
    with unsettled(sim, drawn("live")):
        done = in_this_process(
            "doctor", "--live", "--yes", "--json", environ=administrator, folder=tmp_path
        )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"]
    steps = {step["name"]: step for step in report["steps"]}
    left_out = [step["name"] for step in report["steps"] if step["outcome"] != "passed"]
    assert left_out == ["earlier"]
    assert steps["rights"]["facts"]["not_known"] == []
    assert len(steps) == 33
    assert set(report["assumptions"].values()) == {"proven"}
    tested = {key: name for name, one in steps.items() for key in one.get("assumptions", ())}
    assert tested == TESTED_BY
    assert "at most $" in done.stderr
    record = tmp_path / report["record"]
    (file,) = {*tmp_path.iterdir()} - {record}
    assert json.loads(file.read_bytes()) == report
    assert "123456789012" not in file.read_text() + record.read_text()
    assert report["workspace"] not in record.read_text()
    written = {case.name for case in read(record).cases}
    assert {"instance-type", "network", "role", "cluster, with resources"} <= written
    assert "4 times" in str(steps["failure"]["facts"])
    assert any("Terminating EC2 instance" in text for text in steps["shrink"]["texts"])
    with sim.applied():
        assert leftovers(report["workspace"]) == []
    asked = sim.requests()[f"arn:aws:iam::123456789012:role/terradask-{report['workspace']}-check"]
    assert [one.request.action for one in asked if not one.allowed] == []
