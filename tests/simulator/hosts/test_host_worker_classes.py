"""Hosts whose class of workers makes several of one, as ``dask_cuda.CUDAWorker`` does for GPUs."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import dask
import pytest

from ...waiting import HANG_SECONDS, eventually
from .cluster import Cluster
from .processes import listening

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: Dask's processes start from nothing, as on a real host.
FRESH_DASK = True


def test_a_class_with_a_worker_for_each_gpu_joins_drains_and_leaves(
    lonely: Callable[..., Cluster],
) -> None:
    options = {"resources": {"GPU": 1}, "nthreads": 1, "memory_limit": 2**29}
    cluster = lonely(
        workers=3,
        worker={"class": "cuda_like.CUDAWorker", "options": options, "workers_per_host": 1},
    )
    cluster.start(
        environ={
            "PYTHONPATH": str(Path(__file__).parent / "worker_classes"),
            "CUDA_VISIBLE_DEVICES": "0,1",
        }
    )
    cluster.scheduler()
    kept, shut, drained = (
        cluster.worker(0),
        cluster.worker(1),
        cluster.worker(2, timing={"spot_poll_seconds": 0.2}, life_cycle="spot"),
    )
    for host in cluster.hosts:
        host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(6, timeout=HANG_SECONDS)

        def names() -> set[str]:
            return {
                each["name"] for each in client.scheduler_info(n_workers=-1)["workers"].values()
            }

        assert names() == {f"{h.instance_id}-{n}" for h in (kept, shut, drained) for n in (0, 1)}
        seen = client.run(
            lambda dask_worker: (
                os.environ["CUDA_VISIBLE_DEVICES"],
                dask_worker.state.total_resources,
                dask.config.get("distributed.comm.tls.min-version"),
            )
        )
        assert sorted(seen.values(), key=str) == sorted(
            [(order, {"GPU": 1}, 1.3) for order in ("0,1", "1,0")] * 3, key=str
        )

        # Two nannies and their workers, and no web server of theirs.
        assert [address for address, _ in listening(kept.process.pid)] == [kept.address] * 4

        # Drained, as AWS recommends to replace its instance: its results are moved first.
        first = client.submit(random.random, workers=[f"{drained.instance_id}-1"], pure=False)
        value = first.result(HANG_SECONDS)
        drained.metadata.facts["events/recommendations/rebalance"] = (
            '{"noticeTime": "2026-11-20T12:00:00Z"}'
        )
        assert drained.wait_exit() == 0
        assert first.result(HANG_SECONDS) == value
        assert (
            drained.report()["reason"]
            == "AWS recommends to replace this instance, and its workers are empty"
        )

        # Shut down: the only copy of a result is moved off.
        second = client.submit(random.random, workers=[f"{shut.instance_id}-0"], pure=False)
        value = second.result(HANG_SECONDS)
        shut.process.send_signal(signal.SIGTERM)
        assert shut.wait_exit() == 0
        assert second.result(HANG_SECONDS) == value
        assert "SIGTERM" in shut.report()["reason"]
        eventually(lambda: names() == {f"{kept.instance_id}-{n}" for n in (0, 1)})

        # Retired by its host's name, as clients do, once it holds nothing that has to be moved.
        client.cancel([first, second])
        eventually(lambda: not any(client.has_what().values()))
        retired = client.retire_workers(names=[kept.instance_id], close_workers=True)
        assert len(retired) == 2
        assert kept.wait_exit() == 0
    assert "retired" in kept.report()["reason"]
    # The others are replaced: who ends them decides about their group.
    assert cluster.desired("workers") == 2
