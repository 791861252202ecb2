"""A host that hangs: AWS sees a running instance, and the scheduler a worker that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from ...waiting import HANG_SECONDS, eventually
from .cluster import Cluster, HostProcess
from .processes import children

pytestmark = pytest.mark.simulator

#: What is stopped here is found among the host program's children.
FRESH_DASK = True

#: The scheduler forgets a worker without a heartbeat after ten of its intervals, 5 s, at least.
SCHEDULER = {"distributed": {"scheduler": {"worker-ttl": "1s"}}}


def all_of(host: HostProcess) -> list[int]:
    dask = host.dask_pid()
    return [host.process.pid, dask, *children(dask)]


def test_a_host_that_hangs_after_it_has_joined_is_replaced_and_that_is_reported(
    lonely: Callable[..., Cluster],
) -> None:
    # A nanny that doesn't answer is waited for half a minute longer.
    cluster = lonely(workers=1, worker={"class": "distributed.Worker", "options": {}})
    cluster.start(dask_config=SCHEDULER)
    worker = cluster.worker(0)
    worker.wait_state("waiting")
    scheduler = cluster.scheduler(timing={"join_seconds": 5.0, "join_look_seconds": 0.3})
    worker.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(1, timeout=HANG_SECONDS)
        assert client.submit(sum, [1, 2], pure=False).result(HANG_SECONDS) == 3
    stopped = all_of(worker)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        (note,) = eventually(
            lambda: [note for note in scheduler.report()["notes"] if note[2] == "removed"],
            explain=lambda: scheduler.log,
        )
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert note[1] == "workers"
    assert note[3].startswith(f"{worker.instance_id} had joined, and has had no worker")
    # Its group launches another.
    assert cluster.desired("workers") == 1
    members = cluster.account.describe(cluster.groups["workers"])["Instances"]
    assert worker.instance_id not in {member["InstanceId"] for member in members}
