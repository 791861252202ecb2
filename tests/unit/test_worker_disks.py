"""Which of the network's launch templates a cluster's disks take, and what is refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings, NetworkSettings, WorkspaceSettings
from terradask_stacks.settings.disks import Disk
from terradask_stacks.worker_disks import (
    check_disks_offered,
    locked_disk,
    locked_disks,
    network_disks,
    offered_disks,
)

SHARED = WorkspaceSettings()


def findings(
    said: dict[str, Any], *, unknown: Collection[str] = (), **network: Any
) -> list[Finding]:
    settings, cluster = NetworkSettings(**network), ClusterSettings.model_validate(said)
    with pytest.raises(SettingsError) as caught:
        check_disks_offered(SHARED, settings, cluster, unknown=unknown)
    return list(caught.value.findings)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(20, None), (100, None), (101, 250), (200, 250), (250, 250), (251, 500), (1000, 1000)],
)
def test_a_worker_has_the_smallest_disk_that_is_large_enough(
    asked: int, expected: int | None
) -> None:
    cluster = ClusterSettings(worker_disk_size=asked)
    check_disks_offered(SHARED, NetworkSettings(), cluster)
    assert network_disks(SHARED, NetworkSettings(), cluster) == {"worker": Disk(expected)}


def test_groups_of_workers_have_disks_by_their_own_sizes() -> None:
    groups = {"big": {"disk_size": 700}, "small": {"disk_size": 30}, "plain": {}}
    cluster = ClusterSettings.model_validate({"worker_disk_size": 200, "worker_groups": groups})
    assert network_disks(SHARED, NetworkSettings(), cluster) == {
        "worker": Disk(250),
        "big": Disk(1000),
        "small": Disk(),
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"worker_disk_throughput": 500}, {"worker": Disk(None, 500)}),
        ({"worker_disk_throughput": 125}, {"worker": Disk()}),
        ({"worker_disk_throughput": 126, "worker_disk_size": 90}, {"worker": Disk(None, 500)}),
        ({"worker_disk_throughput": 300, "worker_disk_size": 101}, {"worker": Disk(250, 500)}),
        ({"scheduler_disk_size": 100}, {"scheduler": Disk(250)}),
        ({"scheduler_disk_size": 50}, {"scheduler": Disk()}),
        (
            {
                "worker_disk_throughput": 500,
                "scheduler_disk_size": 100,
                "worker_groups": {"slow": {"disk_throughput": 125}, "big": {"disk_size": 600}},
            },
            {
                "worker": Disk(None, 500),
                "scheduler": Disk(250),
                "slow": Disk(),
                "big": Disk(1000, 500),
            },
        ),
    ],
)
def test_throughput_and_schedulers_have_menus_too(
    said: dict[str, Any], expected: dict[str, Disk]
) -> None:
    cluster, network = ClusterSettings.model_validate(said), NetworkSettings()
    check_disks_offered(SHARED, network, cluster)
    disks = network_disks(SHARED, network, cluster)
    assert disks == expected
    offered = offered_disks(SHARED, network)
    for name, disk in expected.items():
        role = "scheduler" if name == "scheduler" else "worker"
        assert not disk or (role, disk) in offered
        lock = ClusterLock(
            account="123456789012",
            zone="us-east-1a",
            scheduler_instance_types=["m6i.large"],
            worker_instance_types=["m6i.large"],
            **locked_disks(disks),
        )
        assert locked_disk(lock, role, name) == disk
        # A group of which nothing is said has what all workers have.
        assert locked_disk(lock, "worker", "plain") == expected.get("worker", Disk())
        # Earlier versions can read the locks of clusters without throughput.
        assert ("network_disks_mibps" in lock.model_dump()) == any(
            each.throughput_mibps for each in expected.values()
        )


def test_own_templates_have_exact_sizes_and_make_no_menu() -> None:
    cluster = ClusterSettings(worker_disk_size=2000, worker_disk_throughput=300)
    for workspace, network in (
        (WorkspaceSettings(isolation="cluster"), NetworkSettings()),
        (SHARED, NetworkSettings(cluster_launch_templates=True)),
    ):
        check_disks_offered(workspace, network, cluster)
        assert network_disks(workspace, network, cluster) is None
        assert offered_disks(workspace, network) == []


def test_the_menu_has_what_is_larger_than_the_usual_disk() -> None:
    network = NetworkSettings(
        worker_disk_size_gib=500,
        worker_disk_sizes_gib=[2000, 250, 500],
        worker_disk_throughputs_mibps=[1000, 125],
        scheduler_disk_sizes_gib=[100, 20],
    )
    assert offered_disks(SHARED, network) == [
        ("scheduler", Disk(100)),
        ("worker", Disk(2000)),
        ("worker", Disk(None, 1000)),
        ("worker", Disk(2000, 1000)),
    ]


def test_beyond_the_menu_one_step_leads_to_a_cluster() -> None:
    for said, allowed, advice in (
        ({"worker_disk_size": 1001}, "up to 1000", "set worker_disk_size = 1000 or less"),
        ({"scheduler_disk_size": 251}, "up to 250", "set scheduler_disk_size = 250 or less"),
        (
            {"worker_groups": {"gpu": {"disk_size": 1001}}},
            "up to 1000",
            "set worker_groups.gpu.disk_size = 1000 or less",
        ),
        ({"worker_disk_throughput": 501}, "up to 500", "set worker_disk_throughput = 500 or less"),
    ):
        (finding,) = findings(said)
        assert finding.allowed is not None
        assert finding.advice is not None
        assert finding.allowed.startswith(allowed)
        assert finding.advice.startswith(advice)


@pytest.mark.parametrize(
    ("said", "setting", "most"),
    [
        ({"worker_disk_size": 200}, "worker_disk_sizes_gib", 100),
        ({"worker_disk_throughput": 500}, "worker_disk_throughputs_mibps", 125),
        ({"scheduler_disk_size": 100}, "scheduler_disk_sizes_gib", 50),
    ],
)
def test_a_network_of_an_earlier_version_has_to_be_applied_again(
    said: dict[str, Any], setting: str, most: int
) -> None:
    (finding,) = findings(said, unknown={setting}, **{setting: []})
    assert finding.advice == "run: terradask apply network"
    (finding,) = findings(said, **{setting: []})
    assert str(finding.advice).startswith(f"set {next(iter(said))} = {most} or less")
