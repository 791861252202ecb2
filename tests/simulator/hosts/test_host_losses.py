"""A running cluster loses hosts and processes, one test after the other: by order, by retirement,
by death.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from distributed import get_worker

from ...waiting import HANG_SECONDS, eventually
from .cluster import Cluster
from .processes import alive, children

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: What is killed here, and found among the host program's children, is Dask's own process.
FRESH_DASK = True


def test_a_host_that_is_shut_down_moves_the_only_copy_of_a_result_off(cluster: Cluster) -> None:
    host = cluster.worker(2)
    host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(3, timeout=HANG_SECONDS)
        future = client.submit(random.random, workers=[host.instance_id], pure=False)
        value = future.result(HANG_SECONDS)
        assert all(
            address.startswith(f"tls://{host.address}:")
            for address in client.who_has(future)[future.key]
        )
        host.process.send_signal(signal.SIGTERM)
        assert host.wait_exit() == 0
        assert future.result(HANG_SECONDS) == value
        assert future.status == "finished"
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 2
    report = host.report()
    assert report["state"] == "left"
    assert "SIGTERM" in report["reason"]
    assert host.states()[-3:] == ["running", "leaving", "left"]
    # Who shuts an instance down decides about its group: the host does not.
    assert cluster.desired("workers") == 5


def test_a_retired_host_leaves_with_decrement_when_nobody_ends_it(cluster: Cluster) -> None:
    host = cluster.worker(3)
    host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(3, timeout=HANG_SECONDS)
        retired = client.retire_workers(names=[host.instance_id], close_workers=True)
        assert len(retired) == 1
        assert host.wait_exit() == 0
    assert "retired" in host.report()["reason"]
    assert host.states()[-3:] == ["running", "leaving", "left"]
    assert cluster.desired("workers") == 4
    members = cluster.account.describe(cluster.groups["workers"])["Instances"]
    assert host.instance_id not in {member["InstanceId"] for member in members}


def test_a_host_that_aws_recommends_to_replace_is_emptied_and_replaced(
    cluster: Cluster, tmp_path: Path
) -> None:
    host = cluster.worker(4, timing={"spot_poll_seconds": 0.2}, life_cycle="spot")
    host.wait_state("running")
    desired, gate = cluster.desired("workers"), tmp_path / "gate"

    def behind_gate(path: Path) -> str:
        while not path.exists():
            time.sleep(0.05)
        return "through"

    with cluster.client() as client:
        client.wait_for_workers(3, timeout=HANG_SECONDS)
        held = client.submit(random.random, workers=[host.instance_id], pure=False)
        value = held.result(HANG_SECONDS)
        running = client.submit(
            behind_gate, gate, workers=[host.instance_id], allow_other_workers=True, pure=False
        )
        eventually(lambda: any(running.key in keys for keys in client.processing().values()))
        host.metadata.facts["events/recommendations/rebalance"] = (
            '{"noticeTime": "2026-11-20T12:00:00Z"}'
        )
        # What it holds is moved at once; it goes on with what it runs, and gets nothing new.
        others = {f"tls://{other.address}" for other in cluster.hosts if other is not host}
        eventually(
            lambda: others & {at.rpartition(":")[0] for at in client.who_has(held)[held.key]}
        )
        done = client.map(lambda n: get_worker().name, range(30), pure=False)
        assert host.instance_id not in client.gather(done)
        assert host.report()["state"] == "running"
        gate.touch()
        assert host.wait_exit() == 0
        assert (running.result(HANG_SECONDS), held.result(HANG_SECONDS)) == ("through", value)
    assert (
        host.report()["reason"]
        == "AWS recommends to replace this instance, and its workers are empty"
    )
    assert host.states()[-3:] == ["running", "leaving", "left"]
    # Its group launches another.
    assert cluster.desired("workers") == desired
    members = cluster.account.describe(cluster.groups["workers"])["Instances"]
    assert host.instance_id not in {member["InstanceId"] for member in members}


def test_a_scheduler_that_dies_is_started_again_and_its_workers_find_it(cluster: Cluster) -> None:
    scheduler = next(host for host in cluster.hosts if host.instance_id == cluster.scheduler_id)
    os.killpg(scheduler.dask_pid(), signal.SIGKILL)

    def second_boot() -> bool:
        document = cluster.get("scheduler.json")
        return document is not None and document["boot"] == 2

    eventually(second_boot, explain=lambda: scheduler.log)
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=HANG_SECONDS)
        assert client.submit(sum, [1, 2, 3], pure=False).result(HANG_SECONDS) == 6
    for worker in cluster.hosts[:2]:
        eventually(
            lambda worker=worker: worker.states()[-3:] == ["waiting", "starting", "running"],
            explain=lambda worker=worker: worker.log,
        )


def test_when_the_host_program_is_killed_its_dask_goes_too(cluster: Cluster) -> None:
    host = cluster.hosts[1]
    pid = host.dask_pid()
    below = children(pid)
    assert below
    host.process.kill()
    host.process.wait()
    eventually(lambda: not any(alive(p) for p in [pid, *below]))
