"""Simulated workers: many in one process that join a real scheduler as their instances, and leave
with them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.call_counts import most_within
from tests.waiting import eventually

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

pytestmark = [pytest.mark.simulator]

N = 20


@pytest.fixture
def cluster(sim: Simulator, sim_environ: dict[str, str]) -> Iterator[Cluster]:
    sim.reset_calls()
    with (
        sim.hollow_hosts(),
        Cluster("hollow", n_workers=N, max_workers=N, wait_for_workers=True) as cluster,
    ):
        yield cluster


def limiter(sim: Simulator) -> list[float]:
    """When this client polled: from the last call of the start on."""
    log = sim.call_log()
    started = max(
        number
        for number, call in enumerate(log)
        if call["action"] == "autoscaling:SetDesiredCapacity"
    )
    polled = ("DescribeAutoScalingGroups", "DescribeScalingActivities", "hosts/")
    return [
        call["seconds"]
        for call in log[started:]
        if any(one in call["action"] + call["resource"] for one in polled)
    ]


def test_they_join_work_report_heal_and_leave(sim: Simulator, cluster: Cluster) -> None:
    polled = limiter(sim)
    # Once, the client reads the groups without waiting for a turn: when it has attached.
    assert most_within(polled, 1.0) <= 3
    assert most_within(polled, 5.0) <= 11
    hosts = [host for host in sim.hosts() if host.cluster == "hollow" and host.role == "worker"]
    assert {host.instance_id for host in hosts} == cluster.observed == cluster.requested
    assert len({host.pid for host in hosts}) == 1
    workers = cluster.scheduler_info["workers"]
    assert {address.rpartition(":")[0] for address in workers} == {
        f"tls://{host.private_address}" for host in hosts
    }
    assert {worker["nthreads"] for worker in workers.values()} == {1}
    with cluster.get_client() as client:
        assert client.gather(client.map(lambda i: i + 1, range(3 * N))) == list(range(1, 3 * N + 1))
        states = {
            report.instance_id: report.state
            for report in Workspace.load().deployment(cluster.name).reports()
            if report.role == "worker"
        }
        assert states == dict.fromkeys(cluster.observed, "running")

        gone = sorted(cluster.observed)[0]
        sim.kill_host(gone)
        eventually(
            lambda: (
                gone not in cluster.observed
                and len(cluster.observed) == N == len(cluster.requested)
            )
        )

        kept = client.map(lambda i: i * i, range(3 * N))
        client.gather(kept)
        leaving = sorted(cluster.observed)[:5]
        cluster.sync(cluster.scale_down, leaving)
        eventually(lambda: len(cluster.observed) == N - 5 == len(cluster.requested))
        assert cluster.observed.isdisjoint(leaving)
        assert client.gather(kept) == [i * i for i in range(3 * N)]
    sim.reset_calls()
    cluster.scale(0)
    eventually(lambda: not cluster.observed and not cluster.requested)
    # All at once, rather than one call for each.
    changes = {
        action: count
        for action, count in sim.calls().items()
        if action.startswith("autoscaling:") and ":Describe" not in action
    }
    assert sum(changes.values()) < 5, changes
    eventually(
        lambda: (
            not [host for host in sim.hosts() if host.cluster == "hollow" and host.role == "worker"]
        )
    )


def test_one_that_aws_recommends_to_replace_is_drained_and_replaced(
    sim: Simulator, sim_environ: dict[str, str]
) -> None:
    with (
        sim.hollow_hosts(),
        Cluster("risky", n_workers=2, spot_policy="spot", wait_for_workers=True) as cluster,
        cluster.get_client() as client,
    ):
        first, second = sorted(cluster.observed)
        kept = client.submit(lambda: "kept", workers=[first], pure=False)
        client.gather(kept)
        sim.recommend_rebalance(first)
        eventually(lambda: first not in cluster.observed and len(cluster.observed) == 2)
        assert second in cluster.observed
        assert set(client.who_has([kept])) == {kept.key}
        retired = [
            event for _, event in client.get_events("all") if event["action"] == "retire-workers"
        ]
        assert len(retired) >= 1
        assert sim.history()["instances"][first]["ended"]
