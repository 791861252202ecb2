"""A cluster on two markets, of an AWS that hasn't what is asked for: moved on demand, kept in part,
and refused with reasons.
"""

import logging
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask import Cluster, Workspace
from terradask._clusters import pending_launches
from terradask._common.progress import Message, ProgressEvent
from terradask._synthesis.resolve_cluster import Place, resolve_cluster
from terradask.errors import NoCapacity, QuotaExceeded
from terradask_simulator import Simulator
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from ..waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.simulator]


HOPEFUL = "arn:aws:iam::123456789012:role/hopeful"
STANDARD, STANDARD_SPOT = "L-1216C47A", "L-34B43A08"


def desired(cluster: Cluster) -> dict[str, int]:
    return {
        name: group.desired
        for name, group in Workspace.load().deployment(cluster.name).groups.describe().items()
    }


def placement_groups(sim: Simulator) -> list[dict[str, Any]]:
    """Return the cluster's placement groups."""
    found = sim.client("ec2").describe_placement_groups()["PlacementGroups"]
    return [one for one in found if one["GroupName"] == "terradask-default.spotty"]


def planned_anew() -> tuple[ClusterLock, list[str]]:
    """Return what another cluster's plan begins with, and what is told of it."""
    workspace, told = Workspace.load(), list[ProgressEvent]()
    baseline = workspace.baseline()
    place = Place(
        baseline.account,
        "aws",
        frozenset(baseline.zones),
        baseline.architectures,
        workspace=baseline.workspace,
    )
    lock = resolve_cluster(
        ClusterSettings(spot_policy="spot_with_fallback"),
        place,
        workspace.aws,
        progress=told.append,
    )
    return lock, [event.text for event in told if isinstance(event, Message)]


@pytest.mark.life
def test_what_spot_lacks_runs_on_demand_and_what_nobody_has_is_told(
    sim: Simulator,
    sim_environ: dict[str, str],
    policies: dict[str, list[dict[str, Any]]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in sim.environ_of("spotter", *policies["user"]).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pending_launches, "_SETTLED_SECONDS", 1.0)
    caplog.set_level(logging.WARNING, "terradask")
    with (
        sim.no_capacity(market="spot", beyond=1),
        Cluster(
            "spotty",
            n_workers=2,
            max_workers=4,
            wait_for_workers=True,
            spot_policy="spot_with_fallback",
            placement_group=True,
            capacity_timeout=False,
        ) as cluster,
    ):
        (placed,) = placement_groups(sim)
        assert placed["Strategy"] == "cluster"
        groups = sim.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        assert [g["PlacementGroup"] for g in groups if "-spotty-" in g["AutoScalingGroupName"]] == [
            placed["GroupName"]
        ] * 3
        with pytest.raises(ClientError, match="InUse"):
            sim.client("ec2").delete_placement_group(GroupName=placed["GroupName"])
        assert desired(cluster) == {"scheduler": 1, "workers": 1, "workers-spot": 1}
        lifecycles = {}
        for reservation in sim.client("ec2").describe_instances(
            InstanceIds=sorted(cluster.observed)
        )["Reservations"]:
            lifecycles |= {
                i["InstanceId"]: i.get("InstanceLifecycle", "on-demand")
                for i in reservation["Instances"]
            }
        assert sorted(lifecycles.values()) == ["on-demand", "spot"]
        assert cluster.get_client().submit(sum, [1, 2]).result() == 3

        with sim.no_capacity(), sim.set_quota(STANDARD, 8), sim.set_quota(STANDARD_SPOT, 4):
            cluster.scale(3)
            eventually(lambda: "AWS will launch at most 2 of 3 workers" in caplog.text)
            eventually(lambda: "InsufficientInstanceCapacity" in caplog.text)
            # What spot lacks moves on demand.
            eventually(
                lambda: desired(cluster) == {"scheduler": 1, "workers": 2, "workers-spot": 1}
            )
            # What isn't there goes first, then who is dearer.
            cluster.scale(1)
            (spot,) = (name for name, market in lifecycles.items() if market == "spot")
            eventually(
                lambda: (
                    cluster.observed == {spot}
                    and desired(cluster) == {"scheduler": 1, "workers": 0, "workers-spot": 1}
                )
            )
            cluster.scale(0)
            eventually(lambda: cluster.plan == set() == cluster.observed)
            cluster.scale(2)
            with pytest.raises(NoCapacity, match=r"workers: .*on-demand, us-east-1") as caught:
                cluster.wait_for_workers(1, timeout=HANG_SECONDS)
            assert "terradask plan --refresh spotty" in str(caught.value.advice)
        failed_in = cluster.zone
    # AWS deletes it after the last host alone, by whoever holds the policy for users.
    assert placement_groups(sim) == []
    # Also of groups that are gone: a new plan knows which zone to keep out of, with the rights of
    # whoever makes clusters.
    lock, told = planned_anew()
    assert lock.zone != failed_in
    # Another test may have left refusals in the other zone.
    assert f"in {failed_in}" in lock.reasons["zone"] or (
        f"{failed_in} has refused launches recently (" in lock.reasons["zone"]
        and "InsufficientInstanceCapacity" in lock.reasons["zone"]
    )
    assert told == [f"zone: {lock.reasons['zone']}"]


def test_more_vcpus_than_the_account_may_have_are_refused_before_anything_is_made(
    sim: Simulator,
    sim_environ: dict[str, str],
    policies: dict[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in sim.environ_of("hopeful", *policies["user"]).items():
        monkeypatch.setenv(name, value)
    with sim.set_quota(STANDARD, 5), pytest.raises(QuotaExceeded) as refused:
        Cluster("toomuch", n_workers=2)
    assert (
        refused.value.largest,
        refused.value.quotas[0]["limit"],
        refused.value.quotas[0]["needed"],
    ) == ({"workers": 0}, 5, 12)
    assert not [
        call
        for call in sim.requests()[HOPEFUL]
        if call.request.action.partition(":")[2].startswith(("Create", "Put"))
    ]
