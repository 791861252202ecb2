"""Hosts that are kept prepared and stopped: made with the cluster, started without downloads,
refilled, and removed with it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask.errors import TerradaskError
from terradask_host.documents import PREPARED
from terradask_simulator import Simulator

from ..invariants import over_scaled
from ..left_over import leftovers
from ..waiting import eventually
from .left_alone import running

pytestmark = [pytest.mark.simulator, pytest.mark.life]


def pool(sim: Simulator, name: str, *groups: str) -> dict[str, str]:
    client = sim.client("autoscaling")
    return {
        one["InstanceId"]: one["LifecycleState"]
        for group in groups or ("workers",)
        for one in client.describe_warm_pool(
            AutoScalingGroupName=f"terradask-default-{name}-{group}"
        )["Instances"]
    }


def test_prepared_hosts_are_kept_while_the_cluster_is_stopped_and_join_it(sim: Simulator) -> None:
    with sim.applied():
        workspace = Workspace.load()
        groups = ("workers", "big")
        big = {"big": {"standby": 1, "n_workers": 1}}
        workspace.apply(workspace.plan_cluster("ready", standby=1, worker_groups=big))
        eventually(lambda: sorted(pool(sim, "ready", *groups).values()) == ["Warmed:Stopped"] * 2)
        before = set(pool(sim, "ready", *groups))
        eventually(lambda: not [host for host in sim.hosts() if host.cluster == "ready"])
        (seen,) = workspace.overview("ready")
        assert (seen.state, seen.workers, seen.hosts) == ("stopped", (0, 0), {"prepared": 2})
        # Their volumes.
        assert seen.hourly_usd is not None
        assert seen.hourly_usd > 0
        with Cluster(
            "ready", n_workers=1, wait_for_workers=True, shutdown_on_close=True
        ) as cluster:
            workers = cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
            assert {worker["name"] for worker in workers} == before
            # The next ones are prepared for this run.
            eventually(
                lambda: sorted(pool(sim, "ready", *groups).values()) == ["Warmed:Stopped"] * 2
            )
            assert not before & set(pool(sim, "ready", *groups))
            status = workspace.deployment("ready").status()
            assert [status.groups[group]["prepared"] for group in groups] == [1, 1]
            reports = {host.instance_id: (host.state, host.reason) for host in status.hosts}
            kept = {reports[host] for host in pool(sim, "ready", *groups)}
            assert kept == {("prepared", PREPARED)}
            requested = {
                event.subject
                for event in workspace.deployment("ready").events()
                if event.state == "requested"
            }
            assert before <= requested
        (cost,) = [row for row in workspace.costs(by="run").rows if row.facts["cluster"] == "ready"]
        # The scheduler, the two that were drawn, and the two that were prepared for the next run.
        assert cost.instances == 5
        eventually(lambda: not running(sim, "ready"))
        assert sorted(pool(sim, "ready", *groups).values()) == ["Warmed:Stopped"] * 2
        workspace.destroy_cluster("ready")
        assert leftovers("default", cluster="ready") == []


def test_a_prepared_host_has_no_key_on_its_disk_and_installs_nothing_when_it_is_started(
    sim: Simulator,
) -> None:
    with sim.applied():
        workspace = Workspace.load()
        workspace.apply(workspace.plan_cluster("keys", standby=1))
        with Cluster("keys", n_workers=1, wait_for_workers=True) as cluster:
            eventually(lambda: list(pool(sim, "keys").values()) == ["Warmed:Stopped"])
            (prepared,) = pool(sim, "keys")
            eventually(lambda: prepared not in {host.instance_id for host in sim.hosts()})
            secret = sim.client("secretsmanager").get_secret_value(
                SecretId="terradask/default/keys"
            )
            keys = json.loads(secret["SecretString"])
            disk = sim.state_dir / "hosts" / prepared / "root"
            texts = [one.read_bytes() for one in disk.rglob("*") if one.is_file()]
            assert texts
            for role in ("scheduler", "worker"):
                # A private key's first line after its header.
                line = keys[role]["key"].splitlines()[1].encode()
                assert not any(line in text for text in texts)
            sim.reset_calls()
            cluster.scale(2)
            cluster.wait_for_workers(2)
            names = cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
            assert prepared in {worker["name"] for worker in names}
            read = sim.calls(by="resource")
            wheels = [
                key
                for each in read.values()
                for key in each.get("s3:GetObject", {})
                if ".whl" in key
            ]
            assert len(wheels) <= 1, "the next prepared host alone fetches the host program"
        workspace.destroy_cluster("keys")
        assert leftovers("default", cluster="keys") == []


def test_a_changed_template_and_no_standby_any_longer_end_prepared_hosts(sim: Simulator) -> None:
    with sim.applied():
        workspace = Workspace.load()
        workspace.apply(workspace.plan_cluster("renewed", standby=1))
        eventually(lambda: list(pool(sim, "renewed").values()) == ["Warmed:Stopped"])
        before = set(pool(sim, "renewed"))
        # The network's usual disk of 100 GiB is enough: the same template, the same hosts.
        workspace.apply(workspace.plan_cluster("renewed", standby=1, worker_disk_size=70))
        assert set(pool(sim, "renewed")) == before
        workspace.apply(workspace.plan_cluster("renewed", standby=1, worker_disk_size=150))
        eventually(lambda: list(pool(sim, "renewed").values()) == ["Warmed:Stopped"])
        assert not before & set(pool(sim, "renewed"))
        workspace.apply(workspace.plan_cluster("renewed", standby=0))
        assert pool(sim, "renewed") == {}
        workspace.destroy_cluster("renewed")
        assert leftovers("default", cluster="renewed") == []


def test_ten_starts_share_three_prepared_hosts(sim: Simulator) -> None:
    with sim.applied():
        workspace = Workspace.load()
        workspace.apply(workspace.plan_cluster("raced", standby=3, max_workers=4))
        eventually(lambda: sorted(pool(sim, "raced").values()) == ["Warmed:Stopped"] * 3)
        before = set(pool(sim, "raced"))

        def race(number: int) -> None:
            Workspace.load().deployment("raced").start(n_workers=4)

        with ThreadPoolExecutor(10) as racers:
            list(racers.map(swallow(race), range(10)))
        group = "terradask-default-raced-workers"

        def members() -> list[dict[str, Any]]:
            autoscaling = sim.client("autoscaling")
            (found,) = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])[
                "AutoScalingGroups"
            ]
            return list(found["Instances"])

        eventually(lambda: [one["LifecycleState"] for one in members()] == ["InService"] * 4)
        assert before <= {one["InstanceId"] for one in members()}
        eventually(lambda: sorted(pool(sim, "raced").values()) == ["Warmed:Stopped"] * 3)
        assert over_scaled(sim, "raced", at_most=4) == []
        Workspace.load().deployment("raced").stop()
        eventually(lambda: members() == [])
        assert sorted(pool(sim, "raced").values()) == ["Warmed:Stopped"] * 3
        workspace.destroy_cluster("raced")
        assert leftovers("default", cluster="raced") == []


def swallow(call: Callable[[int], None]) -> Callable[[int], None]:
    """Let racers lose: one start wins, or several agree."""

    def run(number: int) -> None:
        with contextlib.suppress(TerradaskError):
            call(number)

    return run
