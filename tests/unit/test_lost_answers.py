"""A conditional write whose answer was lost: the SDK repeats it, and S3 refuses because of what its
first attempt wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._observe.store import ClusterObjects
from terradask._terraform.state.s3 import S3Backend
from terradask.errors import StateLocked

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"
MINE, OTHER = {"run_id": "mine", "seen": ("a",)}, {"run_id": "other"}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with moto_account():
        aws = Aws("us-east-1")
        client = aws.client("s3")
        client.create_bucket(Bucket=BUCKET)
        monkeypatch.setattr(client, "put_object", repeated(client.put_object))
        yield aws


@pytest.fixture
def objects(aws: Aws) -> ClusterObjects:
    return ClusterObjects(aws, BUCKET, "etl")


def repeated(put: Callable[..., Any]) -> Callable[..., Any]:
    """Do everything twice, as an SDK does that has missed the first answer."""

    def put_object(**request: Any) -> Any:
        put(**request)
        return put(**request)

    return put_object


def test_what_was_claimed_is_ones_own(objects: ClusterObjects) -> None:
    assert objects.claim("run.json", MINE)
    assert not objects.claim("run.json", OTHER)
    assert objects.read("run.json") == {"run_id": "mine", "seen": ["a"]}


def test_what_was_replaced_is_ones_own(objects: ClusterObjects) -> None:
    objects.write("run.json", OTHER)
    found = objects.read_version("run.json")
    assert found is not None
    assert objects.replace("run.json", MINE, found[1])
    assert not objects.replace("run.json", OTHER, found[1])
    assert not objects.replace("nowhere.json", OTHER, found[1])


def test_a_lock_that_was_taken_is_ones_own(aws: Aws, tmp_path: Path) -> None:
    place = S3Backend(aws, BUCKET, "workspaces/default/network.tfstate")
    with (
        place.held(tmp_path, None, print),
        pytest.raises(StateLocked),
        place.held(tmp_path, None, print),
    ):
        pass
    assert place.lock() is None


def test_only_the_lock_that_was_looked_at_is_broken(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, client = S3Backend(aws, BUCKET, "workspaces/default/network.tfstate"), aws.client("s3")

    def take(lock_id: str) -> None:
        client.put_object(
            Bucket=BUCKET, Key=f"{place.key}.tflock", Body=f'{{"ID": "{lock_id}"}}'.encode()
        )

    def held() -> str | None:
        lock = place.lock()
        return None if lock is None else lock.id

    delete = client.delete_object

    def late(**request: Any) -> Any:
        take("theirs")
        return delete(**request)

    take("theirs")
    place.break_lock("mine")
    assert held() == "theirs"
    take("mine")
    with monkeypatch.context() as patched:
        patched.setattr(client, "delete_object", late)
        place.break_lock("mine")
    assert held() == "theirs"
    # The answer to the deletion is lost, and the SDK asks again.
    take("mine")
    monkeypatch.setattr(client, "delete_object", repeated(delete))
    place.break_lock("mine")
    assert held() is None
