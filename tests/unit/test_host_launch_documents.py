"""Key files, and what the Dask process is told."""

from __future__ import annotations

import json
import stat
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask_host.agent.keys import write_keys
from terradask_host.agent.launch_documents import (
    extra_worker_document,
    prepare_document,
    scheduler_document,
    security_arguments,
    worker_document,
)
from terradask_host.config import HostConfig, Paths, load_config
from terradask_host.errors import ConfigInvalid
from terradask_host.rules.membership import Rules
from terradask_host.structure import Structure
from terradask_host.timing import Timing

from .host_facts import (
    HOST_JSON,
    IDENTITY,
    PEM,
    SECRET,
    cluster_document,
    run_document,
    write_host_json,
)

#: Where a host keeps its files.
PATHS = Paths(Path("/"))


def test_a_host_gets_its_own_keys_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "terradask"
    files = write_keys(SECRET, "worker", folder)
    write_keys(SECRET, "worker", folder)
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "worker.pem", "worker.key"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert files.key.read_text() == PEM


@pytest.mark.parametrize(
    "secret", [{}, SECRET | {"worker": None}, SECRET | {"ca": "hush"}, {**SECRET, "worker": {}}]
)
def test_a_secret_without_keys_is_refused_without_repeating_it(
    tmp_path: Path, secret: dict[str, Any]
) -> None:
    with pytest.raises(ConfigInvalid, match="PEM") as caught:
        write_keys(secret, "worker", tmp_path)
    assert "hush" not in str(caught.value)


def config(tmp_path: Path) -> HostConfig:
    environ = write_host_json(tmp_path, HOST_JSON)
    return load_config(
        environ | {"TERRADASK_HOST_CPU_COUNT": "8", "TERRADASK_HOST_MEMORY_BYTES": str(2**34)}
    )


def cluster(
    scheduler: dict[str, Any] | None = None,
    worker: dict[str, Any] | None = None,
    group: dict[str, Any] | None = None,
    **options: Any,
) -> Structure:
    at = {
        "class": "distributed.Scheduler",
        "options": options,
        "port": 8786,
        "dashboard_port": 8787,
        **(scheduler or {}),
    }
    return cluster_document(
        at, {"class": "distributed.Nanny", "options": options, **(worker or {})}, **(group or {})
    )


def test_options_decide_what_the_host_leaves_open(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path / "keys")
    scheduler = "tls://10.64.0.5:8786"
    options = {"nthreads": 1, "memory_limit": "1 GiB", "resources": {"GPU": 1}}
    document = worker_document(config(tmp_path), IDENTITY, cluster(**options), scheduler, keys)
    (arguments,) = document["workers"]
    assert arguments["name"] == "i-1"
    assert (arguments["nthreads"], arguments["memory_limit"]) == (1, "1 GiB")
    assert arguments["resources"] == {"GPU": 1}
    assert document["security"]["require_encryption"] is True
    assert json.loads(json.dumps(document)) == document


def test_a_hosts_group_says_what_tasks_find_there(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path / "keys")
    descriptor = cluster(
        worker={"workers_per_host": 2},
        group={"resources": {"GPU": 1}},
        resources={"slots": 2, "GPU": 4},
    )
    workers = worker_document(config(tmp_path), IDENTITY, descriptor, "tls://10.64.0.5:8786", keys)[
        "workers"
    ]
    assert [worker["resources"] for worker in workers] == [{"slots": 2, "GPU": 1}] * 2


def on_gpus(tmp_path: Path, gpus: int, worker: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the arguments of a worker on a machine with so many GPUs."""
    keys = write_keys(SECRET, "worker", tmp_path / "keys")
    machine = replace(config(Path(tempfile.mkdtemp(dir=tmp_path))), gpu_count=gpus)
    document = worker_document(
        machine, IDENTITY, cluster(worker=worker, **options), "tls://x", keys
    )
    arguments: dict[str, Any] = document["workers"][0]
    return arguments


def test_workers_share_their_machines_gpus_as_a_resource(tmp_path: Path) -> None:
    assert "resources" not in on_gpus(tmp_path, 0, {})
    assert on_gpus(tmp_path, 4, {})["resources"] == {"GPU": 4}
    assert on_gpus(tmp_path, 4, {"workers_per_host": 2})["resources"] == {"GPU": 2}
    options = {"resources": {"GPU": 8, "slots": 1}}
    assert on_gpus(tmp_path, 4, {}, **options)["resources"] == {"GPU": 8, "slots": 1}


def test_a_class_that_makes_a_worker_for_each_gpu_divides_the_machine_itself(
    tmp_path: Path,
) -> None:
    cuda = {"class": "dask_cuda.CUDAWorker"}
    whole = on_gpus(tmp_path, 0, {})
    four = on_gpus(tmp_path, 4, cuda)
    assert (four["nthreads"], four["resources"]) == (1, {"GPU": 1})
    assert four["memory_limit"] == whole["memory_limit"] // 4
    assert on_gpus(tmp_path, 0, cuda)["nthreads"] == whole["nthreads"] == 8
    assert on_gpus(tmp_path, 4, cuda, nthreads=2, resources="GPU=1")["resources"] == "GPU=1"


def test_resources_as_text_do_not_hide_those_of_the_group(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path / "keys")
    both = cluster(group={"resources": {"GPU": 1}}, resources="slots=2")
    with pytest.raises(ConfigInvalid, match="are text"):
        worker_document(config(tmp_path), IDENTITY, both, "tls://x", keys)


@pytest.mark.parametrize(("count", "nthreads"), [(1, 8), (3, 2), (16, 1)])
def test_the_machine_is_divided_between_the_workers_of_a_host(
    tmp_path: Path, count: int, nthreads: int
) -> None:
    descriptor = cluster(worker={"workers_per_host": count})
    keys = write_keys(SECRET, "worker", tmp_path / "keys")
    workers = worker_document(config(tmp_path), IDENTITY, descriptor, "tls://10.64.0.5:8786", keys)[
        "workers"
    ]
    assert [worker["name"] for worker in workers] == [
        "i-1",
        *(f"i-1-{number}" for number in range(1, count)),
    ]
    assert {worker["nthreads"] for worker in workers} == {nthreads}
    assert {worker["memory_limit"] for worker in workers} == {(2**34 * 97 // 100 + 1) // count}


def test_the_dashboard_is_served_to_browsers_where_the_cluster_says_so(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path / "keys")
    descriptor = cluster()
    assert (
        scheduler_document(IDENTITY, descriptor, keys, {}, Timing(), paths=PATHS)[
            "shared_dashboard"
        ]
        is None
    )
    descriptor = cluster(scheduler={"dashboard_https_port": 8788})
    wanted = scheduler_document(IDENTITY, descriptor, keys, {}, Timing(), paths=PATHS)[
        "shared_dashboard"
    ]
    assert wanted == {
        "host": IDENTITY.private_address,
        "port": 8788,
        "cert": str(keys.cert),
        "key": str(keys.key),
    }


@pytest.mark.parametrize("option", ["security", "protocol", "host", "dashboard_address"])
def test_options_that_the_host_sets_are_refused(tmp_path: Path, option: str) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path / "keys")
    with pytest.raises(ConfigInvalid, match=option):
        scheduler_document(IDENTITY, cluster(**{option: "x"}), keys, {}, Timing(), paths=PATHS)
    with pytest.raises(ConfigInvalid, match=option):
        worker_document(config(tmp_path), IDENTITY, cluster(**{option: "x"}), "x", keys)


def test_the_scheduler_is_told_of_a_notebook_server_if_there_is_to_be_one(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path / "keys")
    for wanted in (False, True):
        document = scheduler_document(
            IDENTITY,
            cluster(scheduler={"jupyter": wanted}),
            keys,
            {},
            Timing(),
            paths=PATHS,
        )
        assert document["jupyter_socket"] == (str(PATHS.jupyter_socket) if wanted else None)


def test_no_notebook_server_runs_beside_the_dashboard(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path)
    with pytest.raises(ConfigInvalid, match="jupyter"):
        scheduler_document(IDENTITY, cluster(jupyter=True), keys, {}, Timing(), paths=PATHS)


def test_a_scheduler_is_told_whom_to_take_for_a_worker(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path)
    descriptor = cluster(scheduler={"extra_worker": True}, worker={"workers_per_host": 4})
    document = scheduler_document(
        IDENTITY, descriptor, keys, {}, Timing(member_patience_seconds=7), paths=PATHS
    )
    assert Rules.read(document["members"]) == Rules(4, False, "scheduler-i-1", 7.0, 1.0)
    assert json.loads(json.dumps(document)) == document


def test_the_prepared_configuration_asks_for_tls_1_3_and_encryption(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path)
    comm = prepare_document("worker", run_document(), keys, tmp_path)["host_config"]["distributed"][
        "comm"
    ]
    assert (comm["require-encryption"], comm["tls"]["min-version"]) == (True, 1.3)
    assert security_arguments("worker", keys)["require_encryption"] is True


def test_the_prepared_configuration_names_files_and_holds_no_key(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path)
    document = prepare_document("worker", run_document(environ={"TOKEN": "hush"}), keys, tmp_path)
    assert document["dask_config"] == {}
    assert "BEGIN" not in json.dumps(document)
    assert "hush" not in json.dumps(document)


def test_the_worker_beside_the_scheduler_leaves_it_half_of_the_memory_and_a_thread(
    tmp_path: Path,
) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path / "keys")
    descriptor = cluster(nthreads=64, memory_limit="15 GiB", resources={"slots": 2})
    document = extra_worker_document(
        config(tmp_path), IDENTITY, descriptor, "tls://10.64.0.5:8786", keys
    )
    (arguments,) = document["workers"]
    assert (arguments["name"], arguments["nthreads"]) == ("scheduler-i-1", 7)
    assert arguments["memory_limit"] == (2**34 * 97 // 100 + 1) // 2
    assert arguments["resources"] == {"slots": 2}
    assert document["security"]["tls_worker_cert"].endswith("scheduler.pem")
