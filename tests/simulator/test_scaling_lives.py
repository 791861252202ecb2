"""Whole lives of clusters that scale without a client: their results, and their scheduler's end."""

from __future__ import annotations

import os
import signal

import pytest
from distributed import Client

from terradask import Cluster, Workspace
from terradask.errors import SchedulerReplaced

from ..waiting import eventually
from .left_alone import leave, numbers
from .tasks import slowinc

pytestmark = [pytest.mark.simulator, pytest.mark.life]

EAGER = {"interval": "100 ms", "target_duration": "500 ms", "wait_count": 10}


def computed(client):
    """Return how often tasks were computed: hosts have no tests, so the function goes by value."""

    def count(dask_scheduler):
        return sum(
            (start, finish) == ("processing", "memory") and key.startswith("slow")
            for key, start, finish, *_ in dask_scheduler.transition_log
        )

    return client.run_on_scheduler(count)


def test_unique_results_are_kept_while_it_shrinks_without_a_client(sim, sim_environ):
    with Cluster("kept", n_workers=1, max_workers=4, wait_for_workers=True) as cluster:
        leave("kept", 4, 80, "keep")
        eventually(lambda: numbers(sim, "kept") == (4, 4))
        eventually(lambda: numbers(sim, "kept") == (1, 1))
        with Client(cluster, set_as_default=False) as client:
            results = dict(client.gather(client.get_dataset("kept")))
            assert list(results) == list(range(80))
            # None was computed a second time.
            assert computed(client) == 80


def deployment(name):
    return Workspace.load().deployment(name)


def scheduler_hosts(sim, cluster):
    """Return the instance ids of the scheduler's hosts: none while it is replaced."""
    return [
        one.instance_id for one in sim.hosts() if one.role == "scheduler" and one.cluster == cluster
    ]


def grows_to(name, most):
    """Attach, give it work, and return whether it grows, and shrinks when that is done."""
    with Cluster.from_name(name) as cluster, Client(cluster, set_as_default=False) as client:
        found = cluster.adapting["workers"]
        # More than is done before all have joined, however long that takes.
        futures = client.map(slowinc, range(4_000), delay=0.1, pure=False)
        eventually(lambda: len(cluster.observed) == most)
        assert client.gather(futures[:300]) == list(range(1, 301))
        del futures
        eventually(lambda: len(cluster.observed) == found.minimum)
    return found.minimum, found.maximum


def test_it_goes_on_in_the_schedulers_next_process_and_on_its_next_host(sim, sim_environ):
    with (
        sim.hollow_hosts(),
        Cluster("moved", n_workers=[1, 4], max_workers=8, idle_timeout=False) as owner,
    ):
        # As it was started.
        assert (owner.adapting["workers"].minimum, owner.adapting["workers"].maximum) == (1, 4)
        owner.adapt(minimum=2, maximum=5, **EAGER)
        eventually(lambda: len(owner.observed) == 2)
        (host,) = scheduler_hosts(sim, "moved")
        with Client(owner, set_as_default=False) as client:
            process = client.run_on_scheduler(os.getpid)
        os.kill(process, signal.SIGKILL)
        eventually(lambda: isinstance(owner._health.ended, SchedulerReplaced))
        assert grows_to("moved", 5) == (2, 5)
        sim.kill_host(host)
        eventually(lambda: (found := scheduler_hosts(sim, "moved")) and host not in found)
        eventually(lambda: deployment("moved").status().state == "running")
        assert grows_to("moved", 5) == (2, 5)
        deployment("moved").stop()
