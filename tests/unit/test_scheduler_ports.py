"""Ports of schedulers: which a network opens to workers, which hosts bind, and what is said where
one is closed.
"""

from __future__ import annotations

from typing import Any

import pytest

from terradask_modules.ingress import parse_ports, shared_scheduler_ports
from terradask_stacks.errors import SettingsError
from terradask_stacks.ingress import check_ingress, check_ports
from terradask_stacks.settings import (
    ClusterSettings,
    IngressRule,
    NetworkSettings,
    WorkspaceSettings,
)

SHARED, ISOLATED = WorkspaceSettings(), WorkspaceSettings(isolation="cluster")
HERE = "203.0.113.7/32"


@pytest.mark.parametrize(
    ("opened", "besides"),
    [
        ([], []),
        (["8786-8787", 22], []),
        ([443, "8786-8787", 443], [(443, 443)]),
        (["8780-8790"], [(8780, 8785), (8788, 8790)]),
        (["1-65535", 443, "9000-9001"], [(80, 8785), (8788, 65535)]),
        ([9000, "8999-9001", "20-100"], [(80, 100), (8999, 9001)]),
    ],
)
def test_workers_reach_what_clients_do_but_for_the_systems_ports(
    opened: list[int | str], besides: list[tuple[int, int]]
) -> None:
    assert shared_scheduler_ports(map(parse_ports, opened)) == [(8786, 8787), *besides]


@pytest.mark.parametrize(
    "asked",
    [
        {"scheduler_port": 443},
        {"scheduler_port": 9000, "allow_ingress_from": [HERE]},
        {"scheduler_port": 9000, "dashboard_port": 443, "allow_ingress_from": [HERE]},
    ],
)
def test_the_rule_that_the_advice_names_is_all_that_it_takes(asked: dict[str, Any]) -> None:
    cluster = ClusterSettings(**asked)
    with pytest.raises(SettingsError) as caught:
        check_ports(SHARED, NetworkSettings(), cluster)
    assert "isolation" not in str(caught.value)
    ports = [cluster.scheduler_port, cluster.dashboard_port]
    for finding in caught.value.findings:
        assert f"{{ ports = [{ports[0]}, {ports[1]}], cidr = " in str(finding.advice)
    assert HERE in str(caught.value) or "allow_ingress_from" not in asked
    followed = NetworkSettings(ingress=[IngressRule(ports=ports, cidr=HERE)])
    check_ports(SHARED, followed, cluster)
    check_ingress(SHARED, followed, cluster)


def test_isolated_clusters_open_their_ports_themselves() -> None:
    for asked in ({"scheduler_port": 443, "dashboard_port": 80}, {"scheduler_port": 9000}):
        check_ports(ISOLATED, NetworkSettings(), ClusterSettings(**asked))


@pytest.mark.parametrize("workspace", [SHARED, ISOLATED])
def test_the_systems_ports_stay_the_systems(workspace: WorkspaceSettings) -> None:
    everywhere = NetworkSettings(ingress=[IngressRule(ports=["1-65535"], cidr=HERE)])
    cluster = ClusterSettings(scheduler_port=22, dashboard_port=79)
    with pytest.raises(SettingsError, match="no port below 80") as caught:
        check_ports(workspace, everywhere, cluster)
    assert [finding.where for finding in caught.value.findings] == [
        "cluster.scheduler_port",
        "cluster.dashboard_port",
    ]
    check_ports(workspace, everywhere, ClusterSettings(scheduler_port=80, dashboard_port=443))
