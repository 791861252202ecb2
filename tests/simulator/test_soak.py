"""What takes minutes: an hour of random scaling, kills and faults, and hosts that are really
broken. A short soak is in test_faults.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

from .. import invariants
from ..seeds import drawn
from ..waiting import eventually
from .soaking import MOST, TIMING, Soak

pytestmark = [pytest.mark.simulator, pytest.mark.soak, pytest.mark.timeout(3600)]

#: Twice a minute something happens.
STEPS = int(os.environ.pop("TERRADASK_SOAK_STEPS", "120"))

#: With a client, and then without one.
STEPS_EACH = 10

#: For hosts that are whole, as those beside prepared ones.
WHOLE_JOIN_SECONDS = 40.0
#: From a launch to the end of a host that never joined, on a machine that is busy.
MORE_SECONDS = 20.0


def test_an_hour(sim: Simulator, sim_environ: dict[str, str], tmp_path: Path) -> None:
    draws = drawn("an hour")
    standby = draws.randint(1, 2)
    with (
        sim.hollow_hosts(),
        sim.time_hosts(**{**TIMING, "join_seconds": WHOLE_JOIN_SECONDS}),
        sim.linger_terminating(30),
        sim.delay_launches(0.1),
        Soak(sim, "soak", draws, tmp_path, spot=True, standby=standby) as soak,
    ):
        while len(soak.said) < STEPS:
            soak.live(STEPS_EACH)
            soak.live_alone(STEPS_EACH)
        assert invariants.state_in_disorder(sim, Workspace.load().bucket, "soak") == []
        soak.hear()
        eventually(lambda: soak.prepared() == ["Warmed:Stopped"] * standby, seconds=60)
        ending = time.time()
    assert soak.checked
    print(f"with {standby} prepared")
    print(f"attached for {soak.attached_seconds:.0f} s, alone for {soak.alone_seconds:.0f} s")
    assert invariants.left_behind(sim, "soak") == []
    assert invariants.over_scaled(sim, "soak", at_most=MOST) == []
    assert invariants.born_without_tags(sim, "soak") == []
    assert invariants.outlived(sim, "soak", seconds=3600) == []
    assert (
        invariants.removed_unretired(sim, "soak", soak.witness, lost=soak.faults.lost, until=ending)
        == []
    )
    seconds = WHOLE_JOIN_SECONDS + MORE_SECONDS
    assert invariants.unjoined(sim, "soak", soak.witness.joined, seconds=seconds) == []


def test_a_full_disk_and_a_broken_environment(sim: Simulator, sim_environ: dict[str, str]) -> None:
    # By value: hosts have no tests.
    def write() -> None:
        Path("large").write_bytes(bytes(2 * 1024**2))

    with (
        Cluster("worn", n_workers=2, max_workers=3, wait_for_workers=True) as cluster,
        cluster.get_client() as client,
    ):
        full, whole = sorted(cluster.observed)
        sim.fill_disk(full)
        with pytest.raises(OSError, match="File too large"):
            client.submit(write, workers=[full], pure=False).result(30)
        client.submit(write, workers=[whole], pure=False).result(30)
        assert client.gather(client.map(lambda n: n + 1, range(100))) == list(range(1, 101))
        with sim.break_environments():
            cluster.scale(3)
            eventually(
                lambda: [
                    event
                    for event in cluster.events()
                    if event.state == "failed" and "distributed" in str(event.reason)
                ],
                seconds=60,
            )
        eventually(lambda: len(cluster.observed) == 3)
        assert {full, whole} <= cluster.observed
    assert invariants.left_behind(sim, "worn") == []
    assert invariants.over_scaled(sim, "worn", at_most=3) == []
