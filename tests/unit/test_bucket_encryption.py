"""What is written to a workspace's bucket names the encryption that the bucket has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.session import get_session

from terradask._aws.session import Aws
from terradask._terraform.state.s3 import S3Backend, encrypted_with
from terradask_host.agent.aws import Aws as HostAws
from terradask_host.bucket_calls import name_encryption, of_network
from terradask_modules.names import bucket_name

ACCOUNT = "123456789012"
BUCKET = bucket_name("team", ACCOUNT, "us-east-1")
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/0123abcd-01ab-23cd-45ef-0123456789ab"
WITH_KEY = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}
OF_S3 = {"ServerSideEncryption": "AES256"}
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("put_object", {"Body": b""}),
    ("create_multipart_upload", {}),
    ("copy_object", {"CopySource": {"Bucket": BUCKET, "Key": "from"}}),
]


class Answering:
    """S3 as seen by one client: how objects are encrypted by key; others are missing."""

    def __init__(self, client: Any, **encrypted: dict[str, str]) -> None:
        self.client = client
        self.encrypted = encrypted
        self.sent: list[tuple[str, dict[str, str]]] = []
        client.meta.events.register("before-call.s3", self._answer)

    def _answer(self, model: Any, params: Any, **_: Any) -> Any:
        key = params["url_path"].rpartition("/")[2]
        short = {
            "ServerSideEncryption": "x-amz-server-side-encryption",
            "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
        }
        named = {name: params["headers"].get(header) for name, header in short.items()}
        self.sent.append((model.name, {name: each for name, each in named.items() if each}))
        found = self.encrypted.get(key.partition(".")[0])
        reads = model.name in ("GetObject", "HeadObject")
        if reads and found is None:
            return SimpleNamespace(status_code=404), {"Error": {"Code": "NoSuchKey"}}
        return SimpleNamespace(status_code=200), dict(found or {}) if reads else {}

    def written(self, call: str, bucket: str = BUCKET, **parameters: Any) -> dict[str, str]:
        """Return the encryption that a write names."""
        getattr(self.client, call)(Bucket=bucket, Key="k", **parameters)
        return self.sent[-1][1]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


@pytest.mark.parametrize("how", [WITH_KEY, OF_S3], ids=["key", "s3"])
def test_a_client_asks_once_how_the_network_was_written(how: dict[str, str]) -> None:
    s3 = Answering(Aws("us-east-1").client("s3"), workspace=how)

    for call, parameters in WRITES:
        assert s3.written(call, **parameters) == how
    assert [name for name, _ in s3.sent].count("HeadObject") == 1


@pytest.mark.parametrize("how", [WITH_KEY, OF_S3], ids=["key", "s3"])
def test_the_lock_of_a_clusters_state_is_written_as_the_network_was(
    how: dict[str, str], tmp_path: Path
) -> None:
    aws = Aws("us-east-1")
    s3 = Answering(aws.client("s3"), workspace=how)
    place = S3Backend(aws, BUCKET, "clusters/etl/terraform.tfstate")
    with place.held(tmp_path, None, print):
        pass
    place.write_beside("unlocks/now.json", {})
    assert [named for call, named in s3.sent if call == "PutObject"] == [how] * 2


def test_what_lies_beside_a_networks_state_is_written_as_its_settings_say() -> None:
    aws = Aws("us-east-1")
    s3 = Answering(aws.client("s3"), workspace=WITH_KEY)
    for bucket in (BUCKET, "states"):
        S3Backend(aws, bucket, "k", encryption=encrypted_with(None)).write_beside("u", {})
    S3Backend(aws, "states", "k", encryption=encrypted_with(KEY)).write_beside("u", {})
    assert [named for _, named in s3.sent] == [OF_S3, OF_S3, WITH_KEY]


def test_what_was_read_last_counts() -> None:
    s3 = Answering(Aws("us-east-1").client("s3"), workspace=OF_S3)
    s3.client.get_object(Bucket=BUCKET, Key="workspace.json")
    assert s3.written("put_object", Body=b"") == OF_S3
    s3.encrypted["workspace"] = WITH_KEY
    s3.client.get_object(Bucket=BUCKET, Key="workspace.json")
    assert s3.written("put_object", Body=b"") == WITH_KEY
    assert [name for name, _ in s3.sent].count("HeadObject") == 0


def test_without_a_network_the_bucket_decides() -> None:
    s3 = Answering(Aws("us-east-1").client("s3"))
    assert s3.written("put_object", Body=b"") == {}


def test_a_host_writes_as_its_run_was_written() -> None:
    s3 = Answering(HostAws("us-east-1").client("s3"), run=WITH_KEY, other=OF_S3)
    for key in ("clusters/etl/run.json", "clusters/etl/other.json"):
        s3.client.get_object(Bucket=BUCKET, Key=key)
    for call, parameters in WRITES:
        assert s3.written(call, **parameters) == WITH_KEY
    assert "HeadObject" not in {name for name, _ in s3.sent}


def test_a_host_that_writes_first_asks_for_its_run() -> None:
    s3 = Answering(HostAws("us-east-1").client("s3"), run=WITH_KEY)
    report = {"Bucket": BUCKET, "Key": "clusters/etl/hosts/i-1.json", "Body": b""}
    for _ in range(2):
        s3.client.put_object(**report)
        assert s3.sent[-1] == ("PutObject", WITH_KEY)
    assert [name for name, _ in s3.sent].count("HeadObject") == 1


def test_other_buckets_and_named_encryption_are_left_as_they_are() -> None:
    client = name_encryption(get_session().create_client("s3", region_name="us-east-1"), of_network)
    s3 = Answering(client, workspace=WITH_KEY)
    for bucket in ("lake", f"terradask-state-{ACCOUNT}-us-east-1"):
        assert s3.written("put_object", bucket, Body=b"") == {}
    assert s3.written("put_object", Body=b"", **OF_S3) == OF_S3
