"""Clusters at a glance: told from status, tags and machines; what isn't known isn't guessed."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._catalog.prices.prices import Price, Quotes, RunningHost, Volumes
from terradask._clusters import overview as module
from terradask._clusters.overview import (
    ClusterOverview,
    TaggedGroup,
    overview,
    overviews,
)
from terradask._observe.instances import Instance
from terradask._observe.status import DeploymentStatus, hosts_by_state
from terradask.cli._deployments import status_text
from terradask_host.documents import HostReport

MADE = datetime.datetime(2026, 11, 20, 5, 0, tzinfo=datetime.UTC)


def report(state: str, at: str = "2026-11-20T05:15:00Z") -> HostReport:
    return HostReport("i-1", "worker", "workers", state, None, at, "r1")


def status(*hosts: HostReport, instances: int = 0, desired: int = 0) -> DeploymentStatus:
    groups = {
        "scheduler": {"desired": min(1, desired), "instances": min(1, instances), "max_size": 1},
        "workers": {
            "desired": max(0, desired - 1),
            "instances": max(0, instances - 1),
            "max_size": 9,
        },
    }
    return DeploymentStatus(
        "etl",
        "running",
        "r1",
        "arn:aws:iam::1:user/ana",
        "2026-11-20T05:10:00Z",
        "tls://x",
        groups,
        hosts,
        9,
    )


def group(
    workspace: str = "w",
    cluster: str = "etl",
    *,
    workers: bool = True,
    desired: int = 0,
    instances: int = 0,
    **facts: Any,
) -> TaggedGroup:
    given = {"prepared": 0, "created_at": MADE, "owner": None, "started_at": None, **facts}
    return TaggedGroup(workspace, cluster, workers, desired, instances, **given)


def machine(workspace: str, cluster: str | None, *, gib: int | None = 0) -> Instance:
    host = RunningHost(
        "m6i.large", "on-demand", "us-east-1a", False, None if gib is None else Volumes(gib)
    )
    return Instance("i-1", workspace, cluster, "worker", "g", MADE, host, is_on=True)


@pytest.mark.parametrize(
    ("hosts", "instances", "desired", "expected"),
    [
        ((), 0, 0, {}),
        ((), 1, 3, {"launched": 1, "requested": 2}),
        (("running", "running", "booting"), 4, 4, {"launched": 1, "running": 2, "booting": 1}),
        (("running", "lost", "left"), 1, 1, {"running": 1}),
        (("running", "failed"), 2, 3, {"requested": 1, "running": 1, "failed": 1}),
        # On its way down.
        (("leaving",), 0, 0, {"leaving": 1}),
    ],
)
def test_hosts_are_counted_by_how_far_they_are(
    hosts: tuple[str, ...], instances: int, desired: int, expected: dict[str, int]
) -> None:
    told = status(*map(report, hosts), instances=instances, desired=desired)
    assert hosts_by_state(told.groups, told.hosts) == expected


def test_a_cluster_of_ones_own_workspace_is_told_by_its_status() -> None:
    told = status(
        report("running", "2026-11-20T05:20:00Z"), report("running"), instances=2, desired=3
    )
    one = overview(("w", "etl"), told, None, [group(), group("other")], own=True)
    assert (one.state, one.workers, one.max_workers, one.hosts) == (
        "running",
        (1, 2),
        9,
        {"requested": 1, "running": 2},
    )
    assert (one.deployed_at, one.last_activity) == ("2026-11-20T05:00:00Z", "2026-11-20T05:20:00Z")
    document = json.loads(json.dumps(one.as_dict()))
    assert document["groups"]["workers"]["desired"] == 2
    assert document["hourly_usd"] is None
    assert document["hosts_by_state"] == {"requested": 1, "running": 2}


@pytest.mark.parametrize(
    ("desired", "instances", "state"),
    [(0, 0, "stopped"), (2, 0, "starting"), (2, 1, "running"), (0, 1, "stopping")],
)
def test_another_workspaces_cluster_is_told_by_its_tags(
    desired: int, instances: int, state: str
) -> None:
    facts = {"owner": "arn:aws:iam::1:user/bo", "started_at": "2026-11-20T05:10:00Z"}
    groups = [
        group("other", workers=False, **facts),
        group("other", desired=desired, instances=instances, **facts),
    ]
    one = overview(("other", "etl"), None, None, groups, own=False)
    assert (one.state, one.workers, one.max_workers, one.status) == (
        state,
        (instances, desired),
        None,
        None,
    )
    # Tags of a run outlive it.
    assert (one.owner, one.started_at) == (
        (facts["owner"], facts["started_at"]) if desired else (None, None)
    )


def test_prepared_hosts_are_counted_beside_the_groups_also_of_a_stopped_cluster() -> None:
    told = status(instances=0, desired=0)
    groups = {**told.groups, "workers": {**told.groups["workers"], "prepared": 2}}
    told = replace(told, groups=groups, state="stopped")
    one = overview(("w", "etl"), told, None, [group(prepared=2)], own=True)
    assert (one.state, one.workers, one.hosts) == ("stopped", (0, 0), {"prepared": 2})
    assert "prepared" in (shown := status_text(one, told))
    assert shown.splitlines()[-1].split() == ["workers", "0", "0", "9", "2"]
    assert hosts_by_state(groups, [report("preparing")]) == {"preparing": 1, "prepared": 1}
    other = overview(("v", "etl"), None, None, [group("v", prepared=2)], own=False)
    assert (other.state, other.hosts) == ("stopped", {"prepared": 2})


def test_what_nobody_owns_is_said_to_be_so() -> None:
    assert overview(("w", "etl"), None, None, [group(instances=1)], own=True).state == "unowned"
    assert overview(("w", "etl"), None, "unfinished", [group()], own=True).state == "unfinished"


def seen(
    monkeypatch: pytest.MonkeyPatch,
    groups: list[TaggedGroup],
    machines: list[Instance] | None,
    usd: str | None = "0.1",
) -> list[ClusterOverview]:
    """Look with given answers of AWS's."""
    prices = SimpleNamespace(
        look_up=lambda keys: Quotes(
            "x",
            {
                key: Price(Decimal(str(usd)), "hour", MADE.isoformat())
                for key in keys
                if usd is not None
            },
        )
    )
    monkeypatch.setattr("terradask._catalog.prices.price_list.AwsPriceList", lambda aws: prices)
    monkeypatch.setattr(module, "_tagged_groups", lambda aws, workspace: groups)
    monkeypatch.setattr(module, "_machines", lambda aws, workspace: machines)
    deployed: Any = SimpleNamespace(name="etl", status=lambda: status(instances=2, desired=2))
    aws: Any = SimpleNamespace(region="us-east-1")
    return overviews(
        aws,
        workspace="w",
        deployments=[deployed],
        others={"half": "unfinished"},
        all_workspaces=True,
    )


def test_everything_that_is_seen_is_listed_with_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [
        machine("w", "etl"),
        machine("w", "etl"),
        machine("w", "lost"),
        machine("other", "etl"),
        machine("w", None),
    ]
    found = seen(monkeypatch, [group(), group("other", "idle")], machines)
    assert {(one.workspace, one.name): (one.state, str(one.hourly_usd)) for one in found} == {
        ("other", "etl"): ("unowned", "0.1000000000"),
        ("other", "idle"): ("stopped", "0"),
        ("w", "etl"): ("running", "0.2000000000"),
        ("w", "half"): ("unfinished", "0"),
        ("w", "lost"): ("unowned", "0.1000000000"),
    }


def test_a_price_that_is_not_known_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    for machines, usd in (
        ([machine("w", "etl")], None),
        ([machine("w", "etl", gib=None)], "0.1"),
        (None, "0.1"),
    ):
        (one,) = [one for one in seen(monkeypatch, [group()], machines, usd) if one.name == "etl"]
        assert one.hourly_usd is None
