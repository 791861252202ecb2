"""Metrics of a cluster on the embedded AWS: in CloudWatch, and in a real Prometheus."""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from terradask import Cluster, Workspace
from terradask_host.gauges import GAUGES
from terradask_modules.iam import allow, policy_text
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

_UNPACKED = Path(__file__).parents[2] / ".prometheus" / "usr" / "bin"
PROMETHEUS = shutil.which("prometheus") or shutil.which("prometheus", path=_UNPACKED)
NEEDS_PROMETHEUS = pytest.mark.skipif(
    PROMETHEUS is None, reason="no prometheus on PATH: make prometheus, on Debian, or install it"
)

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "prometheus.json"

#: All that Prometheus may do in AWS, as docs/metrics.md has it.
FIND_HOSTS = policy_text(
    [allow("FindHosts", ["ec2:DescribeAvailabilityZones", "ec2:DescribeInstances"], "*")]
)
NAMES = {gauge.name for gauge in GAUGES}


@pytest.fixture(scope="module")
def cluster(sim: Simulator, sim_environ: dict[str, str]) -> Iterator[Cluster]:
    with sim.time_hosts(gauge_seconds=0.5), pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERRADASK_CLUSTER__METRICS", "cloudwatch")
        with Cluster("gauged", n_workers=2, wait_for_workers=True, max_workers=4) as made:
            yield made


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def prometheus(config: Path, folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Run Prometheus with a configuration; yields its URL."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        str(PROMETHEUS),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=debug",
    ]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, env=dict(environ), stdout=log, stderr=log)
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(HANG_SECONDS)


def asked(url: str, page: str, **query: str) -> Any:
    """Return what Prometheus answers; None as long as it starts."""
    text = f"{url}/api/v1/{page}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(text, timeout=HANG_SECONDS) as answer:
            return json.load(answer)["data"]
    except OSError:
        return None


def sampled(url: str) -> dict[str, Any]:
    """Return the gauges that Prometheus has, and their labels."""
    found = asked(url, "query", query='{__name__=~"terradask_.*"}')
    return {one["metric"].pop("__name__"): one for one in (found or {"result": []})["result"]}


@NEEDS_PROMETHEUS
def test_prometheus_finds_the_scheduler_and_reads_its_gauges(
    sim: Simulator, cluster: Cluster, tmp_path: Path
) -> None:
    written = in_this_process("metrics", "gauged", environ=sim.environ, folder=tmp_path)
    assert written.returncode == 0, written.stderr
    config = Path(written.stdout.strip())
    assert config == tmp_path / "prometheus" / "gauged.yml"
    assert {path.name for path in config.parent.iterdir()} == {
        "gauged.yml",
        *(f"gauged-{part}.pem" for part in ("ca", "cert", "key")),
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in config.parent.iterdir())
    # So that the test doesn't wait for a minute.
    quick = config.with_name("quick.yml")
    quick.write_text("global: {scrape_interval: 1s}\n" + config.read_text())
    with (
        Client(cluster) as client,
        prometheus(quick, tmp_path, sim.environ_of("prometheus", FIND_HOSTS)) as url,
    ):
        kept = client.map(abs, range(7))
        client.gather(kept)
        found = eventually(
            lambda: (
                samples
                if (samples := sampled(url)).keys() == {f"terradask_{name}" for name in NAMES}
                and samples["terradask_tasks_in_memory"]["value"][1] == "7"
                else None
            )
        )
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            for target in panel["targets"]:
                shown = target["expr"].replace("$workspace", "default")
                (one,) = asked(url, "query", query=shown.replace("$cluster", "gauged"))["result"]
                assert one["metric"]["cluster"] == "gauged"
    assert found["terradask_workers_running"]["value"][1] == "2"
    assert float(found["terradask_worker_memory_bytes"]["value"][1]) > 1e6
    (scheduler,) = [
        host for host in sim.hosts() if host.role == "scheduler" and host.cluster == "gauged"
    ]
    assert found["terradask_threads"]["metric"] == {
        "workspace": "default",
        "cluster": "gauged",
        "instance": scheduler.instance_id,
        "job": "terradask-default-gauged",
    }


@NEEDS_PROMETHEUS
def test_prometheus_without_the_right_to_see_instances_finds_nothing(
    sim: Simulator, cluster: Cluster, tmp_path: Path
) -> None:
    in_this_process("metrics", "gauged", "-o", ".", environ=sim.environ, folder=tmp_path)
    less = policy_text([allow("SeeZones", "ec2:DescribeAvailabilityZones", "*")])
    with prometheus(
        tmp_path / "gauged.yml", tmp_path, sim.environ_of("prometheus-less", less)
    ) as url:
        log = tmp_path / "prometheus.log"
        eventually(lambda: "UnauthorizedOperation" in log.read_text())
        assert asked(url, "targets")["activeTargets"] == []


def test_cloudwatch_has_a_metric_for_each_gauge(sim: Simulator, cluster: Cluster) -> None:
    with contextlib.closing(sim.client("cloudwatch")) as cloudwatch:

        def newest(name: str) -> float | None:
            now, around = datetime.datetime.now(datetime.UTC), datetime.timedelta(minutes=10)
            points = cloudwatch.get_metric_statistics(
                Namespace="terradask",
                MetricName=name,
                Dimensions=[
                    {"Name": "Workspace", "Value": "default"},
                    {"Name": "Cluster", "Value": "gauged"},
                ],
                StartTime=now - around,
                EndTime=now + around,
                Period=3600,
                Statistics=["Maximum"],
            )["Datapoints"]
            return points[0]["Maximum"] if points else None

        eventually(lambda: newest("workers_running") == 2)
        listed = [
            metric
            for page in cloudwatch.get_paginator("list_metrics").paginate(Namespace="terradask")
            for metric in page["Metrics"]
        ]
        # moto lists one for each value.
        assert {metric["MetricName"] for metric in listed} == NAMES
        assert {len(metric["Dimensions"]) for metric in listed} == {2}
        assert newest("scheduler_memory_bytes") > 1e6  # type: ignore[operator]


def test_logs_have_no_line_of_metrics(sim: Simulator, cluster: Cluster) -> None:
    with contextlib.closing(sim.client("logs")) as logs:
        named = {"logGroupName": "/terradask/default", "logStreamNamePrefix": "gauged/"}

        def streams() -> list[str]:
            return [
                one["logStreamName"] for one in logs.describe_log_streams(**named)["logStreams"]
            ]

        eventually(lambda: any(name.startswith("gauged/metrics/") for name in streams()))
    deployment = Workspace.load().deployment("gauged")
    lines = eventually(lambda: list(deployment.logs()))
    assert not [line for line in lines if "_aws" in line.text]
    assert not list(deployment.logs(level="error"))
