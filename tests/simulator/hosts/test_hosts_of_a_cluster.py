"""Hosts with several workers and a worker beside the scheduler, as a `Cluster` scales them and AWS
takes them back.
"""

from __future__ import annotations

import random

import pytest

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

from ...waiting import eventually

pytestmark = pytest.mark.simulator


def test_scaling_counts_hosts_and_an_interruption_loses_nothing(
    sim: Simulator, sim_environ: dict[str, str]
) -> None:
    with (
        Cluster(
            "several",
            n_workers=2,
            wait_for_workers=True,
            max_workers=3,
            workers_per_host=2,
            extra_worker_on_scheduler=True,
            spot_policy="spot",
        ) as cluster,
        cluster.get_client() as client,
    ):
        names = {name for host in cluster.plan for name in (host, f"{host}-1")}
        assert len(cluster.plan) == 2
        assert cluster.observed == cluster.requested == cluster.plan
        eventually(lambda: len(cluster.worker_names()) == 5)
        (extra,) = set(cluster.worker_names()) - names
        assert extra.startswith("scheduler-i-")
        futures = [
            client.submit(random.random, workers=[name], pure=False) for name in sorted(names)
        ]
        values = client.gather(futures)

        cluster.scale(1)
        eventually(lambda: len(cluster.requested) == 1 and len(cluster.worker_names()) == 3)
        (host,) = cluster.plan
        assert set(cluster.worker_names()) == {host, f"{host}-1", extra}
        assert client.gather(futures) == values

        sim.interrupt_spot(host)
        # Long before the two minutes are over: what it held is with the worker beside the
        # scheduler, until the replacement has booted.
        eventually(lambda: host not in cluster.requested and len(cluster.requested) == 1)
        assert client.gather(futures) == values
        reason = eventually(lambda: reason_of(cluster, host))
        # AWS recommends to replace an instance when it gives the notice, or earlier: a host may see
        # that first.
        assert reason.startswith(
            (
                "spot interruption notice: AWS will terminate this instance at 20",
                "AWS recommends to replace this instance",
            )
        )


def reason_of(cluster: Cluster, instance_id: str) -> str | None:
    """Why a host left; None while it has not."""
    reports = {
        report.instance_id: report for report in Workspace.load().deployment(cluster.name).reports()
    }
    return reports[instance_id].reason if reports[instance_id].state == "left" else None
