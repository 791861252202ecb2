"""What is planted in the life of an account check's cluster is found at the right step, and what
was made is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask._common.progress import silent
from terradask._doctor.account_check import cluster as life
from terradask._doctor.account_check import network
from terradask._doctor.account_check.account import Account
from terradask._doctor.account_check.check import LiveCheck, Parts, begin, earlier_checks
from terradask._doctor.account_check.network import removal_steps
from terradask._doctor.account_check.place import CheckWorkspace
from terradask._doctor.account_check.steps import Runner, Step, StepResult
from terradask_simulator import Simulator

from ..left_over import leftovers
from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.soak]

ALL = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def _rights(*denied: str) -> dict[str, Any]:
    deny = {"Effect": "Deny", "Action": list(denied or ("s3:CreateJob",)), "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [ALL, deny]}


@dataclass
class Made:
    """A throw-away workspace whose network is applied."""

    sim: Simulator
    check: LiveCheck
    place: CheckWorkspace

    def life(self, plant_at: str = "", plant: Callable[[], object] = lambda: None) -> StepResult:
        """Run all steps behind the network's; return the one that failed. Its cluster and its role
        are removed.
        """

        def on_start(step: Step) -> None:
            if step.name == plant_at:
                plant()

        runner = Runner(on_start)
        with self.place.alone():
            parts = Parts.of(self.place, self.check.workspace, self.check.progress)
            making = parts.after_network()
            removal = removal_steps(self.place, parts.workspace)[:2]
            # What is planted may stand in the removal's way, too.
            try:
                runner.run_and_remove(making, removal, before_removal=[parts.life.leave])
            finally:
                self.mend()
                for step in removal:
                    step.run(StepResult(step.name, step.what))
        assert runner.failed is not None, [one.name for one in runner.results]
        return runner.failed

    def deny(self, role: str, *actions: str) -> None:
        """Take rights from a role of the workspace's: ``check``, ``scheduler`` or ``worker``."""
        with contextlib.closing(self.sim.client("iam")) as iam:
            iam.put_role_policy(
                RoleName=f"terradask-{self.place.name}-{role}",
                PolicyName="planted",
                PolicyDocument=json.dumps(
                    {
                        "Version": "2012-10-17",
                        "Statement": [{"Effect": "Deny", "Action": list(actions), "Resource": "*"}],
                    }
                ),
            )

    def mend(self) -> None:
        """Give rights back."""
        with contextlib.closing(self.sim.client("iam")) as iam:
            for role in ("check", "scheduler", "worker"):
                with contextlib.suppress(iam.exceptions.NoSuchEntityException):
                    iam.delete_role_policy(
                        RoleName=f"terradask-{self.place.name}-{role}", PolicyName="planted"
                    )


@pytest.fixture(scope="module")
def made(sim: Simulator) -> Iterator[Made]:
    with sim.applied():
        check = LiveCheck(Workspace.load(), Runner())
        account = Account(check.workspace)
        assert Runner().run(account.steps())
        place = begin(account)
        with place.alone():
            parts = Parts.of(place, check.workspace, check.progress)
            runner = Runner()
            assert runner.run(network.network_steps(parts.workspace)), runner.failed
        yield Made(sim, check, place)
        with place.alone():
            runner = Runner()
            assert runner.run(removal_steps(place, parts.workspace)), runner.failed


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_PROPAGATION_SECONDS", 0.1)
    monkeypatch.setattr(life, "_REPORT_SECONDS", 5.0)
    monkeypatch.setattr(life, "_LOG_SECONDS", 5.0)
    monkeypatch.setattr(life, "_HOSTS_SECONDS", 60.0)


@pytest.mark.parametrize("action", ["iam:CreateRole", "iam:CreatePolicy", "sts:AssumeRole"])
def test_a_caller_who_may_not_make_the_role(made: Made, action: str) -> None:
    with made.sim.acting_as("newcomer", _rights(action)):
        failed = made.life()
    assert failed.name == "role"
    assert action in " ".join(failed.texts)


@pytest.mark.parametrize("market", ["spot", "on-demand"])
def test_no_capacity(made: Made, market: Any) -> None:
    with made.sim.no_capacity(market=market):
        failed = made.life()
    assert failed.name == "cluster"
    assert "capacity" in f"{failed.texts} {failed.error}".lower()


def test_an_account_that_is_not_verified_yet(made: Made) -> None:
    with made.sim.refuse_account("unverified"):
        failed = made.life()
    assert failed.name == "cluster"
    assert "PendingVerification" in f"{failed.texts} {failed.error}"


def test_a_quota_that_others_have_used_up_meanwhile(made: Made) -> None:
    with made.sim.enforce_quotas(), made.sim.set_quota("L-1216C47A", 1):
        failed = made.life()
    assert failed.name == "cluster"
    assert "L-1216C47A" in str(failed.error)


def test_hosts_whose_environment_is_broken(made: Made) -> None:
    with made.sim.break_environments():
        failed = made.life()
    assert failed.name == "cluster"
    assert failed.error is not None
    assert failed.error["error"] == "HostFailed"


@pytest.mark.parametrize(
    ("step", "action"),
    [
        ("cluster", "autoscaling:SetDesiredCapacity"),
        ("watchdog", "autoscaling:DescribeScheduledActions"),
        ("session", "ssm:StartSession"),
        ("stop", "secretsmanager:PutSecretValue"),
        ("destroy", "autoscaling:DeleteAutoScalingGroup"),
    ],
)
def test_a_right_that_users_lack(made: Made, step: str, action: str) -> None:
    failed = made.life(step, lambda: made.deny("check", action))
    assert failed.name == step
    assert action in f"{failed.texts} {failed.error}"


@pytest.mark.parametrize(
    ("step", "role", "action"),
    [
        ("logs", "scheduler", "logs:PutLogEvents"),
        ("session", "scheduler", "ssmmessages:CreateControlChannel"),
        ("shrink", "scheduler", "autoscaling:TerminateInstanceInAutoScalingGroup"),
    ],
)
def test_a_right_that_hosts_lack(made: Made, step: str, role: str, action: str) -> None:
    failed = made.life("cluster", lambda: made.deny(role, action))
    assert failed.name == step


def test_reports_that_hosts_cannot_replace(made: Made) -> None:
    def plant() -> None:
        bucket = f"arn:aws:s3:::terradask-{made.place.name}-123456789012-us-east-1"
        deny = {
            "Effect": "Deny",
            "Action": "s3:GetObject",
            "Resource": f"{bucket}/clusters/*/hosts/*",
        }
        with contextlib.closing(made.sim.client("iam")) as iam:
            iam.put_role_policy(
                RoleName=f"terradask-{made.place.name}-worker",
                PolicyName="planted",
                PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [deny]}),
            )

    failed = made.life("cluster", plant)
    assert failed.name == "reports"
    assert "booting" in str(failed.error)


def test_a_watchdog_that_is_gone(made: Made) -> None:
    group = f"terradask-{made.place.name}-check-workers"

    def plant() -> None:
        with contextlib.closing(made.sim.client("autoscaling")) as client:
            client.delete_scheduled_action(
                AutoScalingGroupName=group, ScheduledActionName=f"{group}-dead-man"
            )

    failed = made.life("watchdog", plant)
    assert failed.name == "watchdog"
    assert group in str(failed.error)


def test_a_caller_who_may_not_make_the_network(sim: Simulator) -> None:
    # Where the policy simulator may not be asked, the network finds it.
    rights = _rights("ec2:CreateFlowLogs", "iam:SimulatePrincipalPolicy")
    with sim.acting_as("newcomer", rights):
        check = LiveCheck(Workspace.load(), Runner())
        check.run(lambda _offer: None)
    failed = check.runner.failed
    assert failed is not None
    assert failed.name == "network"
    assert "ec2:CreateFlowLogs" in " ".join(failed.texts)
    assert check.runner.results[-1].name == "nothing-left"
    assert check.runner.results[-1].outcome == "passed"
    with sim.applied():
        assert leftovers(check.name) == []


def _removed_now() -> list[str]:
    """Return what the next check removes first."""
    runner = Runner()
    assert runner.run([earlier_checks(Workspace.load(), silent)]), runner.failed
    removed: list[str] = runner.results[0].facts["removed"]
    return removed


def test_what_changed_meanwhile_and_what_is_left(sim: Simulator) -> None:
    def change(check: LiveCheck) -> None:
        with contextlib.closing(sim.client("logs")) as logs:
            logs.put_retention_policy(logGroupName=f"/terradask/{check.name}", retentionInDays=90)

    def leave(check: LiveCheck) -> None:
        tags = [{"Key": "terradask:workspace", "Value": check.name}]
        with contextlib.closing(sim.client("ec2")) as ec2:
            made = ec2.create_volume(
                AvailabilityZone="us-east-1a",
                Size=1,
                TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
            )
            volumes.append(made["VolumeId"])
        with contextlib.closing(sim.client("iam")) as iam:
            profile = f"terradask-{check.name}-left"
            iam.create_instance_profile(InstanceProfileName=profile)
            profiles.append(profile)

    volumes: list[str] = []
    profiles: list[str] = []
    with sim.applied():
        check = LiveCheck(Workspace.load(), Runner())
        check.runner.on_start = lambda step: {
            "no-changes": change,
            "nothing-left": leave,
        }.get(step.name, lambda _: None)(check)
        check.run(lambda _offer: None)
        failed = [one for one in check.runner.results if one.outcome == "failed"]
        assert [one.name for one in failed] == ["no-changes", "nothing-left"]
        assert "aws_cloudwatch_log_group" in str(failed[0].error)
        assert volumes[0] in str(failed[1].error)
        assert f"instance profile {profiles[0]}" in str(failed[1].error)
        # Its folder stays, so that a second check removes it first.
        with contextlib.closing(sim.client("ec2")) as ec2:
            ec2.delete_volume(VolumeId=volumes[0])
        with contextlib.closing(sim.client("iam")) as iam:
            iam.delete_instance_profile(InstanceProfileName=profiles[0])
        base = Path(os.environ["TERRADASK_STATE_DIR"]) / "live-checks"
        record = base / check.name / "record.json"
        record.write_text(json.dumps({**json.loads(record.read_bytes()), "process_started": "0"}))
        assert _removed_now() == [check.name]
        assert not (base / check.name).exists()


def test_what_another_machine_left_is_found_by_its_tags(sim: Simulator) -> None:
    def plant(name: str, until: str) -> None:
        tags = {"terradask:workspace": name, "terradask-live-check-until": until}
        specification = [
            {
                "ResourceType": "vpc",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ]
        with contextlib.closing(sim.client("ec2")) as ec2:
            ec2.create_vpc(CidrBlock=sim.vpc_cidr, TagSpecifications=specification)

    plant("smoke-0001", "2026-01-01T00:00:00Z")
    # One that may run, one that is no check's.
    plant("smoke-0002", "2126-01-01T00:00:00Z")
    plant("smoke-screen", "2026-01-01T00:00:00Z")
    with sim.applied():
        assert _removed_now() == ["smoke-0001"]
        assert leftovers("smoke-0001") == []
        assert len(leftovers("smoke-0002")) == len(leftovers("smoke-screen")) == 1
    with contextlib.closing(sim.client("ec2")) as ec2:
        filters = [{"Name": "tag:terradask:workspace", "Values": ["smoke-0002", "smoke-screen"]}]
        for vpc in ec2.describe_vpcs(Filters=filters)["Vpcs"]:
            ec2.delete_vpc(VpcId=vpc["VpcId"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_check_that_is_ended(sim: Simulator, tmp_path: Path, number: int) -> None:
    """SIGTERM begins the removal; what SIGKILL leaves is removed by the next check."""
    command = [sys.executable, "-m", "terradask", "doctor", "--live", "--yes"]
    with (tmp_path / "out").open("w+") as out:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=sim.environ, stdout=out, stderr=out, text=True
        )
        with contextlib.closing(sim.client("ec2")) as ec2:
            filters = [
                {"Name": "tag:terradask:workspace", "Values": ["smoke-*"]},
                {"Name": "instance-state-name", "Values": ["running"]},
            ]

            def hosts() -> list[Any]:
                return list(ec2.describe_instances(Filters=filters)["Reservations"])

            try:
                eventually(
                    lambda: len(hosts()) > 0,
                    seconds=PROCESS_SECONDS,
                    explain=(tmp_path / "out").read_text,
                )
                (tag,) = [
                    tag["Value"]
                    for tag in hosts()[0]["Instances"][0]["Tags"]
                    if tag["Key"] == "terradask:workspace"
                ]
            finally:
                process.send_signal(number)
                code = process.wait(PROCESS_SECONDS)
    said = (tmp_path / "out").read_text()
    base = sim.state_dir / "live-checks" / tag
    with sim.applied():
        if number == signal.SIGTERM:
            assert code == 143, said
            assert leftovers(tag) == []
            assert not base.exists()
            return
        assert code == -signal.SIGKILL
        assert leftovers(tag) != []
        # A Terraform that was running finishes what it has begun.
        time.sleep(1)
        assert _removed_now() == [tag]
        assert leftovers(tag) == []
        assert not base.exists()
