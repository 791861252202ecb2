"""Which of the network's launch templates a cluster's disks take, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.settings import ClusterSettings, NetworkSettings, WorkspaceSettings
from terradask_stacks.worker_disks import check_disks_offered, network_disks, offered_gib

SHARED = WorkspaceSettings()


def findings(said: dict[str, Any], *, has_menu: bool = True, **network: Any) -> list[Finding]:
    settings, cluster = NetworkSettings(**network), ClusterSettings.model_validate(said)
    with pytest.raises(SettingsError) as caught:
        check_disks_offered(SHARED, settings, cluster, has_menu=has_menu)
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
    assert network_disks(SHARED, NetworkSettings(), cluster) == {"worker": expected}


def test_groups_of_workers_have_disks_by_their_own_sizes() -> None:
    groups = {"big": {"disk_size": 700}, "small": {"disk_size": 30}, "plain": {}}
    cluster = ClusterSettings.model_validate({"worker_disk_size": 200, "worker_groups": groups})
    assert network_disks(SHARED, NetworkSettings(), cluster) == {
        "worker": 250,
        "big": 1000,
        "small": None,
    }


def test_own_templates_have_exact_sizes_and_make_no_menu() -> None:
    cluster = ClusterSettings(worker_disk_size=2000, worker_disk_throughput=300)
    for workspace, network in (
        (WorkspaceSettings(isolation="cluster"), NetworkSettings()),
        (SHARED, NetworkSettings(cluster_launch_templates=True)),
    ):
        check_disks_offered(workspace, network, cluster)
        assert network_disks(workspace, network, cluster) is None
        assert offered_gib(workspace, network) == []


def test_the_menu_has_what_is_larger_than_the_usual_disk() -> None:
    network = NetworkSettings(worker_disk_size_gib=500, worker_disk_sizes_gib=[2000, 250, 500])
    assert offered_gib(SHARED, network) == [2000]


def test_beyond_the_menu_one_step_leads_to_a_cluster() -> None:
    for said, allowed, advice in (
        ({"worker_disk_size": 1001}, "up to 1000", "set worker_disk_size = 1000 or less"),
        ({"scheduler_disk_size": 60}, "up to 50", "set scheduler_disk_size = 50 or less"),
        (
            {"worker_groups": {"gpu": {"disk_size": 1001}}},
            "up to 1000",
            "set worker_groups.gpu.disk_size = 1000 or less",
        ),
        ({"worker_disk_throughput": 300}, "no value", "leave it out"),
    ):
        (finding,) = findings(said)
        assert finding.allowed is not None
        assert finding.advice is not None
        assert finding.allowed.startswith(allowed)
        assert finding.advice.startswith(advice)


def test_a_network_of_an_earlier_version_has_to_be_applied_again() -> None:
    said = {"worker_disk_size": 200}
    (finding,) = findings(said, has_menu=False, worker_disk_sizes_gib=[])
    assert finding.advice == "run: terradask apply network"
    (finding,) = findings(said, worker_disk_sizes_gib=[])
    assert str(finding.advice).startswith("set worker_disk_size = 100 or less")
