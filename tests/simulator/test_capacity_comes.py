"""Machines that AWS lacks at first: requested again, also in the next zone, in the same call."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask._aws.listing import listed_instances
from terradask._clusters import pending_launches
from terradask._common.progress import ProgressEvent
from terradask._observe.shortfall import describe_refusal
from terradask.cli import _deployments
from terradask.errors import NoCapacity
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_launches, "REPEAT_SECONDS", 2.0)


@pytest.fixture
def as_user(
    sim: Simulator,
    sim_environ: dict[str, str],
    policies: dict[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in sim.environ_of("seeker", *policies["user"]).items():
        monkeypatch.setenv(name, value)


def best_zone(**cluster: Any) -> str:
    """The zone in which such a cluster begins: earlier tests left refusals."""
    return Workspace.load().explain("new", **cluster).chosen.zone


@pytest.mark.usefixtures("as_user")
def test_a_cluster_goes_where_machines_are_in_the_same_call(sim: Simulator) -> None:
    told: list[ProgressEvent] = []
    first = best_zone()
    with (
        sim.no_capacity(zone=first),
        Cluster("roaming", n_workers=1, wait_for_workers=True, progress=told.append) as cluster,
    ):
        assert cluster.zone != first
        assert cluster.get_client().submit(sum, [1, 2]).result() == 3
    texts = [event.text for event in told if hasattr(event, "text")]
    # Of the scheduler's group, and perhaps of the workers' first.
    refusal, *_ = [text for text in texts if "goes on asking" in text]
    assert "InsufficientInstanceCapacity" in refusal
    assert first in refusal
    assert "\n" not in refusal
    (began, moved) = [text for text in texts if text.startswith("zone: ")]
    assert began.startswith(f"zone: {first}: ")
    assert moved.startswith(f"zone: {cluster.zone}: ")
    assert f"in {first}" in moved or f"{first} has refused launches recently" in moved
    with sim.applied():
        assert leftovers("default", cluster="roaming") == []


@pytest.mark.usefixtures("as_user")
def test_machines_that_come_later_are_waited_for(sim: Simulator) -> None:
    refusals: list[str] = []
    zone = best_zone()

    def ends_with_the_first_refusal(event: ProgressEvent) -> None:
        if "goes on asking" in getattr(event, "text", ""):
            refusals.append(event.text)
            sim.allow_capacity()

    with (
        sim.no_capacity(zone=zone),
        Cluster(
            "patient",
            n_workers=1,
            wait_for_workers=True,
            zone_name=zone,
            progress=ends_with_the_first_refusal,
        ) as cluster,
    ):
        assert cluster.zone == zone
        assert cluster.get_client().submit(sum, [1, 2]).result() == 3
    refusal, *_ = refusals
    assert "InsufficientInstanceCapacity" in refusal


@pytest.mark.usefixtures("as_user")
def test_an_interrupted_wait_for_machines_is_rolled_back(sim: Simulator) -> None:
    refusals: list[str] = []

    def interrupts_the_first_refusal(event: ProgressEvent) -> None:
        if "goes on asking" in getattr(event, "text", "") and not refusals:
            refusals.append(event.text)
            signal.raise_signal(signal.SIGINT)

    with sim.no_capacity(), pytest.raises(KeyboardInterrupt):
        Cluster("given-up", n_workers=1, progress=interrupts_the_first_refusal)
    assert refusals
    with sim.applied():
        assert leftovers("default", cluster="given-up") == []


@pytest.mark.usefixtures("as_user")
def test_an_interrupted_move_to_another_zone_is_rolled_back(sim: Simulator) -> None:
    zones: list[str] = []

    def interrupts_the_second_choice(event: ProgressEvent) -> None:
        if getattr(event, "text", "").startswith("zone: "):
            zones.append(event.text)
            if len(zones) == 2:
                signal.raise_signal(signal.SIGINT)

    with sim.no_capacity(), pytest.raises(KeyboardInterrupt):
        Cluster("cut-move", n_workers=1, progress=interrupts_the_second_choice)
    assert len(zones) == 2
    with sim.applied():
        assert leftovers("default", cluster="cut-move") == []


WAITING = """
from terradask import Cluster
Cluster("cut-wait", n_workers=1, progress=lambda each: print(getattr(each, "text", ""), flush=True))
"""


@pytest.mark.usefixtures("as_user")
def test_what_a_killed_wait_requested_is_taken_up_by_the_next_client(sim: Simulator) -> None:
    with sim.no_capacity():
        process = subprocess.Popen(
            [sys.executable, "-c", WAITING],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert any("goes on asking" in line for line in process.stdout)
            os.killpg(process.pid, signal.SIGKILL)
    try:
        with Cluster("cut-wait", n_workers=1, wait_for_workers=True) as cluster:
            assert cluster.get_client().submit(sum, [1, 2]).result() == 3
    finally:
        Workspace.load().destroy_cluster("cut-wait")
    with sim.applied():
        assert leftovers("default", cluster="cut-wait") == []


@pytest.mark.usefixtures("as_user")
def test_the_command_line_waits_for_machines_too(
    sim: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster("awaited", n_workers=1))

    def come(refusal: NoCapacity, left_seconds: float) -> str:
        sim.allow_capacity()
        return describe_refusal(refusal, left_seconds)

    monkeypatch.setattr(_deployments, "describe_refusal", come)
    try:
        with sim.no_capacity():
            started = in_this_process("start", "awaited", folder=tmp_path)
        assert started.returncode == 0, started.stderr
        assert "goes on asking, for 5 min" in started.stderr
    finally:
        workspace.destroy_cluster("awaited")


@pytest.mark.usefixtures("as_user")
def test_a_region_without_machines_is_named_zone_by_zone(sim: Simulator) -> None:
    with sim.no_capacity(), pytest.raises(NoCapacity) as caught:
        Cluster("nowhere", n_workers=1, capacity_timeout="15s")
    notes = " ".join(caught.value.__notes__)
    for zone in Workspace.load().baseline().zones:
        assert zone in notes
    assert "was rolled back" in notes
    with sim.applied():
        assert leftovers("default", cluster="nowhere") == []


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("spot_policy", ["on-demand", "spot_with_fallback"])
def test_workers_without_machines_move_with_their_scheduler(
    sim: Simulator, spot_policy: str
) -> None:
    told: list[ProgressEvent] = []
    name, hardware = f"moving-{spot_policy[:4]}", {"worker_vm_types": ["m6i.2xlarge"]}
    first = best_zone(**hardware, spot_policy=spot_policy)
    with (
        sim.no_capacity("m6i.2xlarge", first),
        Cluster(
            name,
            n_workers=1,
            **hardware,
            spot_policy=spot_policy,
            wait_for_workers=True,
            progress=told.append,
        ) as cluster,
    ):
        assert cluster.zone != first
        running = [{"Name": "instance-state-name", "Values": ["running"]}]
        of_cluster = {"Name": "tag:terradask:cluster", "Values": [name]}
        described = listed_instances(sim.client("ec2"), Filters=[*running, of_cluster])
        assert [one["Placement"]["AvailabilityZone"] for one in described] == [cluster.zone] * 2
    assert any("launches no worker" in getattr(event, "text", "") for event in told)


@pytest.mark.usefixtures("as_user")
def test_placed_hosts_move_once_those_of_the_other_zone_have_ended(sim: Simulator) -> None:
    hardware: dict[str, Any] = {"worker_vm_types": ["m6i.2xlarge"], "placement_group": True}
    first = best_zone(**hardware)
    with sim.no_capacity("m6i.2xlarge", first):
        # However long the move takes, the hosts of the first zone are there until AWS has refused.
        with sim.linger_terminating(600), ThreadPoolExecutor(1) as beside:
            refused = beside.submit(_end_once_refused, sim, first)
            placed = Cluster("placed", n_workers=1, **hardware, wait_for_workers=True)
        with placed as cluster:
            assert cluster.zone != first
        assert refused.result()


def _end_once_refused(sim: Simulator, zone: str) -> bool:
    """Let terminating hosts end once AWS has refused others for being placed in their zone."""
    text = f"is in use in another availability zone: {zone}"

    def is_refused() -> bool:
        with contextlib.closing(sim.client("autoscaling")) as client:
            found = client.describe_scaling_activities()["Activities"]
        return any(text in one.get("StatusMessage", "") for one in found)

    try:
        return bool(eventually(is_refused))
    finally:
        sim.linger_terminating(0)
