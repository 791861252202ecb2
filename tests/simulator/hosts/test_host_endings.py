"""Clusters that end, and hosts that fail: each test has its own."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ...package_index import publish, serving
from ...waiting import HANG_SECONDS, eventually
from .account import BUCKET
from .authority import RUN_ID
from .cluster import DASHBOARD_PORT, PORT, Cluster
from .processes import alive, children

pytestmark = pytest.mark.simulator


def test_a_cluster_whose_scheduler_ends_itself_goes_to_zero(lonely: Callable[..., Cluster]) -> None:
    scheduler_options = {
        "class": "distributed.Scheduler",
        "port": PORT,
        "dashboard_port": DASHBOARD_PORT,
    }
    cluster = lonely(scheduler=scheduler_options | {"options": {"idle_timeout": "1 s"}})
    scheduler = cluster.scheduler()
    scheduler.wait_state("running")
    assert scheduler.wait_exit() == 0
    report = scheduler.report()
    assert (report["state"], report["reason"]) == (
        "left",
        "the scheduler ended itself: idle-timeout-exceeded",
    )
    assert (cluster.desired("scheduler"), cluster.desired("workers")) == (0, 0)


@pytest.mark.life
def test_a_worker_whose_scheduler_is_shut_down_leaves_when_no_other_comes(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely()
    scheduler, worker = (
        cluster.scheduler(),
        cluster.worker(0, timing={"scheduler_silent_seconds": 1.5}),
    )
    worker.wait_state("running")
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.wait_exit() == 0
    assert scheduler.report()["state"] == "left"
    # Somebody ended the instance; whether the cluster is over is theirs to say.
    assert cluster.desired("scheduler") == 1
    assert worker.wait_exit() == 0
    assert worker.states()[-4:] == ["running", "waiting", "leaving", "left"]
    assert "no scheduler for" in worker.report()["reason"]
    assert cluster.desired("workers") == 1


@pytest.mark.life
def test_a_worker_without_a_scheduler_leaves_with_decrement(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, timing={"scheduler_first_wait_seconds": 1.0})
    assert host.wait_exit() == 0
    assert host.states() == ["booting", "environment", "waiting", "leaving", "left"]
    assert "no scheduler for" in host.report()["reason"]
    assert cluster.desired("workers") == 1


@pytest.mark.life
def test_a_scheduler_of_an_older_run_is_ignored_and_other_versions_are_an_error(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely()
    document = cluster.address(
        run_id="older", packages={"dask": "2020.1.0", "distributed": "2020.1.0"}, python="3.8"
    )
    cluster.put("scheduler.json", document)
    host = cluster.worker(0)
    host.wait_state("waiting")
    time.sleep(1.0)
    assert host.report()["state"] == "waiting"
    cluster.put("scheduler.json", document | {"run_id": RUN_ID})
    assert host.wait_exit() == 1
    report = host.report()
    assert report["state"] == "failed"
    for part in (
        "3.8",
        "2020.1.0",
        f"{sys.version_info.major}.{sys.version_info.minor}",
        "distributed",
    ):
        assert part in report["reason"]
    assert report["log_tail"]


def test_a_run_of_earlier_is_not_taken_for_this_one(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, tag_run_id="later", timing={"run_deadline_seconds": 1.0})
    assert host.wait_exit() == 1
    report = host.report()
    assert report["state"] == "failed"
    assert "run.json" in report["reason"]
    assert RUN_ID in report["reason"]
    assert "later" in report["reason"]


@pytest.mark.life
def test_a_scheduler_option_that_dask_refuses_ends_in_a_report_that_says_so(
    lonely: Callable[..., Cluster],
) -> None:
    options = {"class": "distributed.Scheduler", "port": PORT, "dashboard_port": DASHBOARD_PORT}
    cluster = lonely(scheduler=options | {"options": {"idle_timeot": "1 s"}})
    host = cluster.scheduler(timing={"dask_restarts": 1})
    assert host.wait_exit() == 1
    report = host.report()
    assert report["state"] == "failed"
    assert "died 2 times" in report["reason"]
    assert "idle_timeot" in report["reason"]
    assert any("idle_timeot" in line for line in report["log_tail"])
    assert len(report["log_tail"]) <= 40


@pytest.mark.life
def test_packages_without_hashes_or_with_other_ones_end_in_a_report_that_says_so(
    lonely: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lonely()
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
    with serving(tmp_path / "index") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        digest = publish(tmp_path / "index", "probe", "1.0")
        told = []
        wrong = f" --hash=sha256:{'0' * 64}"
        for hashes, begin in (("", partial(cluster.worker, 0)), (wrong, cluster.scheduler)):
            cluster.start(f"probe==1.0{hashes}\n", hashed=True)
            host = begin(python="")
            assert host.wait_exit() == 1
            assert host.states() == ["booting", "environment", "failed"]
            told.append(host.report()["reason"])
    assert "no hashes" in told[0]
    assert "Hash mismatch for `probe==1.0`" in told[1]
    assert digest in told[1]


@pytest.mark.life
def test_a_host_that_stops_while_it_shares_its_environment_leaves_no_parts(
    lonely: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lonely()
    s3 = cluster.account.s3

    def uploads() -> list[object]:
        return s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])

    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
    with serving(tmp_path / "index") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        publish(tmp_path / "index", "probe", "1.0", "#" * 2**28)
        cluster.start("probe==1.0\n")
        host = cluster.scheduler(python="")
        eventually(uploads)
        host.process.send_signal(signal.SIGTERM)
        host.wait_exit()
    assert "the environment isn't shared: this host stops" in host.log
    assert uploads() == []
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"environments/{cluster.name}/")
    assert "Contents" not in found


def test_a_python_that_is_not_there_is_named(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, python="/nowhere/python")
    assert host.wait_exit() == 1
    assert "/nowhere/python" in host.report()["reason"]


@pytest.mark.life
def test_an_environment_with_an_old_distributed_never_listens(
    lonely: Callable[..., Cluster], tmp_path: Path
) -> None:
    package = tmp_path / "old/distributed/__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text('__version__ = "2025.12.0"\n')
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexec env PYTHONPATH={package.parent.parent} {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    cluster = lonely()
    for host in (cluster.scheduler(python=str(python)), cluster.worker(0, python=str(python))):
        assert host.wait_exit() == 1
        assert "distributed 2025.12.0" in host.report()["reason"]
        assert "distributed 2026.1.1 or later" in host.report()["reason"]
    assert cluster.get("scheduler.json") is None


def test_a_host_without_a_name_says_what_it_lacks(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    timing = {"metadata_deadline_seconds": 2.0}
    host = cluster.worker(0, timing=timing, lacks="tags/instance/terradask:cluster")
    assert host.wait_exit() == 1
    assert "terradask:cluster" in host.log


def test_a_run_of_another_format_is_named_as_such(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    cluster.start(format=9)
    host = cluster.worker(0)
    assert host.wait_exit() == 1
    assert "run.json has a format" in host.report()["reason"]
    assert "given: 9" in host.report()["reason"]


def test_a_metadata_service_that_falters_is_asked_again(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, broken="tags/instance/terradask:run:id")
    host.wait_state("booting")
    time.sleep(1.0)
    assert host.report()["state"] == "booting"
    host.metadata.broken.clear()
    host.wait_state("waiting")


@pytest.mark.life
def test_a_dask_process_whose_imports_hang_is_given_up(
    lonely: Callable[..., Cluster], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    host = lonely().worker(
        0, python=str(python), timing={"dask_start_seconds": 1.0, "dask_restarts": 0}
    )
    assert host.wait_exit() == 1
    assert "did not import distributed within 1 s" in host.report()["reason"]


@pytest.mark.life
def test_a_notice_that_comes_before_dask_runs_ends_the_host(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, timing={"spot_poll_seconds": 0.2}, life_cycle="spot")
    host.wait_state("waiting")
    host.metadata.facts["spot/instance-action"] = '{"action": "terminate"}'
    assert host.wait_exit() == 0
    assert host.report()["reason"] == "spot interruption notice: AWS will terminate this instance"
    assert cluster.desired("workers") == 2


@pytest.mark.usefixtures("fresh_dask")
@pytest.mark.life
def test_a_worker_beside_the_scheduler_works_and_ends_with_it(
    lonely: Callable[..., Cluster],
) -> None:
    options = {
        "class": "distributed.Scheduler",
        "options": {},
        "port": PORT,
        "dashboard_port": DASHBOARD_PORT,
    }
    cluster = lonely(scheduler=options | {"extra_worker": True})
    host = cluster.scheduler()
    host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(1, timeout=HANG_SECONDS)
        (worker,) = client.scheduler_info(n_workers=-1)["workers"].values()
        # Of three processors and 4 GiB less 256 MiB.
        assert (worker["name"], worker["nthreads"], worker["memory_limit"]) == (
            f"scheduler-{host.instance_id}",
            2,
            15 * 2**27,
        )
        assert client.submit(sum, [1, 2, 3]).result(HANG_SECONDS) == 6
        # No scaling closes it, idle as it is.
        assert (
            client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.workers_to_close(n=1))
            == []
        )
        processes = children(host.process.pid)
        assert len(processes) == 2
    host.process.send_signal(signal.SIGTERM)
    assert host.wait_exit() == 0
    assert host.states()[-2:] == ["leaving", "left"]
    assert not any(alive(pid) for pid in processes)
