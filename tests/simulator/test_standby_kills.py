"""Kills while hosts are prepared, started, replaced and removed: what the setting says is left,
and the next command goes on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "cutpool"


@pytest.fixture(autouse=True)
def _ended(sim: Simulator, tmp_path: Path) -> Iterator[None]:
    yield
    in_this_process("destroy", NAME, "--yes", environ=sim.environ, folder=tmp_path)


def pool(sim: Simulator) -> dict[str, str]:
    client = sim.client("autoscaling")
    name = f"terradask-default-{NAME}-workers"
    if not client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]:
        return {}
    try:
        found = client.describe_warm_pool(AutoScalingGroupName=name)["Instances"]
    except client.exceptions.ClientError:
        # The group was deleted since.
        return {}
    return {one["InstanceId"]: one["LifecycleState"] for one in found}


def is_stopped(sim: Simulator, n: int) -> bool:
    """Return whether AWS has exactly these prepared hosts, and nothing of the cluster runs."""
    mine = {"Name": "tag:terradask:cluster", "Values": [NAME]}
    on = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping"]}
    running = sim.client("ec2").describe_instances(Filters=[mine, on])["Reservations"]
    return not running and list(pool(sim).values()) == ["Warmed:Stopped"] * n


def run(environ: Mapping[str, str], folder: Path, *words: str) -> None:
    done = in_this_process(*words, environ=environ, folder=folder)
    assert done.returncode == 0, done.stderr


def kill_when(
    environ: Mapping[str, str], folder: Path, reached: Callable[[], object], *words: str
) -> None:
    """Kill a command with its Terraform once something is reached."""
    process = subprocess.Popen(
        [sys.executable, "-m", "terradask", *words],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: reached() or process.poll() is not None)
        assert process.poll() is None, "the command ended before"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PROCESS_SECONDS)


def test_whatever_is_killed_costs_no_more_than_the_prepared_hosts(
    sim: Simulator, tmp_path: Path, policies: dict[str, list[dict[str, Any]]]
) -> None:
    """All by a caller with the policy of users alone."""
    user = sim.environ_of("user", *policies["user"])
    (tmp_path / "terradask.toml").write_text(f"[clusters.{NAME}]\nstandby = 2\nn_workers = 1\n")
    # The apply, while its hosts are prepared.
    kill_when(user, tmp_path, lambda: pool(sim), "apply", NAME, "--yes")
    run(user, tmp_path, "apply", NAME, "--yes")
    # A host, while it is prepared.
    client = sim.client("ec2")
    eventually(lambda: is_stopped(sim, 2))
    known = set(pool(sim))
    client.terminate_instances(InstanceIds=[min(known)])
    (new,) = eventually(lambda: pool(sim).keys() - known)
    sim.kill_host(new)
    client.terminate_instances(InstanceIds=[new])
    eventually(lambda: is_stopped(sim, 2) and new not in pool(sim))
    # A start, once a prepared host has left the pool.
    before = set(pool(sim))
    kill_when(user, tmp_path, lambda: before - pool(sim).keys(), "start", NAME)
    run(user, tmp_path, "start", NAME)
    # A stop, while AWS prepares the next one.
    run(user, tmp_path, "stop", NAME)
    eventually(lambda: is_stopped(sim, 2))
    # The destruction, once the pool goes.
    kill_when(
        user, tmp_path, lambda: "Warmed:Stopped" not in pool(sim).values(), "destroy", NAME, "--yes"
    )
    again = in_this_process("destroy", NAME, "--yes", environ=user, folder=tmp_path)
    # The pool goes last of all: nothing may be left to destroy.
    assert again.returncode == 0 or "there is no cluster" in again.stderr
    with sim.applied():
        assert leftovers("default", cluster=NAME) == []


def test_a_sweep_removes_a_cluster_without_state_with_its_prepared_hosts(
    sim: Simulator, tmp_path: Path
) -> None:
    (tmp_path / "terradask.toml").write_text(f"[clusters.{NAME}]\nstandby = 1\n")
    run(sim.environ, tmp_path, "apply", NAME, "--yes")
    eventually(lambda: is_stopped(sim, 1))
    with sim.applied():
        bucket = Workspace.load().deployment(NAME)._record.bucket
        s3 = sim.client("s3")
        listed = s3.list_object_versions(Bucket=bucket, Prefix=f"clusters/{NAME}/")
        gone = [*listed.get("Versions", ()), *listed.get("DeleteMarkers", ())]
        s3.delete_objects(
            Bucket=bucket,
            Delete={"Objects": [{"Key": o["Key"], "VersionId": o["VersionId"]} for o in gone]},
        )
    eventually(
        lambda: run(sim.environ, tmp_path, "sweep", "--yes", "--grace", "1") or not pool(sim)
    )
    with sim.applied():
        assert leftovers("default", cluster=NAME) == []
    assert pool(sim) == {}
