"""The worked examples about hardware of the documents that terradask was made from: what `Cluster` is given, down to Dask's options.

Arguments go the way of a real call up to AWS, which is a catalog of what it has answered.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster
from terradask._aws.session import Aws
from terradask._dask.provision import Provisioner
from terradask._deployments.documents import Descriptor, read_descriptor
from terradask._deployments.worker_counts import numbers_at_start
from terradask._instance_types.model import Catalog, Gpus, InstanceType
from terradask._stacks import resolve_hardware
from terradask._stacks.resolve_cluster import Place, resolve_cluster
from terradask.errors import ArgumentCombination, InvalidHardware, NoMatchingType, SettingsError, TerradaskError
from terradask_host.agent.keys import write_keys
from terradask_host.agent.launch_documents import extra_worker_document, scheduler_document, worker_document
from terradask_host.config import load_config
from terradask_host.timing import Timing
from terradask_stacks.groups import groups_of
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from .hardware_facts import catalog, prices
from .host_facts import HOST_JSON, IDENTITY, SECRET, cluster_document, write_host_json

ZONES = ("us-east-1a", "us-east-1b")


@dataclass
class Asked(Exception):
    """What a call came to, in place of a cluster."""

    settings: ClusterSettings
    lock: ClusterLock

    @property
    def workers(self) -> list[InstanceType]:
        """The workers' types, in order."""
        return [known().types[name] for name in self.lock.worker_instance_types]

    @property
    def scheduler(self) -> list[InstanceType]:
        """The scheduler's types, in order."""
        return [known().types[name] for name in self.lock.scheduler_instance_types]

    @property
    def markets(self) -> dict[str, str]:
        """Each Auto Scaling group's market."""
        return {group.key: group.market for group in groups_of(self.settings, self.lock)}


def known() -> Catalog:
    """The catalog, with the type of one V100 that the documents name and that the region has no longer."""
    found = catalog()
    of_v100 = found.types["p3dn.24xlarge"]
    one = replace(of_v100, name="p3.2xlarge", vcpus=8, memory_mib=61 * 1024, gpus=Gpus(1, "V100", "NVIDIA", 16384), local_disk_gb=0)
    zones = {zone: names | {one.name} for zone, names in found.zones.items()}
    return replace(found, types={**found.types, one.name: one}, zones=zones)


@pytest.fixture(autouse=True)
def _without_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(provisioner: Any) -> None:
        cluster = load_settings(tmp_path, environ={}, dask_config={}, overrides=provisioner._overrides()).settings.cluster_named("etl")
        place = Place("123456789012", "aws", frozenset(ZONES), frozenset({"x86_64", "arm64"}))
        raise Asked(cluster, resolve_cluster(cluster, place, Aws("us-east-1")))

    def named(_aws: Aws, names: set[str], default: set[str], zones: Any) -> Catalog:
        return replace(known(), zones={zone: known().zones[zone] & {*names, *default} for zone in zones})

    (tmp_path / "terradask.toml").touch()
    monkeypatch.setattr(Provisioner, "run", run)
    monkeypatch.setattr(resolve_hardware, "named_catalog", named)
    monkeypatch.setattr(resolve_hardware, "priced_catalog", lambda _aws: (known(), prices()))


def ask(**arguments: Any) -> Asked:
    with pytest.raises(Asked) as caught:
        Cluster(**arguments)
    return caught.value


def refused(**arguments: Any) -> TerradaskError:
    with pytest.raises(TerradaskError) as caught:
        Cluster(**arguments)
    return caught.value


def descriptor(asked: Asked) -> Descriptor:
    groups = {
        group.key: {"autoscaling_group": group.key, "role": group.role, "max_size": group.max_size, "market": group.market}
        | ({"worker_group": group.worker_group} if group.worker_group else {})
        for group in groups_of(asked.settings, asked.lock)
    }
    facts = {"workspace": "default", "cluster": "etl", "region": "us-east-1", "bucket": "b", "zone": asked.lock.zone, "secret_id": "s"}
    documents = {"settings": asked.settings.model_dump(mode="json"), "lock": asked.lock.model_dump(mode="json"), "worker": {}}
    return read_descriptor({"format": 1, **facts, "groups": groups, **documents})


def sizes(types: list[InstanceType]) -> set[tuple[int, float]]:
    return {(one.vcpus, one.memory_gib) for one in types}


# ---- sizes ----------------------------------------------------------------------------------------------------------


def test_two_cores_and_8_gib_beside_a_scheduler_of_16_gib() -> None:
    found = ask(n_workers=5, worker_cpu=2, worker_memory="8 GiB", scheduler_memory="16 GiB")
    assert sizes(found.workers) <= {(2, 8), (2, 7.5)}
    # Memory alone: balanced, and not the "2 CPUs (default value)" of the oldest of the documents (decision 023).
    assert sizes(found.scheduler) == {(4, 16)}
    assert numbers_at_start(descriptor(found), found.settings.n_workers, {}) == {"workers": 5}


def test_nothing_said_is_four_cores_and_16_gib_on_demand_four_workers() -> None:
    found = ask()
    assert sizes(found.workers) == sizes(found.scheduler) == {(4, 16)}
    assert all(one.gpus is None for one in (*found.workers, *found.scheduler))
    assert set(found.markets.values()) == {"on-demand"}
    assert numbers_at_start(descriptor(found), found.settings.n_workers, {}) == {"workers": 4}


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_range_of_cores(role: str) -> None:
    found = ask(**{f"{role}_cpu": [2, 8]})
    types = found.workers if role == "worker" else found.scheduler
    # All of them are in it; the cheapest count, and what costs up to twice as much.
    assert {one.vcpus for one in types} == {2}
    assert sizes(ask(worker_cpu=[2, 8], worker_memory="32 GiB").workers) <= {(4, 32), (8, 32), (4, 30.5), (8, 30.5)}


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_range_of_memory_within_a_tenth(role: str) -> None:
    found = ask(**{f"{role}_memory": ["2GiB", "4GiB"]})
    types = found.workers if role == "worker" else found.scheduler
    assert all(1.8 <= one.memory_gib <= 4.4 for one in types)


def test_32_gib_and_one_core_is_an_error_that_says_what_there_is() -> None:
    error = refused(worker_memory="32GiB", worker_cpu=1)
    assert isinstance(error, NoMatchingType)
    changes = [one["change"] for one in error.alternatives]
    # As the documents have it: "leave out the worker_cpu argument, or give us a range of acceptable core counts".
    assert {"worker_cpu": None} in changes
    (wider,) = [change["worker_cpu"] for change in changes if change.get("worker_cpu")]
    assert ask(worker_memory="32GiB", worker_cpu=wider).workers
    assert f"worker_cpu={wider!r}" in str(error)


def test_32_gib_and_one_to_eight_cores() -> None:
    found = ask(worker_memory="32GiB", worker_cpu=[1, 8])
    assert all(one.vcpus <= 8 and 28.8 <= one.memory_gib <= 35.2 for one in found.workers)
    assert sizes(ask(worker_memory="32GiB").workers) == {(8, 32)}


def test_what_is_unbalanced_takes_a_star_and_says_so() -> None:
    error = refused(worker_cpu=36)
    assert isinstance(error, NoMatchingType)
    assert error.alternatives[0]["change"] == {"worker_memory": "*"}
    assert {one.vcpus for one in ask(worker_cpu=36, worker_memory="*").workers} == {36}


def test_memory_without_its_unit() -> None:
    assert "bytes" in str(refused(worker_memory=16))
    assert sizes(ask(worker_memory=16 * 2**30).workers) == {(4, 16)}


# ---- types by name --------------------------------------------------------------------------------------------------


def test_types_by_name_are_tried_in_their_order() -> None:
    found = ask(worker_vm_types=["r6i.large", "m6i.large"], scheduler_vm_types=["m6i.large"])
    assert found.lock.worker_instance_types == ["r6i.large", "m6i.large"]
    assert found.lock.scheduler_instance_types == ["m6i.large"]


@pytest.mark.parametrize("size", [{"cpu": 4}, {"memory": "16 GiB"}])
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_types_and_sizes_together_are_an_error(role: str, size: dict[str, Any]) -> None:
    error = refused(**{f"{role}_vm_types": ["m6i.xlarge"]}, **{f"{role}_{name}": value for name, value in size.items()})
    assert isinstance(error, SettingsError)
    assert "given together" in str(error)


def test_processors_of_two_kinds_together_are_an_error() -> None:
    assert isinstance(refused(worker_vm_types=["m6i.large", "m6g.large"]), TerradaskError)


# ---- GPUs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", [{"worker_gpu": True}, {"worker_gpu": 1}, {"worker_gpu_type": "nvidia-tesla-t4"}, {"worker_gpu": 1, "worker_gpu_type": "T4"}]
)
def test_a_gpu_is_one_t4_and_the_scheduler_has_one_too(said: dict[str, Any]) -> None:
    found = ask(**said)
    for one in (*found.workers, *found.scheduler):
        assert one.gpus is not None
        assert (one.gpus.count, one.gpus.name) == (1, "T4")
    # "Limited to 4 to 8 cores when nothing else is asked."
    assert {one.vcpus for one in found.workers} == {4, 8}


@pytest.mark.parametrize("nothing", [{}, {"worker_gpu": 0}, {"worker_gpu": False}])
def test_no_gpu_by_default_and_none_for_the_scheduler(nothing: dict[str, Any]) -> None:
    found = ask(**nothing)
    assert all(one.gpus is None for one in (*found.workers, *found.scheduler))


def test_the_schedulers_gpu_can_be_left_out_or_asked_for() -> None:
    assert all(one.gpus is None for one in ask(worker_gpu=1, scheduler_gpu=False).scheduler)
    found = ask(scheduler_gpu=True)
    assert {(one.gpus.count, one.gpus.name) for one in found.scheduler if one.gpus} == {(1, "T4")}
    assert all(one.gpus is None for one in found.workers)


def test_another_gpu_by_its_instance_type_whatever_their_number_is_said_to_be() -> None:
    found = ask(worker_vm_types=["p3.2xlarge"], worker_gpu=1)
    assert [(one.name, one.gpus and one.gpus.name) for one in found.workers] == [("p3.2xlarge", "V100")]
    assert ask(worker_vm_types=["p3.2xlarge"], worker_gpu=4).lock.worker_instance_types == ["p3.2xlarge"]
    # Best practice follows the workers' types, too.
    assert {one.gpus.name for one in found.scheduler if one.gpus} == {"T4"}


def test_more_gpus_than_can_be_had_are_an_error_before_anything_is_made() -> None:
    error = refused(worker_gpu=2)
    assert isinstance(error, NoMatchingType)
    assert "1 or 4 or 8 T4 GPUs" in str(error)
    # Where a type has as many they can be had (decision 023).
    assert {one.gpus.count for one in ask(worker_gpu=4).workers if one.gpus} == {4}


def test_a_gpu_that_there_is_not_is_an_error() -> None:
    assert isinstance(refused(worker_gpu_type="nvidia-tesla-k80"), InvalidHardware)


# ---- markets, zones, disks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "workers"),
    [
        (None, {"workers": "on-demand"}),
        ("on-demand", {"workers": "on-demand"}),
        ("spot", {"workers-spot": "spot"}),
        ("spot_with_fallback", {"workers-spot": "spot", "workers": "on-demand"}),
    ],
)
@pytest.mark.parametrize("name", ["spot_policy", "compute_purchase_option"])
def test_markets_are_the_workers_and_the_scheduler_is_on_demand(name: str, policy: str | None, workers: dict[str, str]) -> None:
    assert ask(**{name: policy}).markets == {"scheduler": "on-demand", **workers}


def test_both_names_of_the_market_have_to_agree() -> None:
    assert ask(spot_policy="spot", compute_purchase_option="spot").markets["workers-spot"] == "spot"
    assert isinstance(refused(spot_policy="spot", compute_purchase_option="on-demand"), ArgumentCombination)


def test_a_zone_is_that_of_all_machines() -> None:
    assert ask(backend_options={"zone_name": "us-east-1b"}).lock.zone == "us-east-1b"
    assert ask(use_best_zone=True).lock.zone in ZONES


def test_disks_are_in_gib_and_mib_a_second() -> None:
    found = ask(worker_disk_size=200, worker_disk_throughput=500, scheduler_disk_size=100).settings
    assert (found.worker_disk_size, found.worker_disk_throughput, found.scheduler_disk_size) == (200, 500, 100)


# ---- workers and scheduler ------------------------------------------------------------------------------------------


def hosts(asked: Asked, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what a host tells Dask: of a scheduler, of its workers, of the one beside the scheduler."""
    machine = {"TERRADASK_HOST_CPU_COUNT": "8", "TERRADASK_HOST_MEMORY_BYTES": str(2**34)}
    config = load_config(write_host_json(tmp_path / "host", HOST_JSON) | machine)
    settings = asked.settings
    cluster = cluster_document(
        {
            "class": settings.scheduler_class,
            "options": settings.scheduler_options,
            "port": settings.scheduler_port,
            "dashboard_port": settings.dashboard_port,
        },
        {"class": settings.worker_class, "options": settings.worker_options, "workers_per_host": settings.workers_per_host},
    )
    of_scheduler = scheduler_document(IDENTITY, cluster, write_keys(SECRET, "scheduler", tmp_path / "scheduler"), {}, Timing())
    rest = (config, IDENTITY, cluster, "tls://10.64.0.5:8786", write_keys(SECRET, "worker", tmp_path / "worker"))
    return of_scheduler, worker_document(*rest), extra_worker_document(*rest)


def test_worker_class_and_scheduler_options(tmp_path: Path) -> None:
    scheduler, worker, _ = hosts(ask(worker_class="distributed.Worker", scheduler_options={"idle_timeout": "2 hours"}), tmp_path)
    assert worker["class"] == "distributed.Worker"
    assert (scheduler["class"], scheduler["arguments"]["idle_timeout"]) == ("distributed.Scheduler", "2 hours")


def test_by_default_a_nanny_as_large_as_the_machine(tmp_path: Path) -> None:
    scheduler, worker, _ = hosts(ask(), tmp_path)
    (one,) = worker["workers"]
    assert (worker["class"], scheduler["class"]) == ("distributed.Nanny", "distributed.Scheduler")
    assert one["nthreads"] == 8
    assert 0.96 < one["memory_limit"] / 2**34 < 1


def test_options_of_both_classes(tmp_path: Path) -> None:
    import distributed

    asked = ask(
        worker_class=distributed.Nanny,
        worker_options={"nthreads": 2, "memory_limit": "4 GiB"},
        scheduler_class="distributed.scheduler.Scheduler",
        scheduler_options={"allowed_failures": 5},
    )
    scheduler, worker, _ = hosts(asked, tmp_path)
    assert {(one["nthreads"], one["memory_limit"]) for one in worker["workers"]} == {(2, "4 GiB")}
    assert (scheduler["class"], scheduler["arguments"]["allowed_failures"]) == ("distributed.scheduler.Scheduler", 5)


@pytest.mark.parametrize("name", ["_n_worker_specs_per_host", "workers_per_host"])
def test_several_workers_on_a_host(tmp_path: Path, name: str) -> None:
    _, worker, _ = hosts(ask(**{name: 2}), tmp_path)
    assert [one["nthreads"] for one in worker["workers"]] == [4, 4]


def test_both_names_of_workers_on_a_host_have_to_agree() -> None:
    assert ask(workers_per_host=2, _n_worker_specs_per_host=2).settings.workers_per_host == 2
    assert isinstance(refused(workers_per_host=2, _n_worker_specs_per_host=3), ArgumentCombination)


def test_an_extra_worker_on_the_scheduler(tmp_path: Path) -> None:
    asked = ask(extra_worker_on_scheduler=True)
    assert asked.settings.extra_worker_on_scheduler
    assert not ask().settings.extra_worker_on_scheduler
    (one,) = hosts(asked, tmp_path)[2]["workers"]
    assert (one["name"], one["nthreads"]) == ("scheduler-i-1", 7)


# ---- all of it ------------------------------------------------------------------------------------------------------

#: The parameters of the documents that are about machines and what runs on them.
HARDWARE = """
n_workers worker_class worker_options worker_vm_types worker_cpu worker_memory worker_disk_size worker_disk_throughput worker_gpu
worker_gpu_type scheduler_class scheduler_options scheduler_vm_types scheduler_cpu scheduler_memory scheduler_disk_size scheduler_gpu
use_best_zone compute_purchase_option spot_policy extra_worker_on_scheduler _n_worker_specs_per_host backend_options
"""


def test_every_parameter_has_an_example_here() -> None:
    source = inspect.getsource(inspect.getmodule(ask))  # type: ignore[arg-type]
    examples = source.partition("# ---- all of it")[0]
    assert [name for name in HARDWARE.split() if name not in examples and name.partition("_")[2] not in examples] == []
