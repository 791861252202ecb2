"""A host that hangs: AWS sees a running instance, and the scheduler a worker that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from ...waiting import HANG_SECONDS, eventually
from .cluster import Cluster, HostProcess
from .processes import children

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: What is stopped here is found among the host program's children.
FRESH_DASK = True

#: When the scheduler forgets a worker without a heartbeat: on a busy machine one may be late.
SCHEDULER = {"distributed": {"scheduler": {"worker-ttl": "20s"}}}


TASKS = 2_000


def all_of(host: HostProcess) -> list[int]:
    dask = host.dask_pid()
    return [host.process.pid, dask, *children(dask)]


def test_a_host_that_hangs_after_it_has_joined_is_replaced_and_its_tasks_run_elsewhere(
    lonely: Callable[..., Cluster],
) -> None:
    # A nanny that doesn't answer is waited for half a minute longer.
    cluster = lonely(workers=2, worker={"class": "distributed.Worker", "options": {}})
    cluster.start(dask_config=SCHEDULER)
    worker, other = cluster.worker(0), cluster.worker(1)
    for each in (worker, other):
        each.wait_state("waiting")
    # Those that moto launches in its place never boot.
    scheduler = cluster.scheduler(
        timing={"join_seconds": 5.0, "join_poll_seconds": 0.3, "join_failures": 1000}
    )
    for each in (worker, other):
        each.wait_state("running")
    stopped = all_of(worker)
    try:
        with cluster.client() as client:
            client.wait_for_workers(2, timeout=HANG_SECONDS)
            tasks = client.map(lambda n: n + 1, range(TASKS), pure=False)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            note = eventually(
                lambda: next(
                    (each for each in scheduler.report()["notes"] if worker.instance_id in each[3]),
                    None,
                ),
                explain=lambda: scheduler.log,
            )
            assert client.gather(tasks) == list(range(1, TASKS + 1))
        # Its group launches another.
        assert cluster.desired("workers") == 2
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert note[1:3] == ["workers", "removed"]
    assert note[3].startswith(f"{worker.instance_id} had joined, and has had no worker")
    members = cluster.account.describe(cluster.groups["workers"])["Instances"]
    assert worker.instance_id not in {member["InstanceId"] for member in members}
