"""Where S3 misses a state, Terraform finds none: nothing is planned or applied from that. A lock
that it could not give back is removed.
"""

from __future__ import annotations

import datetime
import json
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._common.processes import this_user
from terradask._terraform.events import CommandOutput, PlanFile
from terradask._terraform.program import TERRAFORM
from terradask._terraform.state.model import StateVersion
from terradask._terraform.state.s3 import S3Backend
from terradask._terraform.terraform import Terraform
from terradask._workspace.stack import Stack
from terradask._workspace.states import StackStates
from terradask.errors import AccessDenied, Diagnostic, StalePlan, StateConflict, StateLocked

from ..moto_account import moto_account
from .lone_stacks import alone

STATE = StateVersion(4, "a-lineage")


class MissesTheState:
    """A Terraform that finds no state so many times."""

    program = TERRAFORM

    def __init__(self, times: int) -> None:
        self.times, self.planned, self.applied = times, 0, 0

    def _found(self) -> StateVersion:
        self.times -= 1
        return StateVersion() if self.times >= 0 else STATE

    def plan(self, out: Path, **_: bool) -> PlanFile:
        self.planned += 1
        found = self._found()
        document = {
            "terraform_version": "1",
            "serial": found.serial,
            "lineage": found.lineage,
        }
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("tfstate", json.dumps(document))
            archive.writestr("tfplan", "")
        return PlanFile(out, "")

    def apply(self, plan_file: PlanFile) -> None:
        self.applied += 1
        if self._found() != STATE:
            raise StalePlan("stale", verb="apply")


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return alone("etl", tmp_path, version=lambda stack: STATE)


def destroyed(stack: Stack, terraform: Any) -> Any:
    stack.terraform = terraform
    (stack.folder).mkdir()
    stack.destroy(refresh=False)
    return terraform


@pytest.mark.parametrize("times", [0, 1, 3])
def test_it_is_planned_again_until_the_state_is_found(stack: Stack, times: int) -> None:
    done = destroyed(stack, MissesTheState(times))
    assert (done.planned, done.applied) == (times + 1, 1)


def test_a_state_that_stays_missing_is_an_error_and_nothing_is_applied(stack: Stack) -> None:
    misses = MissesTheState(1000)
    with pytest.raises(StateConflict, match="found no state of etl"):
        destroyed(stack, misses)
    assert misses.applied == 0
    assert not list(stack.folder.parent.glob("*.tfplan"))


def test_a_plan_that_is_called_stale_for_want_of_the_state_is_applied_again(stack: Stack) -> None:
    class MissesItLate(MissesTheState):
        """As it applies."""

        def plan(self, out: Path, **options: bool) -> PlanFile:
            times, self.times = self.times, 0
            plan_file = super().plan(out, **options)
            self.times = times
            return plan_file

    assert destroyed(stack, MissesItLate(2)).applied == 3
    (stack.folder).rmdir()
    stack._states.version = lambda stack: StateVersion(5, "a-lineage")  # type: ignore[method-assign]
    with pytest.raises(StalePlan):
        destroyed(stack, MissesItLate(1))


def test_a_command_that_only_kept_its_lock_is_told_from_others() -> None:
    kept = Diagnostic(severity="error", summary="Error releasing the state lock")
    other = Diagnostic(severity="error", summary="Error: no")
    warned = Diagnostic(severity="warning", summary="Deprecated")
    assert CommandOutput(0, [kept, warned]).only_kept_lock
    for found in ([], [warned], [other], [kept, other]):
        assert not CommandOutput(0, found).only_kept_lock


class Fails(Terraform):
    """A Terraform that ends with these errors."""

    said: tuple[str, ...] = ()

    def command_line(self, *_arguments: object, **_options: object) -> list[str]:
        lines = [
            json.dumps(
                {"type": "diagnostic", "diagnostic": {"severity": "error", "summary": summary}}
            )
            for summary in self.said
        ]
        return ["sh", "-c", 'printf "%s\\n" "$@"; exit 1', "sh", *lines]

    def environment(self) -> dict[str, str]:
        return dict(os.environ)


@pytest.mark.parametrize(
    ("said", "error", "tried"),
    [
        (("Saved plan is stale", "Error releasing the state lock"), StalePlan, ["terraform apply"]),
        # It doesn't always say that it kept its lock.
        (("Saved plan is stale",), StalePlan, ["terraform apply"]),
        # Another's.
        (("Error acquiring the state lock",), StateLocked, []),
    ],
)
def test_a_lock_that_was_kept_is_given_back_whatever_failed(
    tmp_path: Path, said: tuple[str, ...], error: type[Exception], tried: list[str]
) -> None:
    (tmp_path / "cdk.tf.json").write_text("{}")
    given_back: list[str] = []

    def give_back(ended: Mapping[str, Any]) -> bool:
        given_back.append(ended["command"])
        return True

    terraform = Fails(tmp_path, give_back=give_back)
    terraform.said = said
    with pytest.raises(error):
        terraform.apply(tmp_path / "a.tfplan")
    assert given_back == tried


def test_an_aws_that_does_not_tell_the_lock_hides_no_other_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: S3Backend) -> None:
        raise AccessDenied("s3:GetObject", "nobody")

    monkeypatch.setattr(S3Backend, "lock", refused)
    with moto_account():
        context: Any = SimpleNamespace(aws=Aws("us-east-1"), bucket="a-bucket")
        assert not StackStates(context).give_back("etl", {"command": "terraform apply"})


def test_the_lock_of_a_command_that_has_ended_is_given_back_and_no_other(tmp_path: Path) -> None:
    bucket, now = "terradask-default-123456789012-us-east-1", time.time()
    # Terraform of another test could hold the lock of a name that both have.
    name = "given-back"
    created = datetime.datetime.fromtimestamp(now, datetime.UTC)
    lock = {
        "ID": "1",
        "Operation": "OperationTypeApply",
        "Who": this_user(),
        "Path": f"{bucket}/clusters/{name}/terraform.tfstate",
        "Created": f"{created:%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    ended = {"command": "terraform apply", "child": 1, "started_at": now - 1, "ended_at": now + 1}
    with moto_account():
        context: Any = SimpleNamespace(aws=Aws("us-east-1"), bucket=bucket)
        states, client = StackStates(context), context.aws.client("s3")
        client.create_bucket(Bucket=bucket)
        where = {"Bucket": bucket, "Key": f"clusters/{name}/terraform.tfstate.tflock"}
        assert states.give_back(name, ended)
        client.put_object(**where, Body=json.dumps({**lock, "Who": "ada@elsewhere"}))
        assert not states.give_back(name, ended)
        client.put_object(**where, Body=json.dumps(lock))
        assert states.give_back(name, ended)
        assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
