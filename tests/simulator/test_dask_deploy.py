"""What distributed's own tests of its clusters ask for, asked of `Cluster`: by their names in
distributed 2026.8, written anew.

`HERE` holds in this module, `ELSEWHERE` in others, and `NOT_OURS` says what makes no sense for
instances that AWS starts, and why.
"""

import asyncio
import gc
import re
import time
import warnings

import pytest
from distributed import Client
from distributed.core import Status

from terradask import Cluster
from terradask.errors import InvalidInput

from ..waiting import HANG_SECONDS, eventually
from .tasks import behind, slowinc

pytestmark = [pytest.mark.simulator]

SPEC_CLUSTER = """
test_specification test_spec_sync test_loop_started_in_constructor test_repr test_scale
test_adaptive_killed_worker test_unexpected_closed_worker test_restart test_broken_worker
test_spec_close_clusters test_new_worker_spec test_nanny_port test_spec_process test_get_logs
test_scheduler_info test_dashboard_link test_widget test_scale_cores_memory
test_ProcessInterfaceValid test_MultiWorker test_run_spec test_run_spec_cluster_worker_names
test_bad_close test_shutdown_scheduler_disabled test_shutdown_scheduler
"""
ADAPTIVE = """
test_adaptive_local_cluster test_adaptive_local_cluster_multi_workers test_min_max test_avoid_churn
test_adapt_quickly test_adapt_down test_no_more_workers_than_tasks test_basic_no_loop
test_target_duration test_worker_keys test_adapt_cores_memory test_adaptive_config
test_update_adaptive test_adaptive_no_memory_limit test_adapt_gets_stopped_on_cluster_close
test_scale_needs_to_be_awaited test_adaptive_stopped test_scale_up_large_tasks
test_respect_average_nthreads test_adaptive_stops_on_cluster_status_change test_interval
test_adapt_logs_error_in_safe_target test_adapt_callback_logs_error_in_scale_down
test_adaptive_logs_stopping_once test_adapt_stop_del
"""
CLUSTER = (
    "test_eq test_repr test_cluster_wait_for_worker test_exponential_backoff "
    "test_sync_context_manager_used_with_async_cluster"
)

#: In test_cluster.py, unless another file is named.
ELSEWHERE = {
    "test_restart": "test_what_dask_restarts_comes_back_under_the_same_names",
    "test_unexpected_closed_worker": "test_a_dead_worker_is_replaced_once_and_mirrored",
    "test_broken_worker": "test_cluster_refused.py: test_what_a_worker_says_when_it_fails",
    "test_spec_close_clusters": (
        "test_cluster_ends.py: "
        "test_a_client_that_goes_without_closing_leaves_zero_and_the_next_command_finishes"
    ),
    "test_dashboard_link": (
        "test_cluster_access.py: test_the_dashboard_is_on_loopback_behind_mutual_tls"
    ),
    "test_MultiWorker": "hosts/test_hosts_of_a_cluster.py: several workers on a host",
    "test_shutdown_scheduler": (
        "test_cluster_ends.py: "
        "test_a_client_that_goes_without_closing_leaves_zero_and_the_next_command_finishes"
    ),
    "test_shutdown_scheduler_disabled": (
        "test_a_second_process_attaches_by_name_scales_and_leaves_it_running"
    ),
}
NOT_OURS = {
    "test_new_worker_spec": (
        "no dictionary describes worker objects: Auto Scaling groups make hosts"
    ),
    "test_nanny_port": "ports of workers are the hosts' own, behind their security group",
    "test_spec_process": "there is no process object for a host",
    "test_ProcessInterfaceValid": "there is no process object for a host",
    "test_run_spec": "run_spec starts workers in this process",
    "test_worker_keys": (
        "hosts are what is closed together, which distributed's worker_key can't say otherwise"
    ),
    "test_adaptive_config": (
        "about distributed's Adaptive alone; bounds of adapt() are its arguments"
    ),
    "test_adaptive_stopped": "about distributed's Adaptive alone, which decides nothing here",
    "test_adaptive_stops_on_cluster_status_change": (
        "the scheduler's host adapts, whatever becomes of a client"
    ),
    "test_scale_needs_to_be_awaited": "about a subclass whose scale() blocks",
    "test_scale_up_large_tasks": "about the scheduler's adaptive_target alone",
    "test_respect_average_nthreads": "about the scheduler's adaptive_target alone",
    "test_interval": "about distributed's Adaptive alone",
    "test_adapt_logs_error_in_safe_target": "about distributed's Adaptive alone",
    "test_adapt_callback_logs_error_in_scale_down": "about distributed's Adaptive alone",
    "test_adaptive_logs_stopping_once": "about distributed's Adaptive alone",
    "test_adapt_stop_del": "about distributed's Adaptive alone",
    "test_exponential_backoff": "about a function of distributed",
    "test_basic_no_loop": "test_adaptive_local_cluster is without a loop of its own here too",
}

SLOW_SECONDS = 0.2
EAGER = {"interval": "50 ms", "target_duration": "500 ms"}


@pytest.fixture(scope="module")
def cluster(sim, sim_environ):
    with (
        sim.hollow_hosts(),
        Cluster("daskish", n_workers=1, max_workers=6, wait_for_workers=True) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster, set_as_default=False) as client:
        yield client
    # Ends adapting.
    cluster.scale(1)
    eventually(lambda: len(cluster.observed) == 1 == len(cluster.plan))


def said(cluster):
    """Return what the scheduler's host has said of its scaling."""
    return [each.reason for each in cluster.events() if each.state == "scaled"]


def says(cluster, pattern):
    """Return what matches of that, once it is reported."""
    return eventually(lambda: list(filter(None, (re.match(pattern, one) for one in said(cluster)))))


def test_every_test_of_distributed_is_held_or_has_a_reason():
    every = set((SPEC_CLUSTER + ADAPTIVE + CLUSTER).split())
    here = {name for name in globals() if name in every}
    assert every == here | set(ELSEWHERE) | set(NOT_OURS)
    assert not here & set(NOT_OURS)


# ---- SpecCluster ---------------------------------------------------------------------------------


def test_specification(cluster, client):
    assert cluster.plan == cluster.requested == cluster.observed == set(cluster.worker_names())
    assert client.submit(lambda x: x + 1, 10).result(HANG_SECONDS) == 11


test_run_spec_cluster_worker_names = test_specification


def test_spec_sync(cluster, client):
    assert cluster.loop is client.loop
    assert not cluster.asynchronous


test_loop_started_in_constructor = test_spec_sync


def test_repr(cluster, client):
    assert repr(cluster).startswith("Cluster('daskish', us-east-1")
    assert "workers=1/1" in repr(cluster)


def test_scale(cluster, client):
    cluster.scale(3)
    # The plan is there at once, the workers come.
    assert len(cluster.plan) == 3
    cluster.wait_for_workers(3, timeout=HANG_SECONDS)
    cluster.scale(1)
    eventually(lambda: len(cluster.observed) == 1 == len(cluster.requested))


def test_adaptive_killed_worker(cluster, client, sim):
    cluster.adapt(minimum=1, maximum=1, **EAGER)
    (first,) = cluster.observed
    future = client.submit(slowinc, 1, delay=1)
    eventually(lambda: any(client.processing().values()))
    sim.kill_host(first)
    assert future.result(HANG_SECONDS) == 2
    eventually(
        lambda: (
            len(cluster.observed) == 1 == len(cluster.requested) and first not in cluster.observed
        )
    )


def test_get_logs(cluster, client):
    # Simulated workers ship no log; tests/simulator/test_logs.py has machines.
    logs = eventually(cluster.get_logs)
    assert set(logs) == {"Scheduler"}
    assert "distributed.scheduler" in logs["Scheduler"]
    assert logs["Scheduler"]._repr_html_()
    assert list(cluster.get_logs(cluster=True, scheduler=False, workers=False)) == ["Cluster"]


def test_scheduler_info(cluster, client):
    identity = client.scheduler_info(n_workers=-1)
    assert cluster.scheduler_info["id"] == identity["id"]
    assert set(cluster.scheduler_info["workers"]) == set(identity["workers"])


def test_widget(cluster, client):
    assert "daskish" in cluster._repr_html_()
    cluster.scale(3)
    assert "1/3" in cluster._scaling_status()


def test_scale_cores_memory(cluster, client):
    cluster.scale(cores=2)
    assert len(cluster.plan) == 2
    # Simulated workers have a GiB each.
    cluster.scale(memory="2.5 GiB")
    assert len(cluster.plan) == 3
    for too_much in ({"cores": 1000}, {"memory": "1 TiB"}):
        with pytest.raises(InvalidInput, match="max_workers"):
            cluster.scale(**too_much)


def test_bad_close():
    async def main():
        cluster = Cluster("nevermade", asynchronous=True)
        await cluster.close()
        assert cluster.status == Status.closed

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert not [str(each.message) for each in told]


# ---- Adaptive ------------------------------------------------------------------------------------


def test_adaptive_local_cluster(cluster, client):
    cluster.adapt(minimum=0, maximum=4, wait_count=3, **EAGER)
    eventually(lambda: not cluster.observed and not cluster.requested)
    assert client.submit(lambda x: x + 1, 1).result(HANG_SECONDS) == 2


def test_adaptive_local_cluster_multi_workers(cluster, client, tmp_path):
    cluster.adapt(minimum=0, maximum=4, wait_count=3, **EAGER)
    for round_ in range(2):
        gate = tmp_path / f"gate{round_}"
        futures = client.map(behind(gate), range(20), pure=False)
        eventually(lambda: len(cluster.observed) == 4)
        gate.touch()
        assert client.gather(futures) == list(range(1, 21))
        assert len(cluster.requested) <= 4
        del futures
        eventually(lambda: not cluster.observed and not cluster.requested)


def test_min_max(cluster, client, tmp_path):
    cluster.adapt(minimum=1, maximum=2, wait_count=3, **EAGER)
    gate = tmp_path / "gate"
    futures = client.map(behind(gate), range(30), pure=False)
    eventually(lambda: len(cluster.observed) == 2)
    time.sleep(0.5)
    eventually(lambda: len(cluster.plan) == 2)
    assert says(cluster, "from 1 to 2 hosts: ")
    gate.touch()
    del futures
    eventually(lambda: len(cluster.observed) == 1 == len(cluster.requested))
    assert says(cluster, "from 2 to 1 hosts, which are enough")


test_adaptive_no_memory_limit = test_min_max


def test_avoid_churn(cluster, client):
    cluster.scale(2)
    cluster.wait_for_workers(2, timeout=HANG_SECONDS)
    cluster.adapt(minimum=1, maximum=2, interval="50 ms", wait_count=399)
    says(cluster, "adapts between 1 and 2 hosts")
    before = said(cluster)
    for number in range(10):
        client.submit(slowinc, number, delay=0.02, pure=False).result(HANG_SECONDS)
        time.sleep(0.03)
    assert said(cluster) == before
    assert len(cluster.plan) == 2


def test_adapt_quickly(cluster, client):
    cluster.adapt(minimum=1, maximum=5, wait_count=3, **EAGER)
    futures = client.map(slowinc, range(200), delay=SLOW_SECONDS, pure=False)
    eventually(lambda: len(cluster.observed) == 5)
    assert says(cluster, "from 1 to 5 hosts: ")
    del futures
    eventually(lambda: len(cluster.observed) == 1 == len(cluster.requested))
    # One after the other, there is nothing that more workers could do.
    last = client.submit(slowinc, 0, delay=0.01)
    for _ in range(20):
        last = client.submit(slowinc, last, delay=0.01)
    last.result(HANG_SECONDS)
    assert len(cluster.plan) == 1, [str(event) for event in cluster.events()][-20:]


def test_adapt_down(cluster, client):
    cluster.adapt(minimum=1, maximum=4, **EAGER)
    futures = client.map(slowinc, range(500), delay=SLOW_SECONDS, pure=False)
    eventually(lambda: len(cluster.observed) == 4)
    cluster.adapt(minimum=1, maximum=2, wait_count=1, **EAGER)
    eventually(lambda: len(cluster.observed) == 2 == len(cluster.requested))
    del futures


def test_no_more_workers_than_tasks(cluster, client):
    cluster.adapt(minimum=0, maximum=4, **EAGER)
    client.submit(slowinc, 1, delay=0.1, pure=False).result(HANG_SECONDS)
    assert len(cluster.plan) <= 1


def test_target_duration(cluster, client):
    # The scheduler has seen how long these take.
    client.gather(client.map(slowinc, range(4), delay=0.5, pure=False))
    cluster.adapt(minimum=1, maximum=6, interval="50 ms", target_duration="10s")
    futures = client.map(slowinc, range(40), delay=0.5, pure=False)
    # Forty tasks of half a second are 20 s of work: two workers for 10 s, and more on a busy
    # machine, on which they seem to take longer.
    # What it was at first, before any of them was done.
    assert says(cluster, r"from 1 to [2345] hosts: 3\d tasks wait")
    del futures


def test_adapt_cores_memory(cluster, client):
    adapt = cluster.adapt(minimum_cores=1, maximum_cores=3)
    assert (adapt.minimum, adapt.maximum) == (1, 3)
    adapt = cluster.adapt(minimum_memory="1.5 GiB", maximum_memory="3 GiB")
    assert (adapt.minimum, adapt.maximum) == (2, 3)


def test_update_adaptive(cluster, client):
    cluster.adapt(maximum=1)
    second = cluster.adapt(maximum=2)
    assert "Adaptive (workers: 1 to 2)" in cluster._scaling_status()
    second.stop()
    assert "Manual" in cluster._scaling_status()


def test_adapt_gets_stopped_on_cluster_close(cluster, client):
    with Cluster.from_name("daskish") as second:
        second.adapt(minimum=2, maximum=2, **EAGER)
    # Not with the client: the cluster's host adapts.
    eventually(lambda: len(cluster.observed) == 2)
    eventually(lambda: "Adaptive (workers: 2 to 2)" in cluster._scaling_status())


# ---- Cluster -------------------------------------------------------------------------------------


def test_eq(cluster):
    with Cluster.from_name("daskish") as second:
        # Two objects of one cluster; Dask compares class and name.
        assert cluster == second
        assert cluster != "daskish"


def test_cluster_wait_for_worker(cluster, client):
    cluster.scale(3)
    cluster.wait_for_workers(3, timeout=HANG_SECONDS)
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == 3


def test_sync_context_manager_used_with_async_cluster():
    async def main():
        cluster = Cluster("nevermade", asynchronous=True)
        with pytest.raises(TypeError, match="async with"), cluster:
            pass
        await cluster.close()

    asyncio.run(main())
