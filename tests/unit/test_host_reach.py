"""A host's process tries targets: real sockets, and calls of AWS at a server of this machine."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from distributed import Scheduler, Worker

from terradask_host.errors import CommandRefused
from terradask_host.preload import reach as host_reach
from terradask_host.preload.reach import FOUND_OPERATION, Reach, try_here

from ..moto_account import moto_server

REGION, ACCOUNT = "us-east-1", "123456789012"
SECRET_VALUE = "hunter2-is-not-shown"


def tcp(port: int, host: str = "127.0.0.1") -> dict[str, Any]:
    return {"kind": "tcp", "facts": {"host": host, "port": port}}


def target(kind: str, **facts: Any) -> dict[str, Any]:
    return {"kind": kind, "facts": facts}


@contextlib.contextmanager
def listening(backlog: int = 8) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def full() -> Iterator[int]:
    """A port whose queue is full: as with a firewall, nothing answers."""
    with listening(0) as port, contextlib.ExitStack() as waiting:
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(("127.0.0.1", port))
        yield port


def closed() -> int:
    with listening() as port:
        return port


@contextlib.contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """A server with a certificate of an authority of its own, in ``ca.pem``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with contextlib.suppress(OSError), connection:
                    context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)


async def tried(*targets: dict[str, Any], seconds: float = 1.0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await try_here(targets, seconds))["results"]
    return found


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    # Nothing answers as a metadata service.
    endpoint = f"http://127.0.0.1:{closed()}"
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


async def test_connections_distinguish_reached_refused_and_unanswered() -> None:
    with listening() as open_port, full() as full_port:
        found = await tried(
            tcp(open_port), tcp(closed()), tcp(full_port), tcp(5432, "nowhere.invalid")
        )
    reached, refused, unanswered, unknown = found
    assert reached["addresses"] == ["127.0.0.1"]
    assert 0 <= reached["connected_seconds"] < 1
    assert "problem" not in reached
    assert refused["problem"]["kind"] == "refused"
    assert unanswered["problem"]["kind"] == "timeout"
    assert unanswered["problem"]["address"] == "127.0.0.1"
    assert unknown["problem"]["kind"] in ("no_name", "no_name_server")


async def test_a_url_needs_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(tmp_path) as port:
        url = target("url", scheme="https", host="localhost", port=port)
        (untrusted,) = await tried(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        (trusted,) = await tried(url)
    assert untrusted["problem"]["kind"] == "tls"
    assert "certificate verify failed" in untrusted["problem"]["text"]
    assert "problem" not in trusted
    assert trusted["connected_seconds"] is not None


async def test_the_proxy_of_the_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as proxy, refusing(403, b"no such host here") as door:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{door}")
        monkeypatch.setenv("NO_PROXY", "inside.invalid")
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy}")
        outside, inside, plain = await tried(
            target("url", scheme="https", host="licences.invalid", port=443),
            target("url", scheme="https", host="inside.invalid", port=443),
            target("url", scheme="http", host="licences.invalid", port=80),
        )
    assert outside["problem"]["kind"] == "proxy"
    assert "403" in outside["problem"]["text"]
    assert inside["problem"]["kind"] in ("no_name", "no_name_server")
    assert plain["proxy"] == "127.0.0.1"
    assert "problem" not in plain


# ---- calls of AWS --------------------------------------------------------------------------------


@contextlib.contextmanager
def refusing(status: int, body: bytes) -> Iterator[int]:
    """A server that refuses every request."""

    class Refuser(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_CONNECT = refuse  # noqa: N815 - http.server's names

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuser) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def with_credentials(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def calls(found: dict[str, Any]) -> dict[str, str | None]:
    return {one["call"]: one.get("code") for one in found["calls"]}


async def test_calls_read_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_server() as endpoint:
        with_credentials(monkeypatch, endpoint)
        s3, secrets, ssm = (boto3.client(name) for name in ("s3", "secretsmanager", "ssm"))
        s3.create_bucket(Bucket="lake")
        s3.put_object(Bucket="lake", Key="2026/a", Body=SECRET_VALUE.encode())
        s3.put_object(Bucket="lake", Key="empty", Body=b"")
        arn = secrets.create_secret(Name="db", SecretString=SECRET_VALUE)["ARN"]
        ssm.put_parameter(Name="/db/token", Value=SECRET_VALUE, Type="SecureString")
        parameter = ssm.get_parameter(Name="/db/token")["Parameter"]["ARN"]
        boto3.client("dynamodb").create_table(
            TableName="prices",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        boto3.client("dynamodb").put_item(TableName="prices", Item={"id": {"S": SECRET_VALUE}})
        boto3.client("sqs").create_queue(QueueName="work")
        topic = boto3.client("sns").create_topic(Name="news")["TopicArn"]
        key = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]
        glue = boto3.client("glue")
        glue.create_database(DatabaseInput={"Name": "lake"})
        glue.create_table(DatabaseName="lake", TableInput={"Name": "t"})
        before = json.dumps(s3.list_objects_v2(Bucket="lake")["Contents"], default=str)
        answer = await try_here(
            [
                target("s3", bucket="lake", key="2026/a", is_prefix=False),
                target("s3", bucket="lake", key="empty", is_prefix=False),
                target("s3", bucket="lake", key="2026/", is_prefix=True),
                target("s3", bucket="lake", key="2027/", is_prefix=True),
                target("s3", bucket="lake", key="gone", is_prefix=False),
                target("secret", region=REGION, arn=arn),
                target("parameter", region=REGION, name=parameter),
                target("table", region=REGION, name="prices"),
                target("queue", region=REGION, account=ACCOUNT, name="work"),
                target("topic", region=REGION, arn=topic),
                target("key", region=REGION, arn=key),
                target("catalog", region=REGION, account=ACCOUNT, database="lake", table=None),
                target("catalog", region=REGION, account=ACCOUNT, database="lake", table="t"),
                target("role", arn=f"arn:aws:iam::{ACCOUNT}:role/reader"),
            ],
            5.0,
        )
        assert json.dumps(s3.list_objects_v2(Bucket="lake")["Contents"], default=str) == before
    found = [calls(one) for one in answer["results"]]
    assert found[0] == {"s3:GetObject": None}
    assert found[1] == {"s3:GetObject": "InvalidRange"}
    assert found[2] == {"s3:ListBucket": None, "s3:GetObject": None}
    assert found[3] == {"s3:ListBucket": None}
    assert found[4] == {"s3:GetObject": "NoSuchKey"}
    assert found[5] == {"secretsmanager:GetSecretValue": None}
    assert found[6] == {"ssm:GetParameter": None}
    assert found[7] == {"dynamodb:GetItem": "ValidationException", "dynamodb:Scan": None}
    assert found[8] == {"sqs:GetQueueAttributes": None}
    assert found[9] == {"sns:GetTopicAttributes": None}
    assert found[10].keys() == {"kms:DescribeKey", "kms:GenerateDataKey"}
    assert found[11:13] == [{"glue:GetDatabase": None}, {"glue:GetTable": None}]
    assert found[13] == {"sts:AssumeRole": None}
    assert answer["caller"].startswith(f"arn:aws:sts::{ACCOUNT}:")
    # No value leaves the host.
    assert SECRET_VALUE not in json.dumps(answer)


async def test_a_refusal_arrives_as_aws_words_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "User: x is not authorized to perform: secretsmanager:GetSecretValue"
    body = json.dumps({"__type": "AccessDeniedException", "Message": text})
    with refusing(400, body.encode()) as port:
        with_credentials(monkeypatch, f"http://127.0.0.1:{port}")
        (found,) = await tried(target("secret", region=REGION, arn="arn:aws:x"))
    (call,) = found["calls"]
    assert (call["code"], call["message"], call["status"]) == ("AccessDeniedException", text, 400)
    assert found["addresses"] == ["127.0.0.1"]


async def test_an_endpoint_that_isnt_reached_is_a_connections_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with full() as port:
        with_credentials(monkeypatch, f"http://127.0.0.1:{port}")
        (found,) = await tried(target("secret", region=REGION, arn="arn:aws:x"))
    assert found["problem"]["kind"] == "timeout"
    assert found["calls"] == []


async def test_without_credentials_the_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing(400, b"{}") as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        (found,) = await tried(target("secret", region=REGION, arn="arn:aws:x"))
    assert found["calls"][0]["code"] == "NoCredentialsError"


async def test_an_unknown_kind_of_a_newer_client_is_that_targets_problem_alone() -> None:
    with listening() as port:
        new, known = await tried(target("telepathy", to="x"), tcp(port))
    assert new["problem"]["kind"] == "failed"
    assert "problem" not in known


# ---- by the scheduler ----------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def cluster() -> Any:
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0") as scheduler,
        Worker(scheduler.address, name="i-1", nthreads=1, host="127.0.0.1") as worker,
    ):
        yield Reach(scheduler), scheduler, worker


async def test_a_worker_tries_and_reports_to_the_scheduler() -> None:
    with listening() as port:
        async with cluster() as (reach, scheduler, _worker):
            by_worker = await reach.try_targets([tcp(port)], 1.0, "i-1")
            by_scheduler = await reach.try_targets([tcp(port)], 1.0, None)
            assert FOUND_OPERATION in scheduler.handlers
            assert not reach._waiting
    assert by_worker["results"][0]["addresses"] == ["127.0.0.1"]
    assert by_scheduler["results"][0].keys() == by_worker["results"][0].keys()


async def test_a_worker_that_cant_is_an_error() -> None:
    async with cluster() as (reach, _scheduler, worker):
        with pytest.raises(CommandRefused, match="has left"):
            await reach.try_targets([tcp(1)], 1.0, "i-2")
        # As a host of an older terradask, which doesn't know the function.
        worker.handlers["run"] = lambda **_: {"status": "error", "exception_text": "no module"}
        with pytest.raises(CommandRefused, match="can't try them: no module"):
            await reach.try_targets([tcp(1)], 1.0, "i-1")
        assert not reach._waiting


async def test_a_busy_worker_runs_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_reach, "_WAY_SECONDS", 0.0)
    monkeypatch.setattr(host_reach.reach_probe, "START_SECONDS", 0.0)
    async with cluster() as (reach, _scheduler, worker):
        worker.handlers["run"] = lambda **_: {"status": "OK", "result": None}
        with pytest.raises(CommandRefused, match="didn't answer in time"):
            await reach.try_targets([tcp(1)], 0.05, "i-1")
        # What comes later, or from others, is no answer.
        reach.take("another", "{}")


async def test_a_program_that_fails_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('out of memory')")
    monkeypatch.setattr(host_reach.reach_probe, "__file__", str(broken))
    with pytest.raises(RuntimeError, match="out of memory"):
        await try_here([tcp(1)], 1.0)
