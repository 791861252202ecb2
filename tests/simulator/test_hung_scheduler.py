"""The scheduler's whole host hangs, and AWS sees a running instance: its user is told, status says
so, and AWS ends the cluster.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import time
from collections.abc import Iterator

import pytest

from terradask import Cluster, Workspace
from terradask._observe import problems
from terradask.errors import ClusterStopped, SchedulerUnreachable
from terradask_simulator import Simulator

from ..waiting import eventually
from .hosts.processes import family
from .left_alone import running

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "hung"

#: A thirtieth and a sixtieth of what hosts wait on AWS.
AHEAD_SECONDS, MOVE_SECONDS = 60.0, 10.0


@contextlib.contextmanager
def hung(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            # AWS may have ended it meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_a_schedulers_host_that_hangs_is_told_and_ended_by_aws(
    sim: Simulator,
    sim_environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(problems, "_AHEAD", datetime.timedelta(seconds=AHEAD_SECONDS))
    monkeypatch.setattr(problems, "_SILENT", datetime.timedelta(seconds=MOVE_SECONDS + 15.0))
    request.addfinalizer(lambda: Workspace.load().destroy_cluster(NAME))
    times = {"watchdog_ahead_seconds": AHEAD_SECONDS, "watchdog_move_seconds": MOVE_SECONDS}
    with (
        sim.time_hosts(**times),
        Cluster(NAME, n_workers=1, wait_for_workers=True, shutdown_on_close=False) as cluster,
    ):
        cluster._running.connection.silent_seconds = 3.0
        (host,) = (one for one in sim.hosts() if one.role == "scheduler" and one.cluster == NAME)
        assert host.pid is not None
        with cluster.get_client() as client:
            dask: int = client.run_on_scheduler(os.getpid)
        status = Workspace.load().deployment(NAME).status
        assert status().problems == ()
        begun = time.monotonic()
        with hung([*family(host.pid), dask]):
            unreachable = eventually(lambda: cluster._health.unreachable)
            told_after = time.monotonic() - begun
            with pytest.raises(SchedulerUnreachable, match="running according to AWS"):
                cluster.scale(2)
            problem = "\n".join(eventually(lambda: status().problems))
            assert f"the scheduler's host {host.instance_id} runs according to AWS" in problem
            assert "hasn't answered since" in str(unreachable)
            # Nobody does anything.
            eventually(lambda: not any(g["desired"] for g in status().groups.values()))
            ended_after = time.monotonic() - begun
            eventually(lambda: cluster._health.ended)
            with pytest.raises(ClusterStopped, match="watchdog schedule"):
                cluster.scale(2)
        print(f"told after {told_after:.0f} s, at zero after {ended_after:.0f} s")
        # The schedule is AWS's own: it looks each few seconds.
        assert ended_after < 2 * AHEAD_SECONDS
        eventually(lambda: not running(sim, NAME))
