"""Workers move between spot and on demand when no client is there, and no result is lost."""

from __future__ import annotations

import os
import signal

import pytest
from distributed import Client

from terradask import Cluster, Workspace

from ..waiting import eventually
from .left_alone import leave
from .test_scaling_lives import computed, scheduler_hosts

pytestmark = [pytest.mark.simulator, pytest.mark.life]

QUICK = {
    "launch_poll_seconds": 0.2,
    "market_poll_seconds": 0.2,
    "launch_failed_seconds": 2.0,
    "spot_again_seconds": 3.0,
}
FALLBACK = {
    "max_workers": 8,
    "idle_timeout": False,
    "wait_for_workers": True,
    "spot_policy": "spot_with_fallback",
}


@pytest.fixture(autouse=True)
def _quick(sim):
    with sim.time_hosts(**QUICK):
        yield


def markets(sim, cluster):
    """Return how many hosts are to be on spot and on demand, and how many are there."""
    names = [f"terradask-default-{cluster}-workers{end}" for end in ("-spot", "")]
    client = sim.client("autoscaling")
    found = {
        each["AutoScalingGroupName"]: each
        for each in client.describe_auto_scaling_groups(AutoScalingGroupNames=names)[
            "AutoScalingGroups"
        ]
    }
    client.close()
    return [(found[name]["DesiredCapacity"], len(found[name]["Instances"])) for name in names]


def test_work_goes_on_on_demand_and_back_on_spot_with_each_result_computed_once(sim, sim_environ):
    with (
        sim.hollow_hosts(),
        Cluster(
            "lone",
            n_workers=1,
            **FALLBACK,
        ) as cluster,
    ):
        sim.reset_calls()
        with sim.no_capacity(market="spot", beyond=1):
            leave("lone", 4, 160, "keep")
            eventually(lambda: markets(sim, "lone") == [(1, 1), (3, 3)])
        eventually(lambda: markets(sim, "lone") == [(4, 4), (0, 0)])
        with Client(cluster, set_as_default=False) as client:
            assert client.run_on_scheduler(lambda dask_scheduler: bool(dask_scheduler.queued))
            results = client.gather(client.get_dataset("kept"))
            assert [number for number, _ in results] == list(range(160))
            assert len({unique for _, unique in results}) == 160
            assert computed(client) == 160
        calls = sim.calls(by="role")["terradask-default-scheduler"]
        # To grow, to move on demand in two, to go back to spot: for any number of hosts.
        assert calls["autoscaling:SetDesiredCapacity"] == 4, calls
        assert calls["autoscaling:DescribeScalingActivities"] <= 4, calls
        # Each host that leaves is ended by a call.
        assert calls["autoscaling:TerminateInstanceInAutoScalingGroup"] == 3, calls
        told = [each.reason for each in cluster.events() if each.state == "scaled"]
        assert any(
            "3 hosts move from workers-spot to workers: AWS has none in workers-spot" in each
            for each in told
        ), told
        assert any("3 hosts on demand may go back to spot" in each for each in told), told


def test_a_host_that_aws_recommends_to_replace_is_replaced_on_demand(sim, sim_environ):
    with Cluster(
        "calm",
        n_workers=2,
        **FALLBACK,
        shutdown_on_close=False,
    ) as cluster:
        (first, _) = sorted(cluster.observed)
    with sim.no_capacity(market="spot"):
        sim.recommend_rebalance(first)
        eventually(lambda: markets(sim, "calm") == [(1, 1), (1, 1)])
    eventually(lambda: markets(sim, "calm") == [(2, 2), (0, 0)])
    with Cluster.from_name("calm") as again:
        eventually(lambda: len(again.observed) == 2)
        assert first not in again.observed
        # A person's number holds, also while hosts go back to spot.
        with sim.no_capacity(market="spot", beyond=2):
            again.scale(4)
            eventually(lambda: markets(sim, "calm") == [(2, 2), (2, 2)])
        eventually(lambda: markets(sim, "calm")[0][0] > 2)
        again.scale(3)
        eventually(lambda: markets(sim, "calm") == [(3, 3), (0, 0)])
        eventually(lambda: len(again.observed) == 3)
    Workspace.load().destroy_cluster("calm")


def test_the_next_host_of_a_scheduler_finishes_what_its_predecessor_had_begun(sim, sim_environ):
    with (
        # A worker that boots while the scheduler's host dies seeks the next one after this.
        sim.time_hosts(**QUICK, dask_start_seconds=15.0),
        sim.no_capacity(market="spot", beyond=1),
        Cluster(
            "handed",
            n_workers=2,
            **FALLBACK,
            shutdown_on_close=False,
        ),
    ):
        assert markets(sim, "handed") == [(1, 1), (1, 1)]
        sim.allow_capacity()
        eventually(lambda: markets(sim, "handed")[0][0] == 2)
        (host,) = scheduler_hosts(sim, "handed")
        sim.kill_host(host)
        # A host on demand stays until spot has joined the scheduler of the next host.
        assert markets(sim, "handed")[1] == (1, 1)
        eventually(lambda: (found := scheduler_hosts(sim, "handed")) and host not in found)
        eventually(lambda: markets(sim, "handed") == [(2, 2), (0, 0)])
    Workspace.load().destroy_cluster("handed")


def test_it_finishes_when_the_process_alone_or_the_host_program_alone_is_killed(sim, sim_environ):
    with (
        sim.time_hosts(**QUICK, dask_start_seconds=15.0),
        sim.no_capacity(market="spot", beyond=1),
        Cluster("cut", n_workers=2, **FALLBACK, shutdown_on_close=False) as cluster,
    ):
        with Client(cluster, set_as_default=False) as client:
            process = client.run_on_scheduler(os.getpid)
        (host,) = scheduler_hosts(sim, "cut")
        kept = cluster.observed
        _go_back_while_killing(sim, process)
        assert len(kept & at_scheduler("cut")) == 1
        with sim.no_capacity(market="spot", beyond=1):
            sim.recommend_rebalance(min(at_scheduler("cut")))
            eventually(lambda: markets(sim, "cut") == [(1, 1), (1, 1)])
        (program,) = [one.pid for one in sim.hosts() if one.instance_id == host]
        _go_back_while_killing(sim, program)
        assert scheduler_hosts(sim, "cut") == [host]
        # What spot lacks moves in two numbers, between which the program is killed.
        (program,) = [one.pid for one in sim.hosts() if one.instance_id == host]
        with sim.no_capacity(market="spot", beyond=1):
            sim.recommend_rebalance(min(at_scheduler("cut")))
            eventually(lambda: markets(sim, "cut")[0][0] == 1)
            os.kill(program, signal.SIGKILL)
            eventually(lambda: markets(sim, "cut") == [(1, 1), (1, 1)])
        eventually(lambda: markets(sim, "cut") == [(2, 2), (0, 0)])
        assert len(at_scheduler("cut")) == 2
    Workspace.load().destroy_cluster("cut")


def _go_back_while_killing(sim, process):
    """Kill a process while a host on demand goes back to spot."""
    sim.allow_capacity()
    eventually(lambda: markets(sim, "cut")[0][0] == 2)
    os.kill(process, signal.SIGKILL)
    assert markets(sim, "cut")[1] == (1, 1)
    eventually(lambda: markets(sim, "cut") == [(2, 2), (0, 0)])


def at_scheduler(name):
    """Return the hosts of workers that have joined."""
    with Cluster.from_name(name) as cluster:
        return eventually(lambda: len(cluster.observed) == 2 and cluster.observed)
