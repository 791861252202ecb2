"""Hosts that are kept prepared and stopped: made with the cluster, started without downloads,
refilled, and removed with it.
"""

from __future__ import annotations

import pytest

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

from ..left_over import leftovers
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]


def pool(sim: Simulator, name: str) -> dict[str, str]:
    group = f"terradask-default-{name}-workers"
    found = sim.client("autoscaling").describe_warm_pool(AutoScalingGroupName=group)["Instances"]
    return {one["InstanceId"]: one["LifecycleState"] for one in found}


def test_prepared_hosts_are_kept_while_the_cluster_is_stopped_and_join_it(sim: Simulator) -> None:
    with sim.applied():
        workspace = Workspace.load()
        workspace.apply(workspace.plan_cluster("ready", standby=2))
        eventually(lambda: sorted(pool(sim, "ready").values()) == ["Warmed:Stopped"] * 2)
        before = set(pool(sim, "ready"))
        eventually(lambda: not [host for host in sim.hosts() if host.cluster == "ready"])
        with Cluster("ready", n_workers=2, wait_for_workers=True, shutdown_on_close=True) as cluster:
            workers = cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
            assert {worker["name"] for worker in workers} == before
            # The next ones are prepared for this run.
            eventually(lambda: sorted(pool(sim, "ready").values()) == ["Warmed:Stopped"] * 2)
            assert not before & set(pool(sim, "ready"))
        eventually(lambda: len(sim.running_instances()) == 0)
        assert sorted(pool(sim, "ready").values()) == ["Warmed:Stopped"] * 2
        workspace.destroy_cluster("ready")
        assert leftovers("default", cluster="ready") == []
