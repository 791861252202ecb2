"""Who may reach a scheduler: a cluster's rules within its network's."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask_stacks.errors import SettingsError
from terradask_stacks.ingress import check_dashboard_https, check_ingress, openings, uncovered
from terradask_stacks.settings import (
    ClusterSettings,
    IngressRule,
    NetworkSettings,
    WorkspaceSettings,
)


def _rules(*rules: tuple[str, str]) -> list[IngressRule]:
    return [IngressRule(ports=ports.split(","), cidr=cidr) for ports, cidr in rules]


@pytest.mark.parametrize(
    ("wanted", "allowed", "missing"),
    [
        ([("8786-8787", "203.0.113.7/32")], [("8786-8787", "203.0.113.0/24")], []),
        ([("8787", "203.0.113.7/32")], [("8786-8787", "203.0.113.7/32")], []),
        # Several rules together; ranges that meet, or overlap.
        (
            [("8786-8787", "203.0.113.7/32")],
            [("8786", "203.0.113.0/24"), ("8787", "203.0.113.7/32")],
            [],
        ),
        (
            [("22,8786-8800", "203.0.113.7/32")],
            [
                ("8000-8790", "203.0.113.7/32"),
                ("8788-9000", "203.0.112.0/23"),
                ("1-22", "203.0.113.7/32"),
            ],
            [],
        ),
        ([("8786-8787", "203.0.113.7/32")], [], ["8786-8787 from 203.0.113.7/32"]),
        (
            [("8786-8787", "203.0.113.7/32")],
            [("8786", "203.0.113.7/32")],
            ["8787 from 203.0.113.7/32"],
        ),
        ([("8786", "203.0.112.0/23")], [("8786", "203.0.113.0/24")], ["8786 from 203.0.112.0/23"]),
        ([("8786", "2001:db8::/56")], [("8786", "203.0.113.0/24")], ["8786 from 2001:db8::/56"]),
        ([("8786", "2001:db8::/56")], [("8786", "2001:db8::/48")], []),
        ([("22,8786", "203.0.113.7/32")], [("8786", "203.0.113.7/32")], ["22 from 203.0.113.7/32"]),
    ],
)
def test_what_a_network_lacks(wanted: Any, allowed: Any, missing: list[str]) -> None:
    assert uncovered(_rules(*wanted), _rules(*allowed)) == missing


RULES = st.lists(
    st.tuples(
        st.tuples(st.integers(1, 9), st.integers(0, 4)).map(
            lambda pair: f"{pair[0]}-{pair[0] + pair[1]}"
        ),
        st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.2.0.0/16"]),
    ),
    max_size=4,
)


@given(RULES, RULES)
def test_nothing_is_missing_where_each_port_of_each_block_is_open(
    wanted: Any, allowed: Any
) -> None:
    def opened(port: int, block: str) -> bool:
        return any(
            one.ports[0] <= port <= one.ports[1]
            and IPv4Network(block).subnet_of(IPv4Network(one.cidr))
            for one in openings(_rules(*allowed))
        )

    asked = openings(_rules(*wanted))
    each = all(
        opened(port, one.cidr) for one in asked for port in range(one.ports[0], one.ports[1] + 1)
    )
    assert (uncovered(_rules(*wanted), _rules(*allowed)) == []) is each


def test_clusters_that_share_their_groups_are_told_where_to_open() -> None:
    cluster = ClusterSettings(ingress=_rules(("8786", "203.0.113.7/32")))
    with pytest.raises(SettingsError) as caught:
        check_ingress(
            WorkspaceSettings(), NetworkSettings(ingress=_rules(("22", "198.51.100.0/24"))), cluster
        )
    text = str(caught.value)
    for part in (
        "8786 from 203.0.113.7/32",
        "allowed: 22 from 198.51.100.0/24",
        "network.ingress",
        "terradask apply network",
    ):
        assert part in text
    assert 'workspace.isolation = "cluster"' in text
    check_ingress(WorkspaceSettings(isolation="cluster"), NetworkSettings(), cluster)
    check_ingress(WorkspaceSettings(), NetworkSettings(), ClusterSettings())
    check_ingress(WorkspaceSettings(), NetworkSettings(ingress=cluster.ingress or []), cluster)


@pytest.mark.parametrize(
    ("isolation", "own", "allowed", "section"),
    [
        ("workspace", None, [("8786-8787", "203.0.113.0/24")], "network"),
        ("workspace", None, [], "network"),
        ("workspace", [("8788", "203.0.113.7/32")], [("8786-8787", "203.0.113.0/24")], "network"),
        ("cluster", None, [("8786-8787", "203.0.113.0/24")], "network"),
        ("cluster", [("8786-8787", "203.0.113.7/32")], [("8788", "203.0.113.0/24")], "cluster"),
        (
            "workspace",
            None,
            [("8786-8787", "203.0.113.0/24"), ("443,8788", "198.51.100.0/24")],
            None,
        ),
        ("cluster", [("8780-8790", "203.0.113.7/32")], [], None),
    ],
)
def test_a_dashboard_over_https_needs_a_rule_that_lets_somebody_in(
    isolation: Any, own: Any, allowed: Any, section: str | None
) -> None:
    workspace = WorkspaceSettings(isolation=isolation)
    rules, ingress = _rules(*allowed), None if own is None else _rules(*own)
    cluster = ClusterSettings(use_dashboard_https=True, ingress=ingress)
    for quiet in (ClusterSettings(ingress=ingress), cluster):
        check_dashboard_https(workspace, rules, quiet, given=quiet is cluster)
    if section is None:
        check_dashboard_https(workspace, rules, cluster, given=False)
        return
    with pytest.raises(SettingsError, match=rf"8788.*{section}\.ingress") as caught:
        check_dashboard_https(workspace, rules, cluster, given=False)
    assert [finding.where for finding in caught.value.findings] == ["cluster.use_dashboard_https"]
