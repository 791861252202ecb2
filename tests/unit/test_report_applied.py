"""Notes of what was applied: told from objects in a bucket."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._plans.applied import AppliedNotes
from terradask._terraform.state.model import StateVersion
from terradask.errors import AccessDenied

BUCKET = "terradask-default-123456789012-us-east-1"


class FakeS3:
    """A bucket in memory, in the place of `Aws` and of its client."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.denied = ""
        self.settled_buckets: set[str] = set()

    def client(self, _service: str) -> FakeS3:
        return self

    def get_object(self, **asked: str) -> dict[str, Any]:
        assert asked["Bucket"] == BUCKET
        if self.denied and asked["Key"].startswith(self.denied):
            raise AccessDenied("s3:GetObject", "no")
        if asked["Key"] not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        content = self.objects[asked["Key"]]
        return {
            "Body": io.BytesIO(content),
            "ContentLength": len(content),
            "ETag": '"1"',
            "LastModified": datetime.datetime.now(datetime.UTC),
        }

    def list_objects_v2(self, **asked: Any) -> dict[str, Any]:
        found = sorted(key for key in self.objects if key.startswith(asked["Prefix"]))
        return {"Contents": [{"Key": key} for key in found[: asked["MaxKeys"]]]}

    def put_object(self, **asked: Any) -> None:
        assert (asked["Bucket"], asked["ContentType"]) == (BUCKET, "application/json")
        self.objects[asked["Key"]] = asked["Body"]


@pytest.fixture
def s3() -> Any:
    bucket = FakeS3()
    bucket.objects = {"workspace.json": b"{}"}
    return bucket


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    for stack in ("network", "etl"):
        (tmp_path / stack).mkdir()
        (tmp_path / stack / "cdk.tf.json").write_text("{}")
        (tmp_path / stack / ".terraform.lock.hcl").write_text("")
    return {stack: tmp_path / stack for stack in ("network", "etl")}


def _notes(s3: Any, **serials: int) -> AppliedNotes:
    """Notes in a workspace where states have these serials; 1 by default."""
    return AppliedNotes(s3, BUCKET, lambda stack: StateVersion(serials.get(stack, 1), "line"))


def test_what_was_applied_is_unchanged_until_something_changes(s3: Any, folders: dict[str, Path]):
    notes = _notes(s3)
    assert notes.unchanged(folders) == ()
    for stack, folder in folders.items():
        notes.write(stack, folder)
    assert notes.unchanged(folders) == ("network", "etl")

    assert _notes(s3, etl=2).unchanged(folders) == ("network",)
    s3.objects["workspace.json"] = b'{"templates": {}}'
    assert notes.unchanged(folders) == ("network",)
    notes.write("etl", folders["etl"])
    (folders["network"] / ".terraform.lock.hcl").write_text("another provider")
    assert notes.unchanged(folders) == ("etl",)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"format": 2}'])
def test_a_note_that_says_nothing_means_planning(s3: Any, folders: dict[str, Path], text: bytes):
    s3.objects["applied/clusters/etl.json"] = text
    assert _notes(s3).unchanged(folders) == ()


def test_who_may_not_read_notes_plans(s3: Any, folders: dict[str, Path]):
    notes = _notes(s3)
    notes.write("etl", folders["etl"])
    s3.denied = "applied/"
    assert notes.unchanged(folders) == ()
