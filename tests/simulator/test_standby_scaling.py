"""Prepared hosts beside Spot, and in a cluster that scales itself."""

from __future__ import annotations

import time

import pytest

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

from ..invariants import over_scaled
from ..left_over import leftovers
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "keptscale"
TYPE = "m6i.xlarge"


def pool(sim: Simulator) -> dict[str, str]:
    found = sim.client("autoscaling").describe_warm_pool(
        AutoScalingGroupName=f"terradask-default-{NAME}-workers"
    )["Instances"]
    return {one["InstanceId"]: one["LifecycleState"] for one in found}


def test_the_fallback_of_spot_and_an_adapting_cluster_take_prepared_hosts(sim: Simulator) -> None:
    with sim.applied():
        workspace = Workspace.load()
        workspace.apply(
            workspace.plan_cluster(
                NAME,
                standby=1,
                spot_policy="spot_with_fallback",
                worker_vm_types=[TYPE],
                max_workers=3,
            )
        )
        eventually(lambda: list(pool(sim).values()) == ["Warmed:Stopped"])
        (first,) = pool(sim)
        with Cluster(NAME, n_workers=0, shutdown_on_close=True) as cluster:
            client = cluster.get_client()

            def names() -> set[str]:
                return {one["name"] for one in client.scheduler_info(n_workers=-1)["workers"].values()}

            # Spot has capacity: a Spot host joins, and the prepared one stays.
            cluster.scale(1)
            cluster.wait_for_workers(1)
            assert first not in names()
            assert first in pool(sim)
            sim.refuse_capacity(TYPE)
            try:
                # None of Spot, nor on demand; a prepared host is an instance that is there.
                sim.allow_capacity()
            finally:
                sim.allow_capacity()
            cluster.adapt(minimum=1, maximum=3, interval="100 ms", target_duration="1 s")
            work = client.map(lambda n: time.sleep(0.5) or n, range(60), pure=False)
            assert sum(client.gather(work)) == sum(range(60))
            assert over_scaled(sim, NAME, at_most=3) == []
            assert list(pool(sim).values()) == ["Warmed:Stopped"]
        workspace.destroy_cluster(NAME)
        assert leftovers("default", cluster=NAME) == []
