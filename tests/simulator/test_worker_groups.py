"""A cluster with a group of workers of its own: scaled by its name, the only place for work that
asks for what it has, in all zones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from distributed import get_worker

from terradask import Cluster, Workspace
from terradask_simulator import Simulator

from ..waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]


def numbers(cluster: Cluster) -> dict[str, int]:
    return {name: len(group.observed) for name, group in cluster.worker_groups.items()}


def zones(sim: Simulator, instances: Iterable[str]) -> list[str]:
    found = sim.client("ec2").describe_instances(InstanceIds=sorted(instances))["Reservations"]
    return sorted(
        instance["Placement"]["AvailabilityZone"]
        for reservation in found
        for instance in reservation["Instances"]
    )


def launched(sim: Simulator, cluster: str) -> set[tuple[str, str]]:
    """Return the architectures and types of a cluster's instances."""
    pages = sim.client("ec2").describe_instances(
        Filters=[{"Name": "tag:terradask:cluster", "Values": [cluster]}]
    )["Reservations"]
    return {
        (one["Architecture"], one["InstanceType"]) for page in pages for one in page["Instances"]
    }


def test_work_goes_where_its_resources_are_and_each_group_is_scaled_by_its_name(
    sim: Simulator, sim_environ: dict[str, str]
) -> None:
    def where(_: int = 0) -> str:
        name: str = get_worker().name
        return name

    groups = {
        "gpu": {
            "n_workers": 1,
            "max_workers": 2,
            "resources": {"GPU": 1},
            "spot_policy": "spot_with_fallback",
        }
    }
    told: list[str] = []
    settings: dict[str, Any] = {
        "n_workers": 1,
        "max_workers": 2,
        "worker_groups": groups,
        "wait_for_workers": True,
        "allow_cross_zone": True,
        # On ARM, for all that the rest cares.
        "arm": True,
    }
    with (
        sim.no_capacity(market="spot"),
        Cluster(
            "mixed", **settings, progress=lambda event: told.append(str(getattr(event, "text", "")))
        ) as cluster,
        cluster.get_client() as client,
    ):
        desired = {
            name: group.desired
            for name, group in Workspace.load().deployment(cluster.name).groups.describe().items()
        }
        assert desired == {"scheduler": 1, "workers": 1, "gpu-spot": 0, "gpu": 1}
        # Which group a host that has joined is of, the next look at AWS says.
        (of_gpu,) = eventually(lambda: cluster.worker_groups["gpu"].observed)
        eventually(lambda: numbers(cluster) == {"workers": 1, "gpu": 1})
        assert any(
            re.search(r"waiting for workers, \d of 2 have joined \(workers: \d/1, gpu: 0/1\)", text)
            for text in told
        )
        assert "workers=2/2 (workers: 1/1, gpu: 1/1)" in repr(cluster)
        page = cluster._repr_html_()
        assert all(f">{group}<" in page for group in ("workers", "gpu"))
        assert "Workers: 2/2" in cluster._scaling_status()
        assert {
            host.instance_id
            for host in Workspace.load().deployment(cluster.name).status().hosts
            if host.group == "gpu"
        } == {of_gpu}
        assert {
            client.submit(where, n, resources={"GPU": 1}, pure=False).result() for n in range(4)
        } == {of_gpu}

        assert launched(sim, "mixed") == {("arm64", "m7g.xlarge")}
        with Cluster("mixed", worker_groups={"gpu": {"max_workers": 2}}, arm=True) as second:
            assert (second.origin, second.worker_groups["gpu"].requested) == ("attached", {of_gpu})

        cluster.scale(0)
        eventually(
            lambda: (
                numbers(cluster) == {"workers": 0, "gpu": 1}
                and cluster.plan == cluster.observed == {of_gpu}
            )
        )
        waits = client.submit(where, resources={"CPU": 1})
        cluster.scale({"workers": 1, "gpu": 2})
        cluster.wait_for_workers(timeout=HANG_SECONDS)
        # A host may join before its group is read again.
        eventually(lambda: numbers(cluster) == {"workers": 1, "gpu": 2})
        assert zones(sim, cluster.worker_groups["gpu"].observed) == ["us-east-1a", "us-east-1b"]
        # Nobody has what it asks for.
        assert waits.status == "pending"
        waits.cancel()
        cluster.scale(0, group="gpu")
        eventually(lambda: numbers(cluster) == {"workers": 1, "gpu": 0})
        assert Workspace.load().deployment(cluster.name).status().max_workers == 4
    assert not [one for one in sim.left_running() if "mixed" in one]
