"""A cluster's zone, from settings to a lock."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._catalog.instance_types.zones import ZoneEvidence
from terradask._common.progress import Message, Warned
from terradask._synthesis import resolve_hardware
from terradask._synthesis.resolve_cluster import Place, resolve_cluster, still_holds
from terradask.errors import InvalidInput
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from .hardware_facts import catalog, prices
from .zone_facts import TYPES, ZONES, A, B, C, failed_in, usd_of


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What AWS tells of zones, which a test may change, and how often it was asked."""
    found: dict[str, Any] = {"evidence": ZoneEvidence(), "asked": []}

    def look(_aws: Aws, workspace: str, spot_types: Any) -> ZoneEvidence:
        found["asked"].append((workspace, sorted(set(spot_types))))
        evidence: ZoneEvidence = found["evidence"]
        return evidence

    monkeypatch.setattr(resolve_hardware, "read_zone_evidence", look)
    monkeypatch.setattr(resolve_hardware, "priced_catalog", lambda _aws: (catalog(), prices()))
    monkeypatch.setattr(resolve_hardware, "fetch_catalog", lambda _aws, _names: catalog())
    return found


def _resolve(
    lock: ClusterLock | None = None,
    *,
    zones: tuple[str, ...] = ZONES,
    refresh: bool = False,
    **settings: Any,
) -> ClusterLock:
    place = Place(
        "123456789012", "aws", frozenset(zones), frozenset({"x86_64"}), workspace="default"
    )
    return resolve_cluster(
        ClusterSettings.model_validate(settings), place, Aws("us-east-1"), lock, refresh=refresh
    )


def test_another_zone_is_taken_by_a_new_plan_alone(known: dict[str, Any]) -> None:
    lock = _resolve()
    assert (lock.zone, lock.worker_zones) == (A, {})
    assert lock.reasons["zone"] == "us-east-1a: as good as us-east-1b, and first by name"
    assert known["asked"] == [("default", [])]
    known["evidence"] = ZoneEvidence((failed_in(A),))
    assert _resolve(lock) is lock
    # What else is asked doesn't move a cluster, and asks nobody.
    assert _resolve(lock, worker_cpu=8).zone == A
    assert len(known["asked"]) == 1
    anew = _resolve(lock, refresh=True)
    assert anew.zone == B
    assert "us-east-1a has refused launches recently" in anew.reasons["zone"]
    assert _resolve(None).zone == B


def test_spot_prices_are_asked_for_the_types_on_spot(known: dict[str, Any]) -> None:
    known["evidence"] = ZoneEvidence(spot_usd=usd_of(a="0.08", b="0.07", c="0.06"))
    assert _resolve(worker_vm_types=list(TYPES), spot_policy="spot_with_fallback").zone == C
    assert known["asked"] == [("default", sorted(TYPES))]
    assert _resolve(worker_vm_types=list(TYPES)).zone == A


def test_the_first_zone_where_none_shall_be_chosen(known: dict[str, Any]) -> None:
    known["evidence"] = ZoneEvidence((failed_in(A),))
    lock = _resolve(use_best_zone=False)
    assert (lock.zone, lock.zone_is_default) == (A, True)
    assert "cluster.use_best_zone is false" in lock.reasons["zone"]
    assert known["asked"] == []
    assert _resolve(lock, use_best_zone=False) is lock
    # A zone that the network gets later doesn't move it.
    later = Place("123456789012", "aws", frozenset({"us-east-1", *ZONES}), frozenset({"x86_64"}))
    assert still_holds(lock, ClusterSettings(use_best_zone=False), later)
    chosen = _resolve(zone_name=C)
    assert _resolve(chosen, use_best_zone=False).zone == A
    assert (
        _resolve(use_best_zone=False, zone_name=C).reasons["zone"]
        == "us-east-1c: named by cluster.zone_name"
    )


def test_workers_in_all_zones_that_offer_their_types_and_the_scheduler_in_one(
    known: dict[str, Any],
) -> None:
    old = "us-east-1e"
    known["evidence"] = ZoneEvidence((failed_in(A),))
    groups = {"old": {"vm_types": ["m3.xlarge"]}}
    lock = _resolve(zones=(*ZONES, old), allow_cross_zone=True, worker_groups=groups)
    having = sorted(zone for zone in (*ZONES, old) if "m3.xlarge" in catalog().zones[zone])
    assert lock.zone == B
    assert lock.worker_zones == {"workers": list(ZONES), "old": having}
    assert old in having
    assert _resolve(lock, zones=(*ZONES, old), allow_cross_zone=True, worker_groups=groups) is lock
    assert (
        _resolve(lock, zones=(*ZONES, old), worker_groups=groups, worker_cpu=4).worker_zones == {}
    )
    # A zone that is gone from the network can't be planned in.
    assert (
        _resolve(lock, zones=ZONES, allow_cross_zone=True, worker_groups=groups).worker_zones["old"]
        == having[:-1]
    )
    named = _resolve(zones=(*ZONES, old), allow_cross_zone=True, zone_name=C)
    assert (named.zone, named.worker_zones["workers"]) == (C, list(ZONES))


def test_progress_tells_the_zone_and_what_was_left_out(known: dict[str, Any]) -> None:
    known["evidence"] = ZoneEvidence(notes=("spot prices aren't considered: no",))
    told: list[object] = []
    place = Place(
        "123456789012", "aws", frozenset(ZONES), frozenset({"x86_64"}), workspace="default"
    )
    resolve_cluster(ClusterSettings(), place, Aws("us-east-1"), progress=told.append)
    assert told == [
        Warned("spot prices aren't considered: no"),
        Message("zone: us-east-1a: as good as us-east-1b, and first by name"),
    ]


@pytest.mark.parametrize(
    ("is_given", "says"),
    [(False, "add it to network.zones"), (True, 'add a table [network.subnets."us-east-1f"]')],
)
def test_a_zone_without_a_subnet_says_how_it_gets_one(is_given: bool, says: str) -> None:
    place = Place("123456789012", "aws", frozenset(ZONES), frozenset({"x86_64"}), given=is_given)
    with pytest.raises(InvalidInput) as caught:
        resolve_cluster(ClusterSettings(zone_name="us-east-1f"), place, Aws("us-east-1"))
    assert says in str(caught.value.advice)
    assert caught.value.allowed == ", ".join(ZONES)
