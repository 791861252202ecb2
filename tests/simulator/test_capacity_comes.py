"""Machines that AWS lacks at first: requested again, also in the next zone, in the same call."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask._aws.listing import listed_instances
from terradask._clusters import pending_launches
from terradask._common.progress import ProgressEvent
from terradask.errors import NoCapacity
from terradask_simulator import Simulator

from ..left_over import leftovers

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
    (refusal,) = [text for text in texts if "goes on asking" in text]
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
    (refusal,) = refusals
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
