"""GPUs that are only in a capacity reservation: a cluster gets them there, and nobody else."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask._aws.listing import listed_instances
from terradask._aws.session import Aws
from terradask._common.progress import ProgressEvent
from terradask._workspace.caller_scope import caller_scope
from terradask.errors import NoCapacity
from terradask_modules.caller_policies import caller_policies
from terradask_simulator import Simulator
from terradask_stacks.loading import load_settings

from ..left_over import leftovers
from ..quick_provider import QuickProvider
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

TYPE = "g5.xlarge"
SETTINGS = """
[workspace]
name = "reserved"
[network]
nat = "none"
public_workers = true
zones = ["us-east-1a", "us-east-1b"]
architectures = ["x86_64"]
gpu_images = true
"""


@pytest.fixture
def workspace(
    sim: Simulator,
    sim_environ: dict[str, str],
    quick_provider: QuickProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A network with images for GPUs, as a user of it sees it."""
    (tmp_path / "terradask.toml").write_text(SETTINGS)
    quick_provider.lock(tmp_path)
    monkeypatch.delenv("TERRADASK_STATE_DIR")
    made = Workspace.load(tmp_path)
    try:
        made.apply(made.plan_network())
        scope = caller_scope(load_settings(tmp_path).settings, Aws("us-east-1"))
        user = sim.environ_of("reserver", *caller_policies(scope, "user").values())
        with monkeypatch.context() as environ:
            environ.chdir(tmp_path)
            for name, value in user.items():
                environ.setenv(name, value)
            yield
    finally:
        made.destroy_network()


@pytest.fixture
def reservation(sim: Simulator, workspace: None) -> Iterator[str]:
    """Two machines of a type, and no other ones; return the reservation's id."""
    ec2 = sim.client("ec2")
    zone = sorted(Workspace.load().baseline().zones)[-1]
    made = ec2.create_capacity_reservation(
        InstanceType=TYPE,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=zone,
        InstanceCount=2,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    with sim.no_capacity(TYPE):
        yield made
    ec2.cancel_capacity_reservation(CapacityReservationId=made)


def described(sim: Simulator, reservation: str) -> dict[str, Any]:
    (found,) = sim.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[reservation]
    )["CapacityReservations"]
    return dict(found)


def test_machines_that_are_only_reserved_come_and_those_used_up_are_refused_with_the_reason(
    sim: Simulator, reservation: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "terradask")
    told: list[ProgressEvent] = []
    with Cluster(
        "reserved",
        n_workers=2,
        max_workers=3,
        wait_for_workers=True,
        capacity_reservation=reservation,
        capacity_timeout=False,
        progress=told.append,
    ) as cluster:
        found = described(sim, reservation)
        assert (cluster.zone, found["AvailableInstanceCount"]) == (found["AvailabilityZone"], 0)
        running = [
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
            {"Name": "tag:terradask:cluster", "Values": ["reserved"]},
        ]
        types = Counter(
            one["InstanceType"] for one in listed_instances(sim.client("ec2"), Filters=running)
        )
        # The scheduler is beside the reservation.
        assert (types[TYPE], types.total()) == (2, 3)
        assert cluster.get_client().submit(sum, [1, 2]).result() == 3
        texts = [getattr(event, "text", "") for event in told]
        assert any("max_workers is 3" in text and "2 machines" in text for text in texts)

        # Used up: nothing is made.
        with pytest.raises(NoCapacity, match="too few machines for cluster 'late'") as caught:
            Cluster("late", n_workers=1, capacity_reservation=reservation)
        assert f"0 of 2 {TYPE} free in {cluster.zone}" in str(caught.value.given)
        with sim.applied():
            assert leftovers("reserved", cluster="late") == []

        cluster.scale(3)
        eventually(lambda: "ReservationCapacityExceeded" in caplog.text)
    eventually(lambda: described(sim, reservation)["AvailableInstanceCount"] == 2)
    with sim.applied():
        assert leftovers("reserved", cluster="reserved") == []
