"""Which zone a cluster gets: what zones offer, what failed there lately, what spot costs; and workers in all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from terradask._aws.launch_problem import LaunchProblem
from terradask._aws.session import Aws
from terradask._common.progress import Message
from terradask._instance_types.choice import Choice
from terradask._instance_types.choose import choose
from terradask._instance_types.zone_evidence import ZoneEvidence, ZoneFailure
from terradask._instance_types.zones import ZoneOffer, rank_zones, why_best
from terradask._pricing.products import Reading
from terradask._stacks import resolve_hardware, zone_lookup
from terradask._stacks.resolve_cluster import Place, resolve_cluster, still_holds
from terradask._stacks.zone_lookup import LOOKED_BACK, look_at_zones, read_failures
from terradask.errors import AccessDenied, UnknownZone
from terradask_stacks.hardware.request import HardwareRequest
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from .hardware_facts import catalog, prices

A, B, C = ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
#: Named types are usable where all of them are.
TYPES = ("m6i.xlarge", "m5.xlarge", "m6a.xlarge")
ON_DEMAND, SPOT, BOTH = frozenset({"on-demand"}), frozenset({"spot"}), frozenset({"spot", "on-demand"})
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

NO_CAPACITY = LaunchProblem("InsufficientInstanceCapacity", "none", "m6i.xlarge")
NO_SPOT = LaunchProblem("UnfulfillableCapacity", "none")
NO_QUOTA = LaunchProblem("VcpuLimitExceeded", "too many")
NO_ADDRESS = LaunchProblem("InsufficientFreeAddressesInSubnet", "none free")


def _choice(*names: str) -> Choice:
    return choose(HardwareRequest.of(cpu=4, memory="16 GiB"), catalog(), prices()) if not names else _of(names)


def _of(names: tuple[str, ...]) -> Choice:
    """An ask of which these types, in this order, came out."""
    named = choose(HardwareRequest.of(vm_types=list(names)), catalog())
    return replace(named, request=HardwareRequest.of(cpu=4))


def _catalog(**offered: tuple[str, ...]) -> Any:
    return replace(catalog(), zones={f"us-east-1{zone}": frozenset(names) for zone, names in offered.items()})


def _failed(zone: str, problem: LaunchProblem = NO_CAPACITY, market: Any = "on-demand") -> ZoneFailure:
    return ZoneFailure(zone, market, problem)


def _usd(**each: str) -> dict[str, dict[str, Decimal]]:
    return {f"us-east-1{zone}": {name: Decimal(usd) for name in TYPES} for zone, usd in each.items()}


def _order(offers: list[ZoneOffer]) -> str:
    return "".join(offer.zone[-1] for offer in offers if offer.usable)


# ---- ranking --------------------------------------------------------------------------------------------------------

SAME = {"a": TYPES, "b": TYPES, "c": TYPES}


@pytest.mark.parametrize(
    ("offered", "market", "evidence", "order", "why"),
    [
        (SAME, ON_DEMAND, ZoneEvidence(), "abc", "as good as us-east-1b, and before it by name"),
        ({"a": TYPES[1:], "b": TYPES[:1], "c": TYPES}, ON_DEMAND, ZoneEvidence(), "cba", "it has more of the types"),
        ({"a": TYPES[1:], "b": TYPES[:1]}, ON_DEMAND, ZoneEvidence(), "ba", "it has the first type of more groups"),
        ({"a": (), "b": TYPES}, ON_DEMAND, ZoneEvidence(), "b", "the only one of 2 zones that has the types"),
        ({"a": TYPES}, ON_DEMAND, ZoneEvidence(), "a", "the only zone"),
        # A launch that failed weighs more than what a zone offers.
        (
            {"a": TYPES, "b": TYPES[1:]},
            ON_DEMAND,
            ZoneEvidence((_failed(A),)),
            "ba",
            "no launch has failed here lately; "
            "us-east-1a has refused launches lately (InsufficientInstanceCapacity: m6i.xlarge, on demand)",
        ),
        (SAME, ON_DEMAND, ZoneEvidence((_failed(A), _failed(A), _failed(B), _failed(B, NO_ADDRESS), _failed(C))), "acb", None),
        # Of another market, of another type, of the whole region: nothing that would happen again there and not elsewhere.
        (SAME, ON_DEMAND, ZoneEvidence((_failed(A, NO_SPOT, "spot"),)), "abc", None),
        (SAME, SPOT, ZoneEvidence((_failed(A),)), "abc", None),
        (SAME, ON_DEMAND, ZoneEvidence((_failed(A, replace(NO_CAPACITY, instance_type="p5.48xlarge")),)), "abc", None),
        (SAME, ON_DEMAND, ZoneEvidence((_failed(A, NO_QUOTA),)), "abc", None),
        (SAME, SPOT, ZoneEvidence((_failed(A, NO_SPOT, "spot"), _failed(B, NO_ADDRESS))), "cab", None),
        # Prices count for who is on spot alone.
        (
            SAME,
            SPOT,
            ZoneEvidence(spot_usd=_usd(a="0.08", b="0.06", c="0.07")),
            "bca",
            "the cheapest on spot, 0.0600 US dollars an hour for a worker of each group, 0.0700 in us-east-1c",
        ),
        (SAME, ON_DEMAND, ZoneEvidence(spot_usd=_usd(a="0.08", b="0.06", c="0.07")), "abc", None),
        (SAME, BOTH, ZoneEvidence(spot_usd=_usd(a="0.08", c="0.07")), "cab", None),
        (SAME, SPOT, ZoneEvidence((_failed(B, NO_SPOT, "spot"),), _usd(a="0.08", b="0.06", c="0.07")), "cab", None),
        # A zone with one pool is no bargain.
        ({"a": TYPES[:1], "b": TYPES}, SPOT, ZoneEvidence(spot_usd=_usd(a="0.01", b="0.06")), "ba", "it has more types on spot"),
    ],
)
def test_zones_are_ranked_by_what_is_known_of_them(
    offered: dict[str, tuple[str, ...]], market: Any, evidence: ZoneEvidence, order: str, why: str | None
) -> None:
    offers = rank_zones(_catalog(**offered), [_of(TYPES)], markets=[market], evidence=evidence)
    assert _order(offers) == order
    if why is not None:
        assert why_best(offers, offers[0].zone) == why


def test_a_zone_in_which_everything_fails_is_taken_with_a_word() -> None:
    offers = rank_zones(_catalog(a=TYPES, b=()), [_of(TYPES)], evidence=ZoneEvidence((_failed(A),)))
    assert "launches failed here lately as well (InsufficientInstanceCapacity" in why_best(offers, A)


FAILURES = st.builds(
    ZoneFailure,
    st.sampled_from(ZONES),
    st.sampled_from(["on-demand", "spot"]),
    st.sampled_from([NO_CAPACITY, NO_SPOT, NO_QUOTA, NO_ADDRESS]),
)
OFFERED = st.fixed_dictionaries({zone[-1]: st.sets(st.sampled_from(TYPES)).map(tuple) for zone in ZONES})
USD = st.dictionaries(st.sampled_from(ZONES), st.dictionaries(st.sampled_from(TYPES), st.decimals("0.01", "9", places=2)))


@given(OFFERED, st.lists(FAILURES, max_size=6), USD, st.sampled_from([ON_DEMAND, SPOT, BOTH]), st.permutations(ZONES))
def test_the_best_zone_is_usable_the_same_each_time_and_least_refused(
    offered: dict[str, tuple[str, ...]], failures: list[ZoneFailure], usd: Any, market: Any, zones: list[str]
) -> None:
    choices, evidence = [_of(TYPES), _of(TYPES[1:])], ZoneEvidence(tuple(failures), usd)
    offers = rank_zones(_catalog(**offered), choices, zones, markets=[market, ON_DEMAND], evidence=evidence)
    shuffled = ZoneEvidence(tuple(reversed(failures)), dict(reversed(usd.items())))
    again = rank_zones(_catalog(**dict(reversed(offered.items()))), choices, zones, markets=[market, ON_DEMAND], evidence=shuffled)
    assert [offer.zone for offer in again] == [offer.zone for offer in offers]
    assert sorted(offer.zone for offer in offers) == sorted(ZONES)
    usable = [offer for offer in offers if offer.usable]
    assert offers[: len(usable)] == usable
    assert [len(offer.failures) for offer in usable] == sorted(len(offer.failures) for offer in usable)
    assert all(why_best(offers, offer.zone) for offer in usable)


# ---- what AWS tells -------------------------------------------------------------------------------------------------


def _activity(group: str = "terradask-default-etl-workers", zone: str = A, **other: Any) -> dict[str, Any]:
    text = "We currently do not have sufficient m6i.xlarge capacity in the Availability Zone you requested (us-east-1a)."
    return {
        "AutoScalingGroupName": group,
        "StatusCode": "Failed",
        "StatusMessage": text,
        "StartTime": NOW,
        "Details": json.dumps({"Subnet ID": "subnet-1", "Availability Zone": zone}),
        **other,
    }


def test_failures_are_read_from_the_activities_of_the_workspaces_groups() -> None:
    activities = [
        _activity(),
        _activity("terradask-default-old-gpu-spot", B, AutoScalingGroupState="Deleted"),
        _activity("terradask-other-etl-workers"),
        _activity("web"),
        _activity(StatusCode="Successful", StatusMessage=None),
        _activity(StatusCode="Failed", StatusMessage=""),
        _activity(StartTime=NOW - LOOKED_BACK - timedelta(seconds=1)),
        _activity(Details="no JSON"),
        _activity(Details=None),
        _activity(Details="[]"),
    ]
    found = list(read_failures(activities, "default", NOW - LOOKED_BACK))
    assert [(one.zone, one.market, one.problem.code, one.problem.instance_type) for one in found] == [
        (A, "on-demand", "InsufficientInstanceCapacity", "m6i.xlarge"),
        (B, "spot", "InsufficientInstanceCapacity", "m6i.xlarge"),
    ]


class _Autoscaling:
    """Answers with as many pages as there are, and one more."""

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuses = refuses

    def describe_scaling_activities(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if self.refuses:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeScalingActivities")
        return {"Activities": [_activity(StartTime=datetime.now(UTC))], "NextToken": "more"}


def _aws(monkeypatch: pytest.MonkeyPatch, client: _Autoscaling) -> Aws:
    aws = Aws("us-east-1")
    monkeypatch.setattr(aws, "client", lambda _name: client)
    return aws


def test_two_pages_are_read_and_prices_of_what_is_on_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = _Autoscaling(), []

    def spot(_aws: Aws, _now: datetime, types: list[str]) -> dict[str, dict[str, Reading]]:
        asked.append(types)
        return {A: {"m5.large": Reading(Decimal("0.03")), "m6i.large": Reading(problem="none")}}

    monkeypatch.setattr(zone_lookup, "fetch_region_spot_prices", spot)
    found = look_at_zones(_aws(monkeypatch, client), "default", ["m6i.large", "m5.large", "m5.large"])
    assert ([one.zone for one in found.failures], found.notes) == ([A, A], ())
    assert found.spot_usd == {A: {"m5.large": Decimal("0.03")}}
    assert asked == [["m5.large", "m6i.large"]]
    assert [call.get("NextToken") for call in client.asked] == [None, "more"]
    assert all(call["IncludeDeletedGroups"] and call["Filters"][0]["Name"] == "StartTimeLowerBound" for call in client.asked)
    look_at_zones(_aws(monkeypatch, client), "default", [])
    assert len(asked) == 1


def test_what_the_caller_may_not_see_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise AccessDenied("ec2:DescribeSpotPriceHistory", "no")

    monkeypatch.setattr(zone_lookup, "fetch_region_spot_prices", refused)
    found = look_at_zones(_aws(monkeypatch, _Autoscaling(refuses=True)), "default", ["m5.large"])
    assert (found.failures, found.spot_usd) == ((), {})
    assert [note.partition(":")[0] for note in found.notes] == [
        "launches that failed lately aren't considered",
        "spot prices aren't considered",
    ]


# ---- from settings to a lock ----------------------------------------------------------------------------------------


def _of_zones(zones: Any) -> Any:
    return replace(catalog(), zones={zone: catalog().zones[zone] for zone in zones})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What AWS tells of zones, which a test may change, and how often it was asked."""
    found: dict[str, Any] = {"evidence": ZoneEvidence(), "asked": []}

    def look(_aws: Aws, workspace: str, spot_types: Any) -> ZoneEvidence:
        found["asked"].append((workspace, sorted(set(spot_types))))
        evidence: ZoneEvidence = found["evidence"]
        return evidence

    monkeypatch.setattr(resolve_hardware, "look_at_zones", look)
    monkeypatch.setattr(resolve_hardware, "priced_catalog", lambda _aws: (catalog(), prices()))
    monkeypatch.setattr(resolve_hardware, "named_catalog", lambda _aws, _named, _default, zones: _of_zones(zones))
    return found


def _resolve(lock: ClusterLock | None = None, *, zones: tuple[str, ...] = ZONES, refresh: bool = False, **settings: Any) -> ClusterLock:
    place = Place("123456789012", "aws", frozenset(zones), frozenset({"x86_64"}), workspace="default")
    return resolve_cluster(ClusterSettings.model_validate(settings), place, Aws("us-east-1"), lock, refresh=refresh)


def test_another_zone_is_taken_by_a_new_plan_alone(known: dict[str, Any]) -> None:
    lock = _resolve()
    assert (lock.zone, lock.worker_zones) == (A, {})
    assert lock.reasons["zone"] == "us-east-1a: as good as us-east-1b, and before it by name"
    assert known["asked"] == [("default", [])]
    known["evidence"] = ZoneEvidence((_failed(A),))
    assert _resolve(lock) is lock
    # What else is asked doesn't move a cluster, and asks nobody.
    assert _resolve(lock, worker_cpu=8).zone == A
    assert len(known["asked"]) == 1
    anew = _resolve(lock, refresh=True)
    assert anew.zone == B
    assert "us-east-1a has refused launches lately" in anew.reasons["zone"]
    assert _resolve(None).zone == B


def test_spot_prices_are_asked_for_the_types_on_spot(known: dict[str, Any]) -> None:
    known["evidence"] = ZoneEvidence(spot_usd=_usd(a="0.08", b="0.07", c="0.06"))
    assert _resolve(worker_vm_types=list(TYPES), spot_policy="spot_with_fallback").zone == C
    assert known["asked"] == [("default", sorted(TYPES))]
    assert _resolve(worker_vm_types=list(TYPES)).zone == A


def test_the_first_zone_where_none_shall_be_chosen(known: dict[str, Any]) -> None:
    known["evidence"] = ZoneEvidence((_failed(A),))
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
    assert _resolve(use_best_zone=False, zone_name=C).reasons["zone"] == "us-east-1c: named by cluster.zone_name"


def test_workers_in_all_zones_that_offer_their_types_and_the_scheduler_in_one(known: dict[str, Any]) -> None:
    old = "us-east-1e"
    known["evidence"] = ZoneEvidence((_failed(A),))
    groups = {"old": {"vm_types": ["m3.xlarge"]}}
    lock = _resolve(zones=(*ZONES, old), allow_cross_zone=True, worker_groups=groups)
    having = sorted(zone for zone in (*ZONES, old) if "m3.xlarge" in catalog().zones[zone])
    assert lock.zone == B
    assert lock.worker_zones == {"workers": list(ZONES), "old": having}
    assert old in having
    assert _resolve(lock, zones=(*ZONES, old), allow_cross_zone=True, worker_groups=groups) is lock
    assert _resolve(lock, zones=(*ZONES, old), worker_groups=groups, worker_cpu=4).worker_zones == {}
    # A zone that is gone from the network can't be planned in.
    assert _resolve(lock, zones=ZONES, allow_cross_zone=True, worker_groups=groups).worker_zones["old"] == having[:-1]
    named = _resolve(zones=(*ZONES, old), allow_cross_zone=True, zone_name=C)
    assert (named.zone, named.worker_zones["workers"]) == (C, list(ZONES))


def test_progress_tells_the_zone_and_what_was_left_out(known: dict[str, Any]) -> None:
    known["evidence"] = ZoneEvidence(notes=("spot prices aren't considered: no",))
    told: list[object] = []
    place = Place("123456789012", "aws", frozenset(ZONES), frozenset({"x86_64"}), workspace="default")
    resolve_cluster(ClusterSettings(), place, Aws("us-east-1"), progress=told.append)
    texts = [one.text for one in told if isinstance(one, Message)]
    assert texts == ["spot prices aren't considered: no", "zone: us-east-1a: as good as us-east-1b, and before it by name"]


@pytest.mark.parametrize(("is_given", "says"), [(False, "add it to network.zones"), (True, 'add a table [network.subnets."us-east-1f"]')])
def test_a_zone_without_a_subnet_says_how_it_gets_one(is_given: bool, says: str) -> None:
    place = Place("123456789012", "aws", frozenset(ZONES), frozenset({"x86_64"}), given=is_given)
    with pytest.raises(UnknownZone) as caught:
        resolve_cluster(ClusterSettings(zone_name="us-east-1f"), place, Aws("us-east-1"))
    assert says in str(caught.value.advice)
    assert caught.value.allowed == ", ".join(ZONES)
