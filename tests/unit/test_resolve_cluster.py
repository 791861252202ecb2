"""A cluster's locked answers: types and a zone, and what was asked. AWS is a catalog of what it has
answered.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from terradask._aws.session import Aws
from terradask._common.progress import Message
from terradask._synthesis import resolve_hardware
from terradask._synthesis.resolve_cluster import Place, resolve_cluster
from terradask._synthesis.resolve_hardware import find_hardware
from terradask.errors import InvalidInput, NoMatchingType
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.settings.hardware import DEFAULT_INSTANCE_TYPES

from .hardware_facts import catalog, prices

A, B, OLD = "us-east-1a", "us-east-1b", "us-east-1e"


class Asked:
    """Answers like AWS, and notes what for."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.prices = dict(prices())

    def named(self, _aws, wanted):
        self.calls.append("names")
        known = catalog()
        types = {name: one for name, one in known.types.items() if name in wanted}
        offered = {zone: known.zones[zone] & wanted for zone in known.zones}
        return replace(known, types=types, zones=offered)

    def everything(self, _aws):
        self.calls.append("catalog")
        return catalog(), self.prices


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(resolve_hardware, "fetch_catalog", found.named)
    monkeypatch.setattr(resolve_hardware, "priced_catalog", found.everything)
    return found


def _place(*zones: str) -> Place:
    return Place("123456789012", "aws", frozenset(zones or (A, B)), frozenset({"x86_64"}))


def _resolve(
    lock: ClusterLock | None = None,
    place: Place | None = None,
    *,
    refresh: bool = False,
    **settings,
) -> ClusterLock:
    cluster = ClusterSettings.model_validate(settings)
    return resolve_cluster(cluster, place or _place(), Aws("us-east-1"), lock, refresh=refresh)


# ---- by name -------------------------------------------------------------------------------------


def test_who_asks_for_nothing_gets_the_default_without_the_catalog(asked: Asked):
    lock = _resolve()
    assert (
        lock.worker_instance_types == lock.scheduler_instance_types == list(DEFAULT_INSTANCE_TYPES)
    )
    assert (lock.account, lock.zone, lock.asked) == (
        "123456789012",
        A,
        {"workers": {}, "scheduler": {}},
    )
    assert "4 cores and 16 GiB" in lock.reasons["workers"]
    assert asked.calls == ["names"]


def test_the_defaults_are_four_cores_and_sixteen_gib():
    types = [catalog().types[name] for name in DEFAULT_INSTANCE_TYPES]
    assert {(one.vcpus, one.memory_gib, one.architecture) for one in types} == {(4, 16, "x86_64")}


def test_named_types_are_taken_as_they_are(asked: Asked):
    lock = _resolve(worker_vm_types=["r6i.large", "m6i.large"])
    assert lock.worker_instance_types == ["r6i.large", "m6i.large"]
    assert lock.scheduler_instance_types == list(DEFAULT_INSTANCE_TYPES)
    assert asked.calls == ["names"]


def test_the_zone_is_one_that_has_them(asked: Asked):
    assert _resolve(place=_place(OLD, "us-east-1f")).zone == "us-east-1f"
    assert _resolve(zone_name=B).zone == B
    with pytest.raises(InvalidInput, match=f"allowed: {A}"):
        _resolve(place=_place(A), zone_name=B)
    with pytest.raises(NoMatchingType, match=f"{OLD} doesn't offer"):
        _resolve(place=_place(A, OLD), zone_name=OLD, worker_vm_types=["m6i.xlarge"])


def test_no_zone_has_all(asked: Asked):
    with pytest.raises(NoMatchingType, match=f"{OLD} lacks m6i.large; us-east-1f lacks m3.xlarge"):
        _resolve(
            place=_place(OLD, "us-east-1f"),
            worker_vm_types=["m3.xlarge"],
            scheduler_vm_types=["m6i.large"],
        )


def test_a_zone_without_the_default_says_what_to_name(asked: Asked):
    with pytest.raises(NoMatchingType, match=r"m4\.xlarge"):
        _resolve(place=_place(OLD))
    assert asked.calls == ["names", "catalog"]


# ---- by what they have ---------------------------------------------------------------------------


def test_what_is_asked_is_chosen_by_price_and_locked_with_the_ask(asked: Asked):
    lock = _resolve(worker_cpu=1, worker_memory="8GiB", scheduler_memory="8 GiB")
    first = catalog().types[lock.worker_instance_types[0]]
    assert (first.vcpus, first.memory_gib) == (1, 8)
    assert lock.asked == {
        "workers": {"worker_cpu": 1, "worker_memory": "8 GiB"},
        "scheduler": {"scheduler_memory": "8 GiB"},
    }
    assert catalog().types[lock.scheduler_instance_types[0]].memory_gib == 8
    assert lock.reasons["workers"].startswith(f"{lock.worker_instance_types[0]}")
    assert asked.calls == ["catalog"]


def test_new_prices_change_nothing_until_somebody_asks_anew(asked: Asked):
    lock = _resolve(worker_cpu=8)
    cheap = next(name for name in reversed(lock.worker_instance_types))
    asked.prices[cheap] = Decimal("0.0001")
    asked.calls.clear()
    assert _resolve(lock, worker_cpu=8) is lock
    assert (
        _resolve(ClusterLock.model_validate_json(lock.model_dump_json()), worker_cpu=[8, 8]).zone
        == lock.zone
    )
    assert asked.calls == []
    assert _resolve(lock, worker_cpu=8, refresh=True).worker_instance_types[0] == cheap
    assert _resolve(lock, worker_cpu=[4, 8]).asked != lock.asked


def test_the_zone_stays_where_the_cluster_is(asked: Asked):
    lock = _resolve(zone_name=B)
    assert _resolve(lock, worker_vm_types=["m6i.2xlarge"]).zone == B
    assert _resolve(lock, worker_cpu=8).zone == B
    assert _resolve(lock, refresh=True).zone == A
    assert _resolve(lock, _place(A)).zone == A


def test_workers_with_gpus_give_the_scheduler_one(asked: Asked):
    for said in ({"worker_gpu": True}, {"worker_vm_types": ["g5.xlarge"]}):
        lock = _resolve(**said)
        assert catalog().types[lock.scheduler_instance_types[0]].gpus.name == "T4"
    without = _resolve(worker_gpu=1, scheduler_gpu=False)
    assert without.scheduler_instance_types == list(DEFAULT_INSTANCE_TYPES)
    plain = _resolve(worker_gpu=1, scheduler_vm_types=["m6i.large"])
    assert plain.scheduler_instance_types == ["m6i.large"]


def test_which_types_have_gpus_is_locked_and_written_only_where_some_have(asked: Asked):
    lock = _resolve(worker_groups={"gpu": {"vm_types": ["g4dn.12xlarge", "g6f.large"]}})
    assert lock.gpus == {"g4dn.12xlarge": 4, "g6f.large": 1}
    assert ClusterLock.model_validate(lock.model_dump(mode="json")) == lock
    assert not {"gpus", "gpu_image"} & _resolve().model_dump(mode="json").keys()


def test_the_worked_example_of_an_ask_that_nothing_meets(asked: Asked):
    with pytest.raises(NoMatchingType) as caught:
        _resolve(worker_memory="32GiB", worker_cpu=1)
    assert any(one["change"].get("worker_cpu") for one in caught.value.alternatives)
    assert "worker_cpu" in str(caught.value)


def test_workers_on_spot_have_types_that_are_sold_so(asked: Asked):
    lock = _resolve(worker_cpu=8, spot_policy="spot_with_fallback")
    assert all(catalog().types[name].spot for name in lock.worker_instance_types)
    assert lock.asked == {
        "workers": {"worker_cpu": 8, "spot_policy": "spot_with_fallback"},
        "scheduler": {},
    }
    asked.calls.clear()
    assert _resolve(lock, worker_cpu=8, spot_policy="spot_with_fallback") is lock
    assert asked.calls == []
    with pytest.raises(NoMatchingType, match="on spot"):
        _resolve(worker_vm_types=["u-3tb1.56xlarge"], spot_policy="spot")


def test_hosts_in_a_placement_group_have_types_that_can_be(asked: Asked):
    assert _resolve(worker_memory="1 GiB").worker_instance_types[0].startswith("t3")
    with pytest.raises(
        NoMatchingType, match="placement_group=True, which allows no burstable types; worker_memory"
    ) as caught:
        _resolve(worker_memory="1 GiB", placement_group=True)
    assert not any(
        name.startswith("t") for one in caught.value.alternatives for name in one["types"]
    )
    placed = _resolve(worker_cpu=4, placement_group=True)
    assert placed.asked == {
        "workers": {"worker_cpu": 4, "placement_group": True},
        "scheduler": {"placement_group": True},
    }
    asked.calls.clear()
    assert _resolve(placed, worker_cpu=4, placement_group=True) is placed
    assert asked.calls == []
    assert _resolve(placed, worker_cpu=4) is not placed
    assert _resolve(placement_group=True).worker_instance_types == list(DEFAULT_INSTANCE_TYPES)


def test_a_named_type_that_can_be_in_no_placement_group_is_refused(asked: Asked):
    with pytest.raises(InvalidInput, match="in a cluster placement group") as caught:
        _resolve(
            worker_groups={"small": {"vm_types": ["m6i.large", "t3.medium"]}}, placement_group=True
        )
    assert caught.value.given == (
        "placement_group = true, worker_groups.small.vm_types = t3.medium"
    )


def test_asking_for_no_gpu_is_asking_for_nothing(asked: Asked):
    assert _resolve(worker_gpu=0, scheduler_gpu=0).worker_instance_types == list(
        DEFAULT_INSTANCE_TYPES
    )
    assert asked.calls == ["names"]


def test_progress_says_why(asked: Asked):
    told: list[object] = []
    resolve_cluster(ClusterSettings(worker_cpu=8), _place(), Aws("us-east-1"), progress=told.append)
    texts = [one.text for one in told if isinstance(one, Message)]
    assert any(text.startswith("workers: ") and "for 8 cores" in text for text in texts)
    assert not any(text.startswith("scheduler: ") for text in texts)


def test_all_zones_where_no_network_is_known(asked: Asked):
    found = find_hardware(
        ClusterSettings(worker_cpu=8), (), Aws("us-east-1"), progress=lambda _: None
    )
    assert found.zone in catalog().zones


# ---- groups of workers ---------------------------------------------------------------------------


def test_each_group_has_types_of_its_own_and_the_scheduler_follows_the_one_without_a_name(
    asked: Asked,
):
    groups = {"gpu": {"gpu": 1}, "big": {"vm_types": ["r6i.2xlarge"], "spot_policy": "spot"}}
    lock = _resolve(worker_groups=groups)
    assert (
        lock.worker_instance_types == lock.scheduler_instance_types == list(DEFAULT_INSTANCE_TYPES)
    )
    assert lock.group_instance_types["big"] == ["r6i.2xlarge"]
    assert all(catalog().types[name].gpus for name in lock.group_instance_types["gpu"])
    assert lock.asked == {
        "workers": {},
        "scheduler": {},
        "gpu": {"worker_groups.gpu.gpu": 1},
        "big": {"worker_groups.big.vm_types": ["r6i.2xlarge"], "spot_policy": "spot"},
    }
    assert _resolve(lock, worker_groups=groups) is lock
    assert _resolve(lock, worker_groups={"gpu": groups["gpu"]}).group_instance_types.keys() == {
        "gpu"
    }


def test_types_with_gpus_in_a_group_with_a_name_take_no_catalog(asked: Asked):
    _resolve(worker_groups={"gpu": {"vm_types": ["g4dn.xlarge"]}})
    assert asked.calls == ["names"]


def test_what_a_group_can_not_have_is_said_in_its_own_words(asked: Asked):
    with pytest.raises(NoMatchingType) as caught:
        _resolve(worker_groups={"big": {"memory": "32 GiB", "cpu": 1}})
    assert "worker_groups.big.cpu=" in str(caught.value)


def test_a_private_cluster_stays_its_first_callers(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = iter(
        ["arn:aws:sts::123456789012:assumed-role/science/ada", "arn:aws:iam::123456789012:user/bob"]
    )
    monkeypatch.setattr(Aws, "caller_arn", property(lambda _: next(callers)))
    first = _resolve(private_to_creator=True)
    assert first.creator == "arn:aws:iam::123456789012:role/science"
    # Whoever comes later, and whatever is chosen again.
    assert _resolve(first, private_to_creator=True).creator == first.creator
    assert _resolve(first, refresh=True, private_to_creator=True).creator == first.creator
    # In a file that others may write: nobody of another account owns a cluster of this one.
    planted = first.model_copy(update={"creator": "arn:aws:iam::999999999999:role/science"})
    with pytest.raises(InvalidInput, match="belongs to another account"):
        _resolve(planted, private_to_creator=True)
    opened = _resolve(first)
    assert opened == first.model_copy(update={"creator": None})
    assert _resolve(opened, private_to_creator=True).creator == "arn:aws:iam::123456789012:user/bob"
