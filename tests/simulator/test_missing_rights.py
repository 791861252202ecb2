"""Who lacks a single right sees the rest of a cluster, and which right that is: in `terradask
debug`, and in the commands that show.
"""

from __future__ import annotations

import json
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import eventually
from .acting import ACCOUNT

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "lesser"
SETTINGS = f"[clusters.{NAME}]\nworker_cpu = 2\nn_workers = 1\n"
OBJECTS = f"arn:aws:s3:::terradask-default-{ACCOUNT}-us-east-1"
NETWORK_STATE = "states/network.json"
LOGS = {"logs/scheduler.txt", "logs/workers.txt"}
DOCUMENTS = {"documents/run.json", "documents/scheduler.json", "documents/cluster.json"}

#: Action that `terradask debug` uses -> files that need it, and whether the index has a line on it.
#: Of doctor's checks, its findings have one.
DEBUG: dict[str, tuple[set[str], bool]] = {
    "autoscaling:DescribeAutoScalingGroups": ({"status.json"}, True),
    "autoscaling:DescribeScalingActivities": (set(), True),
    "ec2:DescribeAvailabilityZones": (set(), False),
    "ec2:DescribeInstances": (set(), True),
    "ec2:DescribeVolumes": (set(), True),
    "iam:GetRole": (set(), False),
    "logs:DescribeLogStreams": (LOGS, True),
    "logs:FilterLogEvents": (LOGS, True),
    "pricing:GetProducts": (set(), True),
    "s3:GetObject": ({"events.txt", "history.json", f"states/{NAME}.json", *DOCUMENTS}, True),
    "s3:ListBucket": ({"events.txt", "objects.json", f"states/{NAME}.json"}, True),
    # Of the account of costs, which others write, too.
    "s3:PutObject": (set(), False),
}

#: Command, action -> exit code, and a text of its answer without it.
SHOWING = [
    ("list", "autoscaling:DescribeAutoScalingGroups", 0, "hidden"),
    ("list", "ec2:DescribeInstances", 0, "running  1/1"),
    ("list", "s3:GetObject", 0, "running  1/1"),
    ("list", "s3:ListBucket", 0, "running  1/1"),
    ("status", "autoscaling:DescribeAutoScalingGroups", 0, "AWS refuses to show it"),
    ("status", "s3:ListBucket", 0, "1 worker runs"),
    (f"status {NAME}", "pricing:GetProducts", 0, "cost       at an unknown price"),
    (f"status {NAME}", "s3:GetObject", 0, "1 worker runs"),
    (f"status {NAME}", "s3:ListBucket", 0, "1 worker runs"),
    (f"status {NAME}", "autoscaling:DescribeScalingActivities", 0, "1 worker runs"),
    (f"status {NAME}", "autoscaling:DescribeAutoScalingGroups", 3, ""),
    (f"status {NAME} --events", "autoscaling:DescribeScalingActivities", 0, "  running\n"),
    (f"logs {NAME} --all", "s3:GetObject", 0, "scheduler terradask-host: version"),
    (f"logs {NAME}", "logs:FilterLogEvents", 3, ""),
    ("cost", "ec2:DescribeInstances", 0, NAME),
    ("limits", "s3:GetObject", 3, ""),
    (f"report {NAME}", "secretsmanager:GetSecretValue", 1, ""),
]

Run = Callable[..., subprocess.CompletedProcess[str]]


def but(*actions: str, on: str = "*") -> dict[str, Any]:
    """Return a policy that takes rights away."""
    denied = {"Effect": "Deny", "Action": list(actions), "Resource": on}
    return {"Version": "2012-10-17", "Statement": [denied]}


@pytest.fixture(scope="module")
def run(
    sim: Simulator, policies: dict[str, list[dict[str, Any]]], tmp_path_factory: Any
) -> Iterator[Run]:
    """Run commands as who holds `terradask iam user` without some rights, on a running cluster."""
    folder: Path = tmp_path_factory.mktemp("lesser")
    (folder / "terradask.toml").write_text(SETTINGS)

    def owner(*arguments: str) -> None:
        done = in_this_process(*arguments, environ=sim.environ, folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def lesser(command: str, *lacks: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        environ = sim.environ_of("lesser", *policies["user"], *lacks)
        environ["PLANTED_PASSWORD"] = "s3cr3t-of-the-caller"
        return in_this_process(*command.split(), environ=environ, folder=folder)

    with sim.hollow_hosts():
        owner("apply", NAME, "--yes")
        try:
            owner("start", NAME)
            eventually(lambda: "1 worker runs" in lesser(f"status {NAME}").stdout)
            yield lesser
        finally:
            owner("destroy", NAME, "--yes")


@pytest.fixture
def debug(run: Run, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], dict[str, str], str]]:
    """Make an archive; return its description, its texts, and what was said meanwhile."""

    def make(*lacks: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], str]:
        began, path = time.monotonic(), tmp_path / "a.zip"
        done = run(f"debug {NAME} --no-plan --json --seconds 120 -o {path}", *lacks)
        assert done.returncode == 0, done.stdout + done.stderr
        assert time.monotonic() - began < 120
        with zipfile.ZipFile(path) as archive:
            texts = {
                each.partition("/")[2]: archive.read(each).decode() for each in archive.namelist()
            }
        everything = "\n".join([*texts.values(), done.stdout, done.stderr])
        assert "s3cr3t" not in everything
        assert "PRIVATE KEY" not in everything
        return json.loads(done.stdout), texts, done.stderr

    return make


def test_debug_with_the_rights_of_users_uses_these_alone(sim: Simulator, debug: Any) -> None:
    sim.reset_calls()
    made, texts, errors = debug()
    asked = sim.requests()[f"arn:aws:iam::{ACCOUNT}:role/lesser"]
    allowed = {one.request.action for one in asked if one.allowed}
    assert allowed | {"s3:PutObject"} == set(DEBUG)
    assert made["missing_rights"] == []
    assert "Missing rights" not in texts["README.md"]
    refused = {each["file"] for each in made["missing"] if each["why"] != "there is none"}
    assert refused == {NETWORK_STATE}
    assert errors.count("not read") == 1


@pytest.mark.parametrize("action", DEBUG)
def test_debug_without_one_right_has_the_rest_and_names_it(debug: Any, action: str) -> None:
    lacking, is_named = DEBUG[action]
    made, texts, errors = debug(but(action))
    reasons = {each["file"]: each["why"] for each in made["missing"]}
    assert {reasons[file] for file in lacking} <= {f"AWS refuses {action}"}
    if action not in ("s3:GetObject", "s3:ListBucket"):
        unread = {file for file, why in reasons.items() if why != "there is none"}
        assert unread == lacking | {NETWORK_STATE}
    named = [one for one in made["missing_rights"] if one["action"] == action]
    assert {one["policy"] for one in named} == ({"user"} if is_named else set())
    assert (f"- AWS refuses {action}" in texts["README.md"]) is is_named
    if is_named:
        assert "'terradask iam user' prints a policy with it" in texts["README.md"]
        assert f"AWS refuses {action}" in errors
    if action == "ec2:DescribeAvailabilityZones":
        assert action in texts["doctor/account.json"]
    if action.startswith("s3:Get"):
        assert all(one["resources"][0].startswith(OBJECTS) for one in named)
    assert len(errors.splitlines()) < 12


@pytest.mark.parametrize(("command", "action", "code", "text"), SHOWING)
def test_a_command_without_one_right_shows_the_rest(
    run: Run, command: str, action: str, code: int, text: str
) -> None:
    done = run(command, but(action))
    assert done.returncode == code, done.stdout + done.stderr
    assert text in done.stdout
    assert f"AWS refuses {action}" in done.stderr
    if code == 0:
        assert "`terradask iam user` prints a policy with it" in done.stderr


def test_the_document_of_a_status_has_the_missing_rights(run: Run) -> None:
    status = json.loads(run(f"status {NAME} --json", but("ec2:DescribeVolumes")).stdout)
    assert [one["action"] for one in status["missing_rights"]] == ["ec2:DescribeVolumes"]
    assert json.loads(run(f"status {NAME} --json").stdout)["missing_rights"] == []


def test_a_cluster_of_others_hides_none_of_ones_own(run: Run, debug: Any) -> None:
    """Its documents are another's; its groups show its numbers."""
    others = but("s3:GetObject", on=f"{OBJECTS}/clusters/{NAME}/*")
    assert "running  1/1" in run("list", others).stdout
    made, texts, _ = debug(others)
    assert made["verdict"][0] == f"{NAME}: 1 worker runs"
    assert f"{OBJECTS}/clusters/{NAME}/" in texts["README.md"]


def test_no_such_cluster_is_the_verdict(run: Run, tmp_path: Path) -> None:
    made = json.loads(run(f"debug nosuch --no-plan --json -o {tmp_path / 'a.zip'}").stdout)
    assert "There is no cluster 'nosuch' in this workspace" in made["verdict"][0]
