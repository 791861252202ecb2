"""A running cluster: hosts find each other, tell where they are, compute, and stay behind TLS."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import dask
import distributed
import pytest
from distributed import Client

from .account import LOG_GROUP, REGION
from .authority import RUN_ID, Authority, client_security
from .cluster import DASHBOARD_PORT, PORT, Cluster, wait_until
from .processes import listening

pytestmark = pytest.mark.simulator


def test_workers_that_booted_before_their_scheduler_join_it(cluster: Cluster) -> None:
    worker = cluster.hosts[0]
    assert worker.states() == ["booting", "environment", "waiting", "starting", "running"]
    assert cluster.hosts[2].states() == ["booting", "environment", "starting", "running"]
    report = worker.report()
    assert report["run_id"] == RUN_ID
    assert (report["role"], report["group"], report["private_address"]) == ("worker", "workers", worker.address)
    assert (report["reason"], report["log_tail"]) == (None, [])


def test_the_scheduler_says_where_it_is(cluster: Cluster) -> None:
    document = cluster.get("scheduler.json")
    assert document is not None
    started_at = document.pop("started_at")
    assert datetime.datetime.fromisoformat(started_at) <= datetime.datetime.now(datetime.UTC)
    assert document == {
        "format": 1,
        "run_id": RUN_ID,
        "instance_id": cluster.scheduler_id,
        "boot": 1,
        "private_address": f"tls://{cluster.subnet}.10:8786",
        "public_address": "tls://127.200.0.1:8786",
        "dashboard_port": 8787,
        "packages": {"dask": dask.__version__, "distributed": distributed.__version__},
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def test_a_client_computes_on_workers_named_like_their_instances(cluster: Cluster) -> None:
    with cluster.client() as client:
        assert client.submit(sum, range(1000)).result(20) == 499500
        workers = client.scheduler_info(n_workers=-1)["workers"]
    assert {worker["name"] for worker in workers.values()} == set(cluster.worker_ids[:2])
    assert {worker["host"] for worker in workers.values()} == {f"{cluster.subnet}.20", f"{cluster.subnet}.21"}
    assert all(address.startswith("tls://") for address in workers)
    assert {worker["nthreads"] for worker in workers.values()} == {3}
    assert {worker["memory_limit"] for worker in workers.values()} == {4 * 2**30 - 256 * 2**20}


def test_environ_and_dask_configuration_reach_the_workers_alone(cluster: Cluster) -> None:
    def look() -> tuple[Any, ...]:
        import dask

        return (
            os.environ["FLAVOUR"],
            os.environ["AWS_REGION"],
            os.environ["HOME"],
            dask.config.get("distributed.worker.memory.target"),
            dask.config.get("distributed.comm.require-encryption"),
            dask.config.get("distributed.comm.tls.min-version"),
        )

    with cluster.client() as client:
        answers = client.run(look)
    homes = {str(host.root / "var/lib/terradask") for host in cluster.hosts[:2]}
    assert {answer[2] for answer in answers.values()} == homes
    assert {answer[:2] + answer[3:] for answer in answers.values()} == {("vanilla", REGION, 0.55, True, 1.3)}
    agent = Path(f"/proc/{cluster.hosts[0].process.pid}/environ").read_bytes()
    assert b"FLAVOUR" not in agent


def test_a_task_can_open_a_client_of_its_own(cluster: Cluster) -> None:
    def nested() -> int:
        from distributed import get_client

        return get_client().submit(len, "four").result(20)

    with cluster.client() as client:
        assert client.submit(nested, pure=False).result(30) == 4


def test_the_dead_mans_switch_lies_half_an_hour_ahead_on_each_group(cluster: Cluster) -> None:
    actions = {}
    for group in cluster.groups.values():
        found = cluster.account.autoscaling.describe_scheduled_actions(AutoScalingGroupName=group)
        actions |= {action["ScheduledActionName"]: action for action in found["ScheduledUpdateGroupActions"]}
    assert set(actions) == {f"{group}-dead-man" for group in cluster.groups.values()}
    now = datetime.datetime.now(datetime.UTC)
    for action in actions.values():
        assert action["DesiredCapacity"] == 0
        assert "MinSize" not in action
        assert "MaxSize" not in action
        ahead = action["StartTime"] - now
        assert datetime.timedelta(minutes=25) < ahead < datetime.timedelta(minutes=31)


def test_log_lines_reach_cloudwatch_without_a_secret(cluster: Cluster) -> None:
    worker = cluster.worker_ids[0]

    def lines() -> str:
        events = cluster.account.logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=f"etl/{worker}")["events"]
        return "\n".join(event["message"] for event in events)

    text = wait_until(lambda: lines() if "joining tls://" in lines() else None, "log lines of the worker")
    assert "Start Nanny at" in text
    assert "BEGIN" not in text
    for host in cluster.hosts:
        assert "PRIVATE KEY" not in host.log
        assert "vanilla" not in host.log


def test_a_client_of_another_authority_is_refused(cluster: Cluster) -> None:
    document = cluster.get("scheduler.json")
    assert document is not None
    stranger = Authority().secret()
    for secret in (stranger, stranger | {"ca": cluster.authority.pem}):
        with pytest.raises(OSError, match=r"Timed out|SSL|ssl|certificate|Cannot connect|unknown ca"):
            Client(document["private_address"], security=client_security(secret), timeout="2s")


def test_plain_tcp_is_refused(cluster: Cluster) -> None:
    with pytest.raises(OSError, match=r"Timed out|Cannot connect|reset|closed"):
        Client(f"tcp://{cluster.subnet}.10:{PORT}", timeout="2s")


def fetch_dashboard(cluster: Cluster, context: ssl.SSLContext) -> bytes:
    with (
        socket.create_connection((f"{cluster.subnet}.10", DASHBOARD_PORT), 5) as plain,
        context.wrap_socket(plain) as secure,
    ):
        secure.sendall(b"GET /health HTTP/1.1\r\nHost: dashboard\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: secure.recv(4096), b""))


def tls_context(cluster: Cluster, folder: Path, secret: dict[str, Any] | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=cluster.authority.pem)
    if secret is not None:
        (folder / "client.pem").write_text(secret["client"]["cert"] + secret["client"]["key"])
        context.load_cert_chain(folder / "client.pem")
    return context


def test_the_dashboard_is_served_to_the_clusters_certificates(cluster: Cluster, tmp_path: Path) -> None:
    answer = fetch_dashboard(cluster, tls_context(cluster, tmp_path, cluster.secret))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"ok")


def test_the_dashboard_refuses_everybody_else(cluster: Cluster, tmp_path: Path) -> None:
    for secret in (None, Authority().secret()):
        # TLS 1.3 tells a client of its refusal with the first read, which may also just find the end.
        try:
            answer = fetch_dashboard(cluster, tls_context(cluster, tmp_path, secret))
        except OSError:
            answer = b""
        assert answer == b""
    with socket.create_connection((f"{cluster.subnet}.10", DASHBOARD_PORT), 5) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: dashboard\r\n\r\n")
        try:
            answer = plain.recv(4096)
        except ConnectionResetError:
            answer = b""
        assert b"HTTP" not in answer


def test_dask_listens_where_tls_guards_it_and_on_loopback(cluster: Cluster) -> None:
    worker, scheduler = cluster.hosts[0], cluster.hosts[2]
    outside = [(address, port) for address, port in listening(scheduler.dask_pid()) if address != "127.0.0.1"]
    assert sorted(outside) == [(scheduler.address, PORT), (scheduler.address, DASHBOARD_PORT)]
    # The nanny and its worker; neither has a web server there.
    outside = [(address, port) for address, port in listening(worker.dask_pid()) if address != "127.0.0.1"]
    assert len(outside) == 2
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for address, port in outside:
        assert address == worker.address
        with socket.create_connection((address, port), 5) as plain, context.wrap_socket(plain) as secure:
            assert secure.version() == "TLSv1.3"
            with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
                secure.recv(1)


def test_keys_are_readable_by_their_user_alone(cluster: Cluster) -> None:
    for host, role in ((cluster.hosts[2], "scheduler"), (cluster.hosts[0], "worker")):
        folder = host.root / "run/terradask"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        assert files == {"ca.pem": 0o600, f"{role}.pem": 0o600, f"{role}.key": 0o600}
