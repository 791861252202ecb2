"""The host program as real processes: AWS is moto behind a real endpoint, Dask and TLS are real, metadata comes from a small server.

One scheduler and two workers serve most tests; what ends a host starts one of its own.
"""

from __future__ import annotations

import contextlib
import datetime
import http.server
import itertools
import json
import os
import random
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import dask
import distributed
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Client
from distributed.security import Security
from moto.server import ThreadedMotoServer

pytestmark = pytest.mark.simulator

REGION = "us-east-1"
BUCKET = "terradask-hosts-123456789012-us-east-1"
LOG_GROUP = "/terradask/hosts"
RUN_ID = "20261120T051500Z-1f3a9c"
PORT, DASHBOARD_PORT = 8786, 8787

#: Retired and silent hosts need not wait as long as on AWS.
QUICK = {"retired_grace_seconds": 1.0, "log_flush_seconds": 0.5, "dask_restart_pause_seconds": 0.1, "leave_seconds": 30.0}


# ---- keys


@dataclass
class Authority:
    """A certificate authority of a test."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.cert = (
            self._builder(name, name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.pem = self.cert.public_bytes(serialization.Encoding.PEM).decode()

    def _builder(self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def bundle(self, role: str) -> dict[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role)])
        cert = self._builder(subject, self.cert.subject, key).sign(self.key, hashes.SHA256())
        return {
            "cert": cert.public_bytes(serialization.Encoding.PEM).decode(),
            "key": key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
        }

    def secret(self, run_id: str = RUN_ID) -> dict[str, Any]:
        roles = {role: self.bundle(role) for role in ("scheduler", "worker", "client")}
        return {"format": 1, "run_id": run_id, "ca": self.pem, **roles}


def client_security(secret: dict[str, Any]) -> Security:
    return Security(
        require_encryption=True,
        tls_ca_file=secret["ca"],
        tls_client_cert=secret["client"]["cert"],
        tls_client_key=secret["client"]["key"],
    )


# ---- the instance metadata service


class Metadata:
    """IMDSv2 of one instance."""

    def __init__(self, facts: dict[str, str]) -> None:
        self.facts = facts
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                ok = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                self._answer(200 if ok else 400, "a-token")

            def do_GET(self) -> None:
                if self.headers["X-aws-ec2-metadata-token"] != "a-token":
                    return self._answer(401, "")
                value = outer.facts.get(self.path.removeprefix("/latest/meta-data/"))
                return self._answer(200 if value is not None else 404, value or "")

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


# ---- the account


class Account:
    """An AWS account on moto with a bucket, a log group and whatever clusters a test asks for."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name=REGION)
        make = lambda name: session.client(name, endpoint_url=endpoint)  # noqa: E731
        self.s3, self.secrets, self.logs = make("s3"), make("secretsmanager"), make("logs")
        self.autoscaling, self.ec2 = make("autoscaling"), make("ec2")
        self.s3.create_bucket(Bucket=BUCKET)
        self.logs.create_log_group(logGroupName=LOG_GROUP)
        image = self.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        self.ec2.create_launch_template(LaunchTemplateName="host", LaunchTemplateData={"ImageId": image, "InstanceType": "t3.micro"})

    def close(self) -> None:
        for client in (self.s3, self.secrets, self.logs, self.autoscaling, self.ec2):
            client.close()

    def put(self, key: str, document: dict[str, Any]) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(document))

    def get(self, key: str) -> dict[str, Any] | None:
        try:
            return json.loads(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        except self.s3.exceptions.NoSuchKey:
            return None

    def group(self, name: str, size: int) -> list[str]:
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchTemplate={"LaunchTemplateName": "host", "Version": "1"},
            MinSize=0,
            MaxSize=10,
            DesiredCapacity=size,
            AvailabilityZones=["us-east-1a"],
        )
        return [instance["InstanceId"] for instance in self.describe(name)["Instances"]]

    def describe(self, name: str) -> dict[str, Any]:
        return self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]


class Cluster:
    """A cluster whose groups exist on moto and whose hosts are started one by one."""

    _subnets = itertools.count()
    _block = random.randrange(1, 200)

    def __init__(self, account: Account, folder: Path, name: str, *, workers: int = 2, **descriptor: Any) -> None:
        self.account, self.folder, self.name = account, folder, name
        self.subnet = f"127.33.{(self._block + next(self._subnets)) % 250}"
        self.authority = Authority()
        self.secret = self.authority.secret()
        self.groups = {role: f"terradask-hosts-{name}-{role}" for role in ("scheduler", "workers")}
        self.scheduler_id = account.group(self.groups["scheduler"], 1)[0]
        self.worker_ids = account.group(self.groups["workers"], workers)
        self.hosts: list[HostProcess] = []
        version = account.secrets.create_secret(Name=f"terradask/hosts/{name}", SecretString=json.dumps(self.secret))["VersionId"]
        self.descriptor = {
            "format": 1,
            "cluster": name,
            "groups": {
                "scheduler": {"autoscaling_group": self.groups["scheduler"], "role": "scheduler", "max_size": 1},
                "workers": {"autoscaling_group": self.groups["workers"], "role": "worker", "max_size": 10},
            },
            "secret_id": f"terradask/hosts/{name}",
            "scheduler": {
                "class": "distributed.Scheduler",
                "options": {},
                "port": PORT,
                "dashboard_port": DASHBOARD_PORT,
            },
            "worker": {"class": "distributed.Nanny", "options": {}},
        } | descriptor
        self.run = {
            "format": 1,
            "run_id": RUN_ID,
            "secret_version_id": version,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "packages": {},
            "environ": {"FLAVOUR": "vanilla"},
            "dask_config": {"distributed": {"worker": {"memory": {"target": 0.55}}}},
        }
        self.put("cluster.json", self.descriptor)
        self.put("run.json", self.run)

    def put(self, name: str, document: dict[str, Any]) -> None:
        self.account.put(f"clusters/{self.name}/{name}", document)

    def get(self, name: str) -> dict[str, Any] | None:
        return self.account.get(f"clusters/{self.name}/{name}")

    def scheduler(self, **changes: Any) -> HostProcess:
        return self._host(self.scheduler_id, "scheduler", "scheduler", "10", **changes)

    def worker(self, number: int, **changes: Any) -> HostProcess:
        return self._host(self.worker_ids[number], "worker", "workers", str(20 + number), **changes)

    def _host(self, instance_id: str, role: str, group: str, last: str, **changes: Any) -> HostProcess:
        host = HostProcess(self, instance_id, role, group, f"{self.subnet}.{last}", **changes)
        self.hosts.append(host)
        return host

    def desired(self, group: str) -> int:
        return self.account.describe(self.groups[group])["DesiredCapacity"]

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        document = self.get("scheduler.json")
        assert document is not None
        with Client(document["private_address"], security=client_security(self.secret), timeout="20s") as client:
            yield client

    def close(self) -> None:
        for host in self.hosts:
            host.close()


class HostProcess:
    """One instance: its metadata service, its root folder and the host program."""

    def __init__(
        self,
        cluster: Cluster,
        instance_id: str,
        role: str,
        group: str,
        address: str,
        *,
        python: str = sys.executable,
        timing: dict[str, float] | None = None,
        tag_run_id: str | None = RUN_ID,
    ) -> None:
        self.cluster, self.instance_id, self.address = cluster, instance_id, address
        facts = {
            "instance-id": instance_id,
            "local-ipv4": address,
            "placement/availability-zone": "us-east-1a",
            "tags/instance/terradask:cluster": cluster.name,
            "tags/instance/terradask:role": role,
            "tags/instance/terradask:group": group,
        }
        if role == "scheduler":
            facts["public-ipv4"] = "127.200.0.1"
        if tag_run_id:
            facts["tags/instance/terradask:run:id"] = tag_run_id
        self.metadata = Metadata(facts)
        self.root = cluster.folder / cluster.name / instance_id
        (self.root / "etc/terradask").mkdir(parents=True)
        (self.root / "etc/terradask/host.json").write_text(
            json.dumps(
                {
                    "format": 1,
                    "workspace": "hosts",
                    "region": REGION,
                    "bucket": BUCKET,
                    "log_group": LOG_GROUP,
                    "wheel": {"key": "k", "sha256": "s"},
                }
            )
        )
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TERRADASK_", "DASK_"))}
        environ |= {
            "AWS_ENDPOINT_URL": cluster.account.endpoint,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.endpoint,
            "TERRADASK_HOST_ROOT": str(self.root),
            "TERRADASK_HOST_PYTHON": python,
            "TERRADASK_HOST_CPU_COUNT": "3",
            "TERRADASK_HOST_MEMORY_BYTES": str(4 * 2**30),
            "TERRADASK_HOST_TIMING": json.dumps(QUICK | (timing or {})),
        }
        self.log_path = self.root / "host.log"
        self.started = time.monotonic()
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "terradask_host"], env=environ, stderr=log, stdout=log, stdin=subprocess.DEVNULL
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def report(self) -> dict[str, Any]:
        return self.cluster.get(f"hosts/{self.instance_id}.json") or {}

    def wait_state(self, state: str, timeout_seconds: float = 40) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            report = self.report()
            assert state == "failed" or report.get("state") != "failed", report
            return report if report.get("state") == state else None

        return wait_until(there, f"{self.instance_id} to be {state}", timeout_seconds, lambda: self.log)

    def wait_exit(self, timeout_seconds: float = 40) -> int:
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.instance_id} did not end:\n{self.log}") from None

    def dask_pid(self) -> int:
        (pid,) = children(self.process.pid)
        return pid

    def states(self) -> list[str]:
        return [state for state, _ in self.report()["history"]]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.metadata.close()


def wait_until(ask: Callable[[], Any], what: str, timeout_seconds: float = 20, explain: Callable[[], str] = lambda: "") -> Any:
    end = time.monotonic() + timeout_seconds
    while time.monotonic() < end:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_seconds} s for {what}\n{explain()}")


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    account = Account(f"http://{host}:{port}")
    yield account
    account.close()
    server.stop()


@pytest.fixture(scope="module")
def cluster(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers; the workers boot before their scheduler."""
    cluster = Cluster(account, tmp_path_factory.mktemp("hosts"), "etl", workers=4)
    workers = [cluster.worker(0), cluster.worker(1)]
    for worker in workers:
        worker.wait_state("waiting")
    cluster.scheduler()
    for host in cluster.hosts:
        host.wait_state("running")
    yield cluster
    cluster.close()


@pytest.fixture
def lonely(account: Account, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters for tests that end them."""
    made: list[Cluster] = []

    def make(**descriptor: Any) -> Cluster:
        name = f"{request.node.name.removeprefix('test_').replace('_', '-')[:25]}-{len(made)}"
        made.append(Cluster(account, tmp_path, name, **descriptor))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


# ---- a running cluster


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


def children(pid: int) -> list[int]:
    """The processes that any thread of a process started."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for text in texts for child in text.split()]


def listening(pid: int) -> list[tuple[str, int]]:
    """Where a process and its children listen."""
    sockets = set()
    for process in (pid, *children(pid)):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(link.readlink().name)
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and f"socket:[{parts[9]}]" in sockets:
                host, port = parts[1].split(":")
                address = socket.inet_ntoa(bytes.fromhex(host)[::-1]) if table == "tcp" else host
                found.append((address, int(port, 16)))
    return found


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


def test_a_host_that_is_shut_down_moves_the_only_copy_of_a_result_off(cluster: Cluster) -> None:
    host = cluster.worker(2)
    host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(3, timeout=20)
        future = client.submit(random.random, workers=[host.instance_id], pure=False)
        value = future.result(20)
        assert all(address.startswith(f"tls://{host.address}:") for address in client.who_has(future)[future.key])
        host.process.send_signal(signal.SIGTERM)
        assert host.wait_exit() == 0
        assert future.result(10) == value
        assert future.status == "finished"
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 2
    report = host.report()
    assert report["state"] == "left"
    assert "SIGTERM" in report["reason"]
    assert host.states()[-3:] == ["running", "leaving", "left"]
    # Who shuts an instance down decides about its group: the host does not.
    assert cluster.desired("workers") == 4


def test_a_retired_host_leaves_with_decrement_when_nobody_ends_it(cluster: Cluster) -> None:
    host = cluster.worker(3)
    host.wait_state("running")
    with cluster.client() as client:
        client.wait_for_workers(3, timeout=20)
        retired = client.retire_workers(names=[host.instance_id], close_workers=True)
        assert len(retired) == 1
        assert host.wait_exit() == 0
    assert "retired" in host.report()["reason"]
    assert host.states()[-3:] == ["running", "leaving", "left"]
    assert cluster.desired("workers") == 3
    members = cluster.account.describe(cluster.groups["workers"])["Instances"]
    assert host.instance_id not in {member["InstanceId"] for member in members}


def test_a_scheduler_that_dies_is_started_again_and_its_workers_find_it(cluster: Cluster) -> None:
    scheduler = next(host for host in cluster.hosts if host.instance_id == cluster.scheduler_id)
    os.killpg(scheduler.dask_pid(), signal.SIGKILL)

    def second_boot() -> bool:
        document = cluster.get("scheduler.json")
        return document is not None and document["boot"] == 2

    wait_until(second_boot, "the second boot", 40, lambda: scheduler.log)
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=40)
        assert client.submit(sum, [1, 2, 3], pure=False).result(20) == 6
    for worker in cluster.hosts[:2]:
        report = worker.wait_state("running")
        assert [state for state, _ in report["history"]][-3:] == ["waiting", "starting", "running"]


def test_when_the_host_program_is_killed_its_dask_goes_too(cluster: Cluster) -> None:
    host = cluster.hosts[1]
    pid = host.dask_pid()
    below = children(pid)
    assert below
    host.process.kill()
    host.process.wait()
    wait_until(lambda: not any(_alive(p) for p in [pid, *below]), "the Dask processes to vanish")


def _alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


# ---- clusters that end, and hosts that fail


def test_a_cluster_whose_scheduler_ends_itself_goes_to_zero(lonely: Callable[..., Cluster]) -> None:
    scheduler_options = {"class": "distributed.Scheduler", "port": PORT, "dashboard_port": DASHBOARD_PORT}
    cluster = lonely(scheduler=scheduler_options | {"options": {"idle_timeout": "1 s"}})
    scheduler = cluster.scheduler()
    scheduler.wait_state("running")
    assert scheduler.wait_exit() == 0
    report = scheduler.report()
    assert (report["state"], report["reason"]) == ("left", "the scheduler ended itself: idle-timeout-exceeded")
    assert (cluster.desired("scheduler"), cluster.desired("workers")) == (0, 0)


def test_a_worker_whose_scheduler_is_shut_down_leaves_when_no_other_comes(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    scheduler, worker = cluster.scheduler(), cluster.worker(0, timing={"scheduler_silent_seconds": 1.5})
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


def test_a_worker_without_a_scheduler_leaves_with_decrement(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, timing={"scheduler_first_wait_seconds": 1.0})
    assert host.wait_exit() == 0
    assert host.states() == ["booting", "environment", "waiting", "leaving", "left"]
    assert "no scheduler for" in host.report()["reason"]
    assert cluster.desired("workers") == 1


def test_a_scheduler_of_an_older_run_is_ignored_and_other_versions_are_an_error(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely()
    document = {
        "format": 1,
        "run_id": "older",
        "boot": 1,
        "private_address": f"tls://{cluster.subnet}.10:8786",
        "packages": {"dask": "2020.1.0", "distributed": "2020.1.0"},
        "python": "3.8",
    }
    cluster.put("scheduler.json", document)
    host = cluster.worker(0)
    host.wait_state("waiting")
    time.sleep(1.0)
    assert host.report()["state"] == "waiting"
    cluster.put("scheduler.json", document | {"run_id": RUN_ID})
    assert host.wait_exit() == 1
    report = host.report()
    assert report["state"] == "failed"
    for part in ("3.8", "2020.1.0", f"{sys.version_info.major}.{sys.version_info.minor}", "distributed"):
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


def test_a_python_that_is_not_there_is_named(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, python="/nowhere/python")
    assert host.wait_exit() == 1
    assert "/nowhere/python" in host.report()["reason"]


def test_a_host_without_a_name_says_what_it_lacks(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    host = cluster.worker(0, timing={"metadata_deadline_seconds": 2.0})
    del host.metadata.facts["tags/instance/terradask:cluster"]
    assert host.wait_exit() == 1
    assert "terradask:cluster" in host.log
