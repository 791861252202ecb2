"""Hosts on a machine with NVIDIA GPUs: what the bus and the driver show, and tasks that compute on
them. They run where there are GPUs, and are skipped elsewhere.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from terradask_host import machine

from ...waiting import HANG_SECONDS, eventually
from .cluster import Cluster

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.life,
    pytest.mark.skipif(
        machine.count_of_driver() == 0,
        reason="needs an NVIDIA GPU with its driver, and pip install cupy-cuda13x dask-cuda",
    ),
]

#: Dask's processes start from nothing, as on a real host.
FRESH_DASK = True


#: Numbers that a task adds up on a GPU.
LENGTH = 10_000_000


def gpu_tasks() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return functions that are sent whole, since hosts don't have this module."""

    def sum_on_gpu(length: int) -> tuple[int, int, int]:
        """Return a sum, the number of GPUs that this worker sees, and the bytes that it took."""
        import cupy

        numbers = cupy.arange(length, dtype=cupy.int64)
        return (
            int(numbers.sum()),
            cupy.cuda.runtime.getDeviceCount(),
            cupy.get_default_memory_pool().used_bytes(),
        )

    def array_on_gpu(number: int, length: int) -> Any:
        import cupy

        return cupy.full(length, number, dtype=cupy.int64)

    def sum_of(array: Any) -> tuple[str, int]:
        return type(array).__module__.partition(".")[0], int(array.sum())

    return sum_on_gpu, array_on_gpu, sum_of


def check_sum(answer: tuple[int, int, int], visible: int) -> None:
    total, devices, used_bytes = answer
    assert total == LENGTH * (LENGTH - 1) // 2
    assert devices == visible
    assert used_bytes >= LENGTH * 8


def gpus_of_nvidia_smi() -> int:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())


def test_the_bus_and_the_driver_show_the_gpus_that_nvidia_smi_lists() -> None:
    listed = gpus_of_nvidia_smi()

    assert (machine.count_on_bus(), machine.count_of_driver()) == (listed, listed)
    machine.wait_for_driver(listed, deadline_seconds=0, pause=pytest.fail)


def test_a_host_that_shows_fewer_gpus_than_its_bus_has_is_refused() -> None:
    with pytest.raises(machine.GpusMissing, match="fewer GPUs than the machine has"):
        machine.wait_for_driver(gpus_of_nvidia_smi() + 1, deadline_seconds=0, pause=pytest.fail)


def test_tasks_that_need_a_gpu_run_on_one(lonely: Callable[..., Cluster]) -> None:
    gpus = machine.count_on_bus()
    sum_on_gpu, _, _ = gpu_tasks()
    cluster = lonely(workers=1)
    cluster.scheduler()
    host = cluster.worker(0)
    host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(1, timeout=HANG_SECONDS)
        (worker,) = client.scheduler_info(n_workers=-1)["workers"].values()
        assert worker["resources"] == {"GPU": gpus}
        # Dask's own reading of the GPU, by NVIDIA's library.
        (gpu_name,) = client.run(lambda dask_worker: dask_worker.monitor.gpu_name).values()
        assert "NVIDIA" in gpu_name

        task = client.submit(sum_on_gpu, LENGTH, resources={"GPU": 1})

        check_sum(task.result(HANG_SECONDS), visible=gpus)
        impossible = client.submit(sum_on_gpu, LENGTH + 1, resources={"GPU": gpus + 1})
        with pytest.raises(TimeoutError):
            impossible.result(3)


def test_cuda_workers_join_compute_drain_and_leave(lonely: Callable[..., Cluster]) -> None:
    gpus = machine.count_on_bus()
    sum_on_gpu, array_on_gpu, sum_of = gpu_tasks()
    cluster = lonely(workers=2, worker=cuda_worker(device_memory_limit="1 GB"))
    cluster.scheduler()
    kept, shut = cluster.worker(0), cluster.worker(1)
    for host in (kept, shut):
        host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(2 * gpus, timeout=HANG_SECONDS)
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        assert {each["nthreads"] for each in workers} == {1}
        assert {each["resources"]["GPU"] for each in workers} == {1}

        of = partial(_names_of, client)
        for name in of(kept.instance_id) | of(shut.instance_id):
            task = client.submit(sum_on_gpu, LENGTH, workers=[name], pure=False)
            check_sum(task.result(HANG_SECONDS), visible=gpus)

        # More than a worker may have on its GPU: dask_cuda moves the oldest to the host's memory.
        arrays = client.map(
            array_on_gpu,
            range(3),
            length=LENGTH * 5,
            workers=list(of(shut.instance_id))[:1],
            pure=False,
        )
        expected = [("cupy", number * LENGTH * 5) for number in range(3)]
        sums = client.map(sum_of, arrays, pure=False)
        assert client.gather(sums) == expected

        # Their only copies move to the other host when this one is shut down.
        shut.process.send_signal(signal.SIGTERM)
        assert shut.wait_exit() == 0
        eventually(lambda: not of(shut.instance_id))
        again = client.map(sum_of, arrays, pure=False)
        assert client.gather(again) == expected


def cuda_worker(**options: Any) -> dict[str, Any]:
    return {"class": "dask_cuda.CUDAWorker", "options": options, "workers_per_host": 1}


def _names_of(client: Any, instance_id: str) -> set[str]:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return {each["name"] for each in workers if each["name"].startswith(instance_id)}
