"""Prepared hosts beside Spot, and in a cluster that scales itself."""

from __future__ import annotations

import pytest

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

from ..invariants import over_scaled
from ..left_over import leftovers
from ..waiting import eventually
from .left_alone import running
from .tasks import slowinc

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "keptscale"


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
                max_workers=3,
            )
        )
        eventually(lambda: list(pool(sim).values()) == ["Warmed:Stopped"])
        (first,) = pool(sim)
        with Cluster(NAME, n_workers=0, shutdown_on_close=True) as cluster:
            client = cluster.get_client()

            def names() -> set[str]:
                return {
                    one["name"] for one in client.scheduler_info(n_workers=-1)["workers"].values()
                }

            # Spot has none: the fallback's host is the prepared one.
            with sim.no_capacity(market="spot"):
                cluster.scale(1)
                cluster.wait_for_workers(1)
                assert names() == {first}
                eventually(lambda: list(pool(sim).values()) == ["Warmed:Stopped"])
                (second,) = pool(sim)
                assert second != first
                cluster.adapt(minimum=1, maximum=3, interval="100 ms", target_duration="1 s")
                # More than is done before it is taken, however long that takes.
                work = client.map(slowinc, range(2_000), delay=0.5, pure=False)
                eventually(lambda: sim.history()["instances"][second]["joined_group"])
                assert sum(client.gather(work[:60])) == sum(range(1, 61))
                del work
            # With tasks no more, it takes hosts back, and none into the pool.
            eventually(lambda: len(names()) == 1)
            eventually(lambda: list(pool(sim).values()) == ["Warmed:Stopped"])
            assert pool(sim).keys() & {first, second} == set()
            assert over_scaled(sim, NAME, at_most=3) == []
        eventually(lambda: not running(sim, NAME))
        assert list(pool(sim).values()) == ["Warmed:Stopped"]
        workspace.destroy_cluster(NAME)
        assert leftovers("default", cluster=NAME) == []
