"""What another user of this machine, or a page in a browser, tries with an embedded AWS."""

from __future__ import annotations

import hashlib
import http.client
import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import psutil
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.client import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from tests.shape_report import ShapeReport
from tests.small_network import SmallNetwork
from tests.waiting import HANG_SECONDS, eventually

from terradask_simulator import Simulator, SimulatorError
from terradask_simulator.aws.access_keys import read_owner_key
from terradask_simulator.environment import credentials_path
from terradask_simulator.lifecycle import environment_of
from terradask_simulator.process import request_control

from .host_metadata import Imds, metadata_of

pytestmark = pytest.mark.simulator

#: Pairs that programs for tests use, and that this one once had for all.
CONSTANT = {
    "moto": ("testing", "testing"),
    "localstack": ("test", "test"),
    "AWS's documentation": ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "a constant of the embedded AWS": ("AKIATERRADASKSIMULATE", "terradask-simulator"),
}
REFUSED = {
    "AccessDenied",
    "AuthFailure",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
RUN = "clusters/etl/run.json"
HOST = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def network() -> Iterator[SmallNetwork]:
    """An embedded AWS with a bucket that holds a host program and a run's document."""
    with Simulator.start() as simulator:
        made = SmallNetwork(simulator, "attacked")
        try:
            made.build()
            made.client("s3").put_object(Bucket=made.bucket, Key=RUN, Body=b"{}")
            yield made
        finally:
            made.clients.close()


def send(
    sim: Simulator,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str, dict[str, str]]:
    """Send bytes as any program can."""
    connection = http.client.HTTPConnection("127.0.0.1", sim.info.port, timeout=HANG_SECONDS)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace"), dict(answer.headers)
    finally:
        connection.close()


def signed(
    sim: Simulator, method: str, path: str, body: bytes = b"", *, service: str = "s3"
) -> dict[str, str]:
    """Return the headers of a request that the owner signed."""
    key = read_owner_key(credentials_path(sim.state_dir))
    request = AWSRequest(method, f"{sim.endpoint_url}{path}", data=body)
    kind = S3SigV4Auth if service == "s3" else SigV4Auth
    kind(Credentials(key.access_key_id, key.secret), service, "us-east-1").add_auth(request)
    return dict(request.headers.items())


def stored(network: SmallNetwork, key: str = RUN) -> bytes:
    content: bytes = network.client("s3").get_object(Bucket=network.bucket, Key=key)["Body"].read()
    return content


@pytest.mark.parametrize("pair", CONSTANT.values(), ids=CONSTANT)
@pytest.mark.parametrize("service", ["s3", "ec2", "sts", "secretsmanager"])
def test_constant_keys_are_refused(
    network: SmallNetwork, pair: tuple[str, str], service: str
) -> None:
    calls = {
        "s3": "list_buckets",
        "ec2": "describe_instances",
        "sts": "get_caller_identity",
        "secretsmanager": "list_secrets",
    }
    client: Any = boto3.client(  # type: ignore[call-overload]
        service,
        region_name="us-east-1",
        endpoint_url=network.sim.endpoint_url,
        aws_access_key_id=pair[0],
        aws_secret_access_key=pair[1],
    )
    with pytest.raises(ClientError) as caught:
        getattr(client, calls[service])()
    client.close()
    assert caught.value.response["Error"]["Code"] in REFUSED


def test_the_owners_key_id_without_its_secret_is_refused(network: SmallNetwork) -> None:
    key = read_owner_key(credentials_path(network.sim.state_dir))
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=network.sim.endpoint_url,
        aws_access_key_id=key.access_key_id,
        aws_secret_access_key="guessed",
    )
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client.put_object(Bucket=network.bucket, Key=RUN, Body=b"planted")
    client.close()
    assert stored(network) == b"{}"


def test_an_upload_without_a_signature_changes_nothing_that_hosts_run(
    network: SmallNetwork,
) -> None:
    key, _ = network.wheel(HOST)
    before = stored(network, key)
    for path in (key, RUN, "planted"):
        status, text, _ = send(network.sim, "PUT", f"/{network.bucket}/{path}", b"planted")
        assert (status, "AccessDenied" in text) == (403, True)
    for form in ("Action=RunInstances&Version=2016-11-15", "Action=AssumeRole&Version=2011-06-15"):
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert send(network.sim, "POST", "/", form.encode(), kind)[0] == 403
    assert (stored(network, key), stored(network)) == (before, b"{}")
    with pytest.raises(ClientError, match="NoSuchKey"):
        stored(network, "planted")


def test_another_body_or_path_than_the_signed_one_is_refused(network: SmallNetwork) -> None:
    path, form = f"/{network.bucket}/{RUN}", b"Action=DescribeVpcs&Version=2016-11-15"
    headers = signed(network.sim, "PUT", path, b"right")
    assert send(network.sim, "PUT", path, b"wrong", headers)[0] == 400
    assert send(network.sim, "PUT", f"{path}.other", b"right", headers)[0] == 403
    assert send(network.sim, "PUT", f"{path}?acl", b"right", headers)[0] == 403
    assert send(network.sim, "DELETE", path, b"", headers)[0] == 403
    # A payload hash of the attacker's own breaks the signature.
    hashed = {"X-Amz-Content-SHA256": hashlib.sha256(b"wrong").hexdigest()}
    assert send(network.sim, "PUT", path, b"wrong", headers | hashed)[0] == 403
    copied = {"x-amz-copy-source": f"/{network.bucket}/planted"}
    assert send(network.sim, "PUT", path, b"right", headers | copied)[0] == 403
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    query = kind | signed(network.sim, "POST", "/", form, service="ec2")
    assert send(network.sim, "POST", "/", form, query)[0] == 200
    assert send(network.sim, "POST", "/", form.replace(b"Vpcs", b"Hosts"), query)[0] == 401
    assert stored(network) == b"{}"
    assert send(network.sim, "PUT", path, b"right", headers)[0] == 200
    assert stored(network) == b"right"
    network.client("s3").put_object(Bucket=network.bucket, Key=RUN, Body=b"{}")


def test_a_presigned_url_opens_what_it_names_and_nothing_else(network: SmallNetwork) -> None:
    with network.sim.applied():
        client = boto3.client("s3", config=Config(signature_version="s3v4"))
        asked = {"Bucket": network.bucket, "Key": RUN}
        parts = urlsplit(client.generate_presigned_url("get_object", Params=asked))
        old = urlsplit(boto3.client("s3").generate_presigned_url("get_object", Params=asked))
        client.close()
    assert send(network.sim, "GET", f"{parts.path}?{parts.query}")[:2] == (200, "{}")
    assert send(network.sim, "GET", f"{parts.path}x?{parts.query}")[0] == 403
    assert send(network.sim, "PUT", f"{parts.path}?{parts.query}", b"planted")[0] == 403
    assert send(network.sim, "GET", f"{parts.path}?{parts.query}&versionId=1")[0] == 403
    longer = parts.query.replace("X-Amz-Expires=3600", "X-Amz-Expires=86400")
    assert send(network.sim, "GET", f"{parts.path}?{longer}")[0] == 403
    assert "Signature=" in old.query
    assert "X-Amz-Signature" not in old.query
    # Signature Version 2, which S3 takes for no new bucket.
    assert send(network.sim, "GET", f"{old.path}?{old.query}")[0] == 403
    with network.sim.skew_clock(3601):
        assert send(network.sim, "GET", f"{parts.path}?{parts.query}")[0] == 403


def test_two_callers_in_one_header_are_none(network: SmallNetwork) -> None:
    """A caller with few rights names the owner besides: all that reads the header has to agree."""
    path = f"/{network.bucket}/{RUN}"
    headers = signed(network.sim, "GET", path)
    for text in (
        headers["Authorization"].replace(" Credential=", " Credential=AKIA/1/r/s/aws4_request, ")
        + ", Credential=AKIA/1/r/s/aws4_request",
        headers["Authorization"] + ", Credential=AKIA/1/r/s/aws4_request",
        headers["Authorization"].replace("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 X=1, "),
    ):
        assert send(network.sim, "GET", path, headers=headers | {"Authorization": text})[0] == 403
    assert send(network.sim, "GET", path, headers=headers)[0] == 200


def test_temporary_credentials_without_their_token_are_refused(network: SmallNetwork) -> None:
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    environ = network.sim.environ_of("role", {"Version": "2012-10-17", **everything})
    given = {
        "aws_access_key_id": environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint_url": network.sim.endpoint_url,
        "region_name": "us-east-1",
    }
    for token, works in ((environ["AWS_SESSION_TOKEN"], True), ("made-up", False), (None, False)):
        client: Any = boto3.client("sts", aws_session_token=token, **given)  # type: ignore[call-overload]
        if works:
            assert client.get_caller_identity()["Arn"].endswith(":assumed-role/role/role")
        else:
            with pytest.raises(ClientError, match="InvalidClientTokenId"):
                client.get_caller_identity()
        client.close()


@pytest.mark.parametrize(
    "path", ["moto-api/data.json", "moto-api/reset", "latest/meta-data/x", "latest/api/token"]
)
def test_motos_own_paths_are_closed_even_for_the_owner(
    network: SmallNetwork, path: str, shape_report: ShapeReport
) -> None:
    for method in ("GET", "POST"):
        assert send(network.sim, method, f"/{path}")[0] == 403
        headers = signed(network.sim, method, f"/{path}")
        assert send(network.sim, method, f"/{path}", headers=headers)[0] == 404
    assert stored(network) == b"{}"
    shape_report.take()  # S3 has no such call


def test_switches_and_the_end_are_the_owners_alone(network: SmallNetwork) -> None:
    for method, path in (
        ("GET", "info"),
        ("GET", "history"),
        ("POST", "switches/no_capacity"),
        ("POST", "stop"),
    ):
        assert send(network.sim, method, f"/terradask-sim/{path}", b"{}")[0] == 403
        # The owner's signature for S3 is none for the simulator itself.
        other = signed(network.sim, method, f"/terradask-sim/{path}", b"{}")
        assert send(network.sim, method, f"/terradask-sim/{path}", b"{}", other)[0] == 403
    assert request_control(network.sim.info, "GET", "info")["port"] == network.sim.info.port


def test_the_key_lies_in_a_file_of_its_users_and_nowhere_else(network: SmallNetwork) -> None:
    state_dir = network.sim.state_dir
    path = credentials_path(state_dir)
    secret = read_owner_key(path).secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in str(environment_of(network.sim.info))
    assert secret not in json.dumps(network.sim.info.as_dict())
    assert secret not in repr(read_owner_key(path))
    holding = [
        str(file)
        for file in state_dir.rglob("*")
        if file.is_file() and secret.encode() in file.read_bytes()
    ]
    assert holding == [str(path)]
    daemon = psutil.Process(network.sim.info.pid)
    for process in (daemon, *daemon.children(recursive=True)):
        assert secret not in " ".join(process.cmdline())
    with Simulator.start(boot_hosts=False) as other:
        assert read_owner_key(credentials_path(other.state_dir)).secret != secret
        key = path.read_bytes()
        credentials_path(other.state_dir).write_bytes(key)
        with pytest.raises(SimulatorError, match="refused GET info"):
            request_control(other.info, "GET", "info")
        credentials_path(other.state_dir).unlink()
        other._process.kill()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8000"},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "attacked.s3.amazonaws.com"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
    ],
    ids=str,
)
def test_a_web_page_reads_nothing(network: SmallNetwork, headers: dict[str, str]) -> None:
    """Also not with a valid signature, which a page doesn't have."""
    for path in (f"/{network.bucket}/{RUN}", "/terradask-sim/address", "/terradask-sim/info", "/"):
        for method in ("GET", "OPTIONS", "POST"):
            mine = signed(network.sim, method, path) | headers
            status, text, answered = send(network.sim, method, path, headers=mine)
            assert status == 403
            assert text.strip().partition("\n")[0].startswith(("requests of web", "the Host is"))
            assert not [name for name in answered if name.lower().startswith("access-control")]


def test_no_answer_lets_other_origins_read_it(network: SmallNetwork) -> None:
    path = f"/{network.bucket}/{RUN}"
    for headers in ({}, signed(network.sim, "GET", path)):
        _, _, answered = send(network.sim, "GET", path, headers=headers)
        assert not [name for name in answered if name.lower().startswith("access-control")]


def test_a_hosts_metadata_are_for_those_who_know_its_path(network: SmallNetwork) -> None:
    key, sha256 = network.wheel(HOST)
    group = network.group("hosted", network.template(network.user_data(key, sha256)))
    network.want(group, 1)

    def booted() -> Any:
        return [one for one in network.sim.hosts() if one.cluster == group and one.pid]

    (host,) = eventually(booted)
    endpoint = urlsplit(metadata_of(host))
    assert len(endpoint.path) > 30

    def ask_for_token(prefix: str) -> int:
        ttl = {"X_aws_ec2_metadata_token_ttl_seconds": "60"}
        place = Imds(f"http://{endpoint.netloc}{prefix}")
        return place.ask("/latest/api/token", "PUT", **ttl)[0]

    right = endpoint.path
    for prefix in ("", "/", f"/{'x' * (len(right) - 1)}", right[:-1], right.upper(), quote("/ä")):
        assert ask_for_token(prefix) == 404
    assert ask_for_token(right) == 200
    assert endpoint.path not in Path(host.log_path).read_text()
    assert endpoint.path not in (network.sim.state_dir / "daemon.log").read_text()
