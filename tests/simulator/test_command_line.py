"""The command line at work: a cluster's whole life, as a script and as a person drive it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator]

COMMAND = [sys.executable, "-m", "terradask"]

#: Run in processes of their own, as users run them. The start of one takes more time than most
#: commands do, so the others run in this process: `test_cdktf_command.py`, `test_callers.py`,
#: `test_pipelines.py`, `test_faults.py` and `test_interruptions.py` run each of them as users do,
#: and here it is what tests of the terminal and of signals do.
AS_PROCESSES = {"start", "stop"}


@pytest.fixture
def terradask(sim: Simulator, tmp_path: Path):
    """Run the command beside the shared embedded AWS."""

    def begin(
        arguments: tuple[str, ...], environ: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        if arguments[0] not in AS_PROCESSES:
            return in_this_process(*arguments, environ=environ, folder=tmp_path)
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )

    def run(
        *arguments: str, code: int = 0, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = begin(arguments, {**sim.environ, **(environ or {})})
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def _lose_a_machine(sim: Simulator, cluster: str) -> str:
    """Launch a machine that says of itself that a group has launched it, which is gone."""
    with contextlib.closing(sim.client("ec2")) as ec2:
        tags = {
            "terradask:workspace": "default",
            "terradask:cluster": cluster,
            "aws:autoscaling:groupName": f"terradask-default-{cluster}-gone",
        }
        made = ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType="t3.micro",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        )
        return str(made["Instances"][0]["InstanceId"])


@pytest.fixture
def removed(sim: Simulator, tmp_path: Path) -> Iterator[str]:
    """A name for a cluster that is gone after the test, whatever happened in it."""
    name = "cli"
    yield name
    in_this_process("destroy", name, "--yes", environ=sim.environ, folder=tmp_path)


def test_a_clusters_life(terradask, removed: str, tmp_path: Path, sim: Simulator) -> None:
    planned = terradask("plan", removed, "--out", "kept", "--format", "markdown")
    assert planned.stdout.startswith("<!-- terradask plan cli of default ")
    assert "aws_autoscaling_group" in planned.stdout
    assert "terradask apply kept" in planned.stderr
    assert removed not in {one["name"] for one in json.loads(terradask("list", "--json").stdout)}

    applied = terradask("apply", "kept", "--yes", "--json")
    assert json.loads(applied.stdout)["stack"] == removed
    again = terradask("plan", removed, "--json")
    assert sum(json.loads(again.stdout)["counts"].values()) == 0

    assert json.loads(terradask("status", removed, "--json").stdout)["state"] == "stopped"
    refused = terradask("start", removed, "--n-workers", "100000", code=2)
    assert "max_workers" in refused.stderr
    address = terradask("start", removed, "--n-workers", "1").stdout.strip()
    assert address.startswith("tls://127.")

    listed = terradask("list").stdout.splitlines()
    assert listed[0].split()[:3] == ["NAME", "STATE", "WORKERS"]
    row = next(line for line in listed if line.startswith(removed))
    assert "running" in row
    assert address in row
    shown = terradask("status", removed).stdout
    assert "state      running" in shown
    assert "HOST" in shown

    # What it costs, as everybody in the account sees it; a cluster of another workspace by its tags
    # alone.
    (one,) = [
        one for one in json.loads(terradask("list", "--json").stdout) if one["name"] == removed
    ]
    assert one["hosts_by_state"]["running"] >= 1
    assert one["workspace"] == "default"
    assert float(one["hourly_usd"]) > 0
    assert one["deployed_at"] <= one["last_activity"]
    elsewhere = terradask(
        "list", "--all-workspaces", "--json", environ={"TERRADASK_WORKSPACE__NAME": "other"}
    )
    (seen,) = [one for one in json.loads(elsewhere.stdout) if one["name"] == removed]
    assert (seen["workspace"], seen["state"], seen["hourly_usd"]) == (
        "default",
        "running",
        one["hourly_usd"],
    )

    # A machine whose group is gone, beside those of the cluster that lives: that one alone goes.
    with sim.applied():
        lost = _lose_a_machine(sim, removed)
        before = json.loads(terradask("status", removed, "--json").stdout)["groups"]
        swept = json.loads(terradask("sweep", "--yes", "--json", "--grace", "1").stdout)
        assert [(stray["kind"], stray["id"]) for stray in swept["removed"]] == [("instance", lost)]
        assert json.loads(terradask("status", removed, "--json").stdout)["groups"] == before

    # Instances, a run's tags and the watchdog schedule are the runtime's: no drift.
    assert "no drift in cli" in terradask("drift", removed).stderr

    assert "stopped" in terradask("stop", removed).stderr
    status = json.loads(terradask("status", removed, "--json").stdout)
    assert status["state"] == "stopped"
    assert {group["desired"] for group in status["groups"].values()} == {0}

    terradask("destroy", removed, "--yes")
    with sim.applied():
        assert leftovers("default", cluster=removed) == []
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_a_person_is_asked_and_may_decline(sim: Simulator, removed: str, tmp_path: Path) -> None:
    parent, child = pty.openpty()
    os.write(parent, b"n\n")
    done = subprocess.run(
        [*COMMAND, "apply", removed],
        cwd=tmp_path,
        env=sim.environ,
        stdin=child,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    os.close(parent)
    os.close(child)
    assert done.returncode == 1
    assert "Apply this plan to cli? [y/N]" in done.stderr
    assert "to create" in done.stderr
    assert "nothing was changed" in done.stderr
    with sim.applied():
        assert leftovers("default", cluster=removed) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["status", "nobody"], "terradask list"),
        (["start", "nobody"], "nobody"),
        (["stop", "nobody"], "nobody"),
        (["drift", "nobody"], "terradask list"),
    ],
)
def test_a_cluster_that_is_not_there(
    sim: Simulator, tmp_path: Path, arguments: list[str], says: str
) -> None:
    def refused(*more: str) -> str:
        done = in_this_process(*arguments, *more, environ=sim.environ, folder=tmp_path)
        assert done.returncode == 6, done.stderr
        return done.stderr

    assert says in refused()
    assert json.loads(refused("--json").splitlines()[-1])["error"] == "ClusterNotFound"


def test_no_network(bare_sim: Simulator, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "plan", "etl"],
        cwd=tmp_path,
        env=bare_sim.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 6
    assert "terradask apply network" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_on_the_embedded_aws(terradask) -> None:
    findings = {
        finding["check"]: finding for finding in json.loads(terradask("doctor", "--json").stdout)
    }
    assert {"python", "synthesis", "terraform", "provider", "credentials", "region"} <= set(
        findings
    )
    assert all(finding["ok"] for finding in findings.values())
    assert "ok" in terradask("doctor").stdout


def _begin(sim: Simulator, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=sim.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("direct_provider")
@pytest.mark.life
def test_ending_a_plan_from_outside_leaves_no_lock(
    terradask, removed: str, sim: Simulator, tmp_path: Path
) -> None:
    process = _begin(sim, tmp_path, "plan", removed)
    assert process.stderr is not None
    for line in process.stderr:
        if "init" in line:
            break
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PROCESS_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert terradask("plan", removed, "--json").stdout
