"""Capacity reservations: settings that name them, and what doesn't fit."""

from __future__ import annotations

import datetime
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import ValidationError

from terradask._aws.session import Aws
from terradask._catalog import reservations
from terradask._catalog.reservations import (
    Reservation,
    Reserved,
    ReservedHosts,
    check_reserved,
)
from terradask._synthesis import resolve_hardware
from terradask._synthesis.resolve_cluster import resolve_cluster, still_holds
from terradask.errors import InvalidInput, NoCapacity, NoMatchingType
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from . import test_resolve_cluster
from .settings_files import problems
from .test_resolve_cluster import A, Asked, B, _place

asked = test_resolve_cluster.asked

ID = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/gpus"
ONE = Reservation(ID, "m5.xlarge", B, "Linux/UNIX", "default", "active", 4, 2)
NOW = datetime.datetime.now(datetime.UTC)
HOUR = datetime.timedelta(hours=1)
BLOCK = replace(ONE, is_block=True, begins=NOW - HOUR, ends=NOW + 2 * HOUR)

# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [ID, "cr-01234567", GROUP, f"{GROUP}/{'a' * 26}", "open", "none"])
def test_ways_to_name_one(given: str) -> None:
    assert ClusterSettings(capacity_reservation=given).capacity_reservation == given


@pytest.mark.parametrize("given", ["", "cr-1", "first", ID.upper(), f"{ID} ", GROUP[:-5]])
def test_other_values_are_refused(given: str) -> None:
    with pytest.raises(ValidationError, match="is not a capacity reservation"):
        ClusterSettings(capacity_reservation=given)


def test_the_arn_of_one_is_told_its_id() -> None:
    arn = f"arn:aws:ec2:us-east-1:123456789012:capacity-reservation/{ID}"
    (found,) = problems(overrides={"cluster": {"capacity_reservation": arn}}).values()
    assert "named by its id" in found.problem
    assert (found.given, found.advice) == (arn, f"write {ID}")
    assert "cr- and 8 or 17 hexadecimal digits" in str(found.allowed)


@pytest.mark.parametrize("given", [ID, "open"])
@pytest.mark.parametrize("policy", ["spot", "spot_with_fallback"])
def test_spot_is_refused(given: str, policy: str) -> None:
    with pytest.raises(ValidationError, match=f"spot_policy is {policy}"):
        ClusterSettings.model_validate({"capacity_reservation": given, "spot_policy": policy})
    group = {"capacity_reservation": given}
    with pytest.raises(ValidationError, match=r"worker_groups\.gpu\.capacity_reservation"):
        ClusterSettings.model_validate({"worker_groups": {"gpu": group}, "spot_policy": policy})
    on_demand = {"gpu": {**group, "spot_policy": "on-demand"}}
    ClusterSettings.model_validate({"worker_groups": on_demand, "spot_policy": policy})
    ClusterSettings.model_validate({"capacity_reservation": "none", "spot_policy": policy})


def test_a_placement_group_of_the_clusters_own_is_refused() -> None:
    with pytest.raises(ValidationError, match="placement_group is true"):
        ClusterSettings(capacity_reservation=ID, placement_group=True)
    ClusterSettings(capacity_reservation="open", placement_group=True)


# ---- choice --------------------------------------------------------------------------------------


@pytest.fixture
def reserve(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> Any:
    def put(*found: Reservation) -> None:
        monkeypatch.setattr(reservations, "read_reservations", lambda *_: found)
        monkeypatch.setattr(reservations, "_open", lambda _: list(found))

    return put


def resolved(place: Any = None, **settings: Any) -> ClusterLock:
    cluster = ClusterSettings.model_validate({"capacity_reservation": ID, **settings})
    return resolve_cluster(cluster, place or _place(), Aws("us-east-1"))


def test_type_and_zone_are_the_reservations(reserve: Any) -> None:
    reserve(ONE)
    lock = resolved()
    assert (lock.zone, lock.worker_instance_types) == (B, ["m5.xlarge"])
    assert ID in lock.reasons["workers"]
    assert lock.asked is not None
    assert lock.asked["workers"] == {"capacity_reservation": ID}
    # Of several zones, although the first one would be the default.
    assert resolved(use_best_zone=False).zone == B
    assert resolved(worker_vm_types=["m6i.xlarge", "m5.xlarge"]).worker_instance_types == [
        "m5.xlarge"
    ]
    assert resolved(worker_cpu=4, worker_memory="16 GiB").worker_instance_types == ["m5.xlarge"]


def test_another_reservation_is_another_question(reserve: Any) -> None:
    reserve(ONE)
    lock = resolved()
    same = ClusterSettings(capacity_reservation=ID)
    assert still_holds(lock, same, _place())
    assert not still_holds(lock, ClusterSettings(), _place())
    assert not still_holds(lock, ClusterSettings(capacity_reservation="open"), _place())


def test_gpus_that_are_only_reserved_give_the_scheduler_none(reserve: Any) -> None:
    reserve(replace(ONE, instance_type="g5.xlarge"))
    lock = resolved()
    assert lock.worker_instance_types == ["g5.xlarge"]
    assert lock.gpus.keys() == {"g5.xlarge"}
    assert not lock.gpus.keys() & set(lock.scheduler_instance_types)
    # Of all workers, or if requested.
    assert resolved(scheduler_gpu=1).gpus.keys() > {"g5.xlarge"}
    assert resolved(worker_gpu=1, worker_gpu_type="A10G").worker_instance_types == ["g5.xlarge"]


@pytest.mark.parametrize(
    "settings", [{"worker_cpu": 8}, {"worker_vm_types": ["m6i.xlarge"]}, {"worker_gpu": 1}]
)
def test_a_request_for_other_machines_is_refused(reserve: Any, settings: dict[str, Any]) -> None:
    reserve(ONE)
    with pytest.raises(NoMatchingType, match="other machines than the settings request") as caught:
        resolved(**settings)
    error = caught.value
    assert f"cluster.capacity_reservation = {ID}: " in str(error.given)
    assert "2 of 4 m5.xlarge free in us-east-1b" in str(error.given)
    assert "m5.xlarge" in str(error.allowed)
    assert f"leave {next(iter(settings))} out" in str(error.advice)


def test_a_zone_without_a_subnet_is_refused(reserve: Any) -> None:
    reserve(ONE)
    for wrong in (lambda: resolved(_place(A)), lambda: resolved(zone_name=A)):
        with pytest.raises(InvalidInput, match="no zone in which the whole cluster") as caught:
            wrong()
        assert "us-east-1b" in str(caught.value.given)
        assert A in str(caught.value.allowed)
        assert "network.zones" in str(caught.value.advice)


@pytest.mark.parametrize(
    "changed", [{"platform": "Windows"}, {"tenancy": "dedicated"}], ids=lambda one: next(iter(one))
)
def test_what_hosts_are_not_is_refused(reserve: Any, changed: dict[str, str]) -> None:
    settings = {"capacity_reservation": ID}
    reserve(replace(ONE, **changed))
    with pytest.raises(InvalidInput, match="hosts can't run in this") as caught:
        resolved(**settings)
    assert next(iter(changed.values())) in str(caught.value.given)
    assert "Linux/UNIX" in str(caught.value.allowed)


def test_two_groups_with_reservations_share_a_zone(reserve: Any, monkeypatch: Any) -> None:
    other = "cr-0123456789abcdef1"
    found = {ID: (ONE,), other: (replace(ONE, id=other, zone=A),)}
    monkeypatch.setattr(reservations, "read_reservations", lambda _aws, target, _: found[target])
    groups = {"gpu": {"capacity_reservation": other}}
    with pytest.raises(InvalidInput, match="in no zone"):
        resolved(worker_groups=groups)
    lock = resolved(worker_groups=groups, allow_cross_zone=True)
    assert (lock.worker_zones["workers"], lock.worker_zones["gpu"]) == ([B], [A])


def test_an_open_one_is_preferred_and_no_more(reserve: Any) -> None:
    reserve(ONE)
    lock = resolved(capacity_reservation="open")
    assert (lock.zone, lock.worker_instance_types) == (B, ["m5.xlarge"])
    # None that fits: as without.
    bigger = resolved(capacity_reservation="open", worker_cpu=8)
    assert "m5.xlarge" not in bigger.worker_instance_types
    reserve(replace(ONE, free=0))
    assert resolved(capacity_reservation="open").zone == A


# ---- before a launch -----------------------------------------------------------------------------

HOSTS = ReservedHosts("workers", ID, ("m5.xlarge",), (B,), 2, 4)


def checked(hosts: ReservedHosts = HOSTS, *, starts: bool = True) -> list[str]:
    warned: list[str] = []
    check_reserved(Aws("us-east-1"), "etl", [hosts], starts=starts, warn=warned.append)
    return warned


def test_prepared_hosts_are_in_the_reservation_too_while_they_are_prepared(reserve: Any) -> None:
    reserve(replace(ONE, free=4))
    assert checked(replace(HOSTS, standby=2)) == []
    (warning,) = checked(replace(HOSTS, standby=3))
    assert "4 machines for 2 workers and 3 prepared hosts" in warning


def test_as_many_as_are_free_may_start(reserve: Any) -> None:
    reserve(ONE)
    assert checked() == []
    reserve(replace(ONE, free=1), replace(ONE, free=1))
    assert checked() == []


def test_more_than_are_free_are_refused_at_a_start_and_more_than_exist_in_a_plan(
    reserve: Any,
) -> None:
    reserve(ONE)
    three = replace(HOSTS, number=3)
    with pytest.raises(NoCapacity, match="too few machines") as caught:
        checked(three)
    assert "3 workers to start with; " in str(caught.value.given)
    assert "2 of 4 m5.xlarge free" in str(caught.value.given)
    assert caught.value.allowed == "2 workers at most"
    assert "fewer workers" in str(caught.value.advice)
    (warning,) = checked(three, starts=False)
    assert "2 of the 3 workers free now" in warning
    assert "wait until" in str(caught.value.advice)
    with pytest.raises(NoCapacity, match="too few machines") as beyond:
        checked(replace(HOSTS, number=5), starts=False)
    assert "wait" not in str(beyond.value.advice)
    (limit,) = checked(replace(HOSTS, most=9))
    assert "max_workers is 9" in limit


@pytest.mark.parametrize("state", ["expired", "cancelled", "failed", "payment-failed"])
def test_one_that_is_over_is_refused(reserve: Any, state: str) -> None:
    reserve(replace(ONE, state=state))
    for starts in (True, False):
        with pytest.raises(NoCapacity, match="can't be used") as caught:
            checked(starts=starts)
        assert state in str(caught.value.given)
        assert "active" in str(caught.value.allowed)


def test_a_block_is_planned_before_it_begins_and_started_within_its_times(reserve: Any) -> None:
    reserve(replace(BLOCK, state="scheduled", free=0, begins=NOW + HOUR))
    (planned,) = checked(starts=False)
    assert "before its reservation begins" in planned
    for when in (NOW + HOUR, BLOCK.ends, NOW + 1.5 * HOUR):
        assert when is not None
        assert when.strftime("%Y-%m-%dT%H:%M:%SZ") in planned
    with pytest.raises(NoCapacity, match="can't be used now") as caught:
        checked()
    assert "scheduled, from " in str(caught.value.given)
    reserve(BLOCK)
    assert checked() == []


def test_the_last_half_hour_of_a_block_is_over(reserve: Any) -> None:
    late = datetime.datetime.now(datetime.UTC) + 0.4 * HOUR
    reserve(replace(BLOCK, ends=late))
    with pytest.raises(NoCapacity, match="can't be used now"):
        checked()
    # Only a block's hosts end before it.
    reserve(replace(ONE, ends=late))
    assert checked() == []


def test_one_that_no_longer_fits_the_plan_is_refused(reserve: Any) -> None:
    for changed in ({"instance_type": "m5.large"}, {"zone": A}):
        reserve(replace(ONE, **changed))
        with pytest.raises(InvalidInput, match="other machines than cluster 'etl'") as caught:
            checked()
        assert caught.value.allowed == f"m5.xlarge in {B}"
        assert "--refresh etl" in str(caught.value.advice)


def test_what_is_said_of_a_choice() -> None:
    reserved = Reserved("cluster.capacity_reservation", ID, (ONE, replace(ONE, zone=A)))
    assert (reserved.zones, reserved.types, reserved.is_firm) == ({A, B}, ("m5.xlarge",), True)
    assert "2 of 4 m5.xlarge free in us-east-1b" in reserved.given
    assert resolve_hardware.ZONE == "zone"


@pytest.mark.parametrize(
    ("target", "code", "problem"),
    [
        (ID, "InvalidCapacityReservationId.NotFound", "no such capacity reservation"),
        (GROUP, "NotFoundException", "no such resource group"),
    ],
)
def test_what_is_not_there_is_named(target: str, code: str, problem: str) -> None:
    def absent(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "Describe")

    paginator = SimpleNamespace(paginate=absent)
    client = SimpleNamespace(get_paginator=lambda _: paginator, can_paginate=lambda _: True)
    aws: Any = SimpleNamespace(region="us-east-1", client=lambda _: client)
    with pytest.raises(InvalidInput, match=problem) as caught:
        reservations.read_reservations(aws, target, "cluster.capacity_reservation")
    assert target in str(caught.value.given)
