"""The examples of the document that the project grew from: markets, zones, disks, and what runs on
hosts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from terradask.errors import InvalidInput
from terradask_host.agent.keys import write_keys
from terradask_host.agent.launch_documents import (
    extra_worker_document,
    scheduler_document,
    worker_document,
)
from terradask_host.config import load_config
from terradask_host.timing import Timing

from .asked_hardware import ZONES, Asked, ask, refused, stop_before_aws
from .host_facts import HOST_JSON, IDENTITY, SECRET, cluster_document, write_host_json


@pytest.fixture(autouse=True)
def _without_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop_before_aws(monkeypatch, tmp_path)


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
def test_markets_are_the_workers_and_the_scheduler_is_on_demand(
    name: str, policy: str | None, workers: dict[str, str]
) -> None:
    assert ask(**{name: policy}).markets == {"scheduler": "on-demand", **workers}


def test_both_names_of_the_market_have_to_agree() -> None:
    assert ask(spot_policy="spot", compute_purchase_option="spot").markets["workers-spot"] == "spot"
    error = refused(spot_policy="spot", compute_purchase_option="on-demand")
    assert isinstance(error, InvalidInput)
    assert "their values can't differ" in str(error)


def test_a_zone_is_that_of_all_machines() -> None:
    assert ask(backend_options={"zone_name": "us-east-1b"}).lock.zone == "us-east-1b"
    assert ask(use_best_zone=True).lock.zone in ZONES


def test_disks_are_in_gib_and_mib_a_second() -> None:
    found = ask(worker_disk_size=200, worker_disk_throughput=500, scheduler_disk_size=100).settings
    assert (found.worker_disk_size, found.worker_disk_throughput, found.scheduler_disk_size) == (
        200,
        500,
        100,
    )


# ---- workers and scheduler -----------------------------------------------------------------------


def hosts(asked: Asked, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what a host tells Dask: of a scheduler, of its workers, of the one beside the
    scheduler.
    """
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
        {
            "class": settings.worker_class,
            "options": settings.worker_options,
            "workers_per_host": settings.workers_per_host,
        },
    )
    of_scheduler = scheduler_document(
        IDENTITY,
        cluster,
        write_keys(SECRET, "scheduler", tmp_path / "scheduler"),
        {},
        Timing(),
        paths=config.paths,
    )
    rest = (
        config,
        IDENTITY,
        cluster,
        "tls://10.64.0.5:8786",
        write_keys(SECRET, "worker", tmp_path / "worker"),
    )
    return of_scheduler, worker_document(*rest), extra_worker_document(*rest)


def test_worker_class_and_scheduler_options(tmp_path: Path) -> None:
    scheduler, worker, _ = hosts(
        ask(worker_class="distributed.Worker", scheduler_options={"idle_timeout": "2 hours"}),
        tmp_path,
    )
    assert worker["class"] == "distributed.Worker"
    assert (scheduler["class"], scheduler["arguments"]["idle_timeout"]) == (
        "distributed.Scheduler",
        "2 hours",
    )


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
    assert (scheduler["class"], scheduler["arguments"]["allowed_failures"]) == (
        "distributed.scheduler.Scheduler",
        5,
    )


@pytest.mark.parametrize("name", ["_n_worker_specs_per_host", "workers_per_host"])
def test_several_workers_on_a_host(tmp_path: Path, name: str) -> None:
    _, worker, _ = hosts(ask(**{name: 2}), tmp_path)
    assert [one["nthreads"] for one in worker["workers"]] == [4, 4]


def test_both_names_of_workers_on_a_host_have_to_agree() -> None:
    assert ask(workers_per_host=2, _n_worker_specs_per_host=2).settings.workers_per_host == 2
    error = refused(workers_per_host=2, _n_worker_specs_per_host=3)
    assert isinstance(error, InvalidInput)
    assert "their values can't differ" in str(error)


def test_an_extra_worker_on_the_scheduler(tmp_path: Path) -> None:
    asked = ask(extra_worker_on_scheduler=True)
    assert asked.settings.extra_worker_on_scheduler
    assert not ask().settings.extra_worker_on_scheduler
    (one,) = hosts(asked, tmp_path)[2]["workers"]
    assert (one["name"], one["nthreads"]) == ("scheduler-i-1", 7)
