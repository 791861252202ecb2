"""A state in an S3 object: read and lock it without Terraform."""

from __future__ import annotations

import contextlib
import datetime
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._common.processes import this_user
from terradask._terraform.state.lock import LockInfo, locked_error, proof_of_end
from terradask._terraform.state.model import StateInfo, state_of
from terradask.errors import AccessDenied, BackendMissing

#: The command that creates the bucket of the networks' states.
MAKE_BUCKET = "terradask init --state s3"

_LOCK = ".tflock"


class S3Backend:
    """A state in an S3 object, locked by an object beside it, like Terraform's ``use_lockfile``.

    Permissions needed: ``s3:GetObject`` on the object, ``s3:GetObject``, ``s3:PutObject`` and
    ``s3:DeleteObject`` on the one with ``.tflock`` behind its name, and ``s3:ListBucket``; with a
    KMS key ``kms:GenerateDataKey`` and ``kms:Decrypt``.

    The bucket must be the `owner`'s (None: the account's in a workspace bucket's name); every write
    has the options of `encryption`, from `encrypted_with` (None: the workspace bucket's default);
    the command `made_by` creates the bucket.
    """

    def __init__(
        self,
        aws: Aws,
        bucket: str,
        key: str,
        *,
        owner: str | None = None,
        encryption: Mapping[str, str] | None = None,
        made_by: str = MAKE_BUCKET,
    ) -> None:
        if owner is not None:
            aws.bucket_owners[bucket] = owner
        self._store = ObjectStore(aws, bucket, bucket_required=True, options=encryption)
        self._made_by = made_by
        self.bucket = bucket
        self.key = key
        self.name = f"s3://{bucket}/{key}"

    def document(self) -> Mapping[str, Any] | None:
        """Return the state's JSON, or None. Raises `BackendMissing`, `TerraformError`."""
        with self._named("s3:GetObject"):
            found = self._store.read(self.key)
        document = None if found is None else state_of(found.content, self.name)
        return document or None

    def read(self) -> StateInfo | None:
        """Return the state's known contents, or None. Raises `BackendMissing`, `TerraformError`."""
        document = self.document()
        return None if document is None else StateInfo.from_json(document)

    @contextlib.contextmanager
    def held(
        self, folder: Path, killed: Mapping[str, Any] | None, report: Callable[[str], None]
    ) -> Iterator[None]:
        """Hold the object's lock for a command in a stack's folder; break that of a command killed
        there (`FolderLock.killed`). Raises `StateLocked`.
        """
        lock = {
            "ID": str(uuid.uuid4()),
            "Operation": "OperationTypeInvalid",
            "Info": "terradask works on the cluster",
            "Who": this_user(),
            "Version": "",
            "Created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "Path": f"{self.bucket}/{self.key}",
        }
        content = json.dumps(lock).encode()
        while not self._claim(self.key + _LOCK, content):
            found = self.lock()
            if found is None:
                continue
            if proof_of_end(found, killed) is None:
                raise locked_error(found, {"verb": "state", "folder": str(folder)})
            report(f"removing a killed command's lock on {self.name}")
            self.break_lock(found.id)
        try:
            yield
        finally:
            self._delete(self.key + _LOCK)

    def lock(self) -> LockInfo | None:
        """Return the lock, even of a dead holder."""
        with self._named("s3:GetObject"):
            found = self._store.read(self.key + _LOCK)
        return None if found is None else LockInfo.from_json(found.content)

    def break_lock(self, lock_id: str | None) -> None:
        """Delete the lock of this id, and no newer one."""
        with self._named("s3:GetObject"):
            found = self._store.read(self.key + _LOCK)
        if found is not None and LockInfo.from_json(found.content).id == lock_id:
            self._delete(self.key + _LOCK, etag=found.etag)

    def write_beside(self, key: str, document: Mapping[str, Any]) -> None:
        """Write a new JSON object into the same bucket."""
        with self._named("s3:PutObject"):
            self._store.claim(key, as_json(document))

    def _claim(self, key: str, content: bytes) -> bool:
        with self._named("s3:PutObject"):
            return self._store.claim(key, content)

    def _delete(self, key: str, *, etag: str | None = None) -> None:
        with self._named("s3:DeleteObject"):
            self._store.delete(key, etag=etag)

    def _named(self, action: str) -> AbstractContextManager[None]:
        return bucket_errors(self.bucket, action, made_by=self._made_by)


def encrypted_with(kms_key_arn: str | None) -> dict[str, str]:
    """Return the options of an encrypted write: with a key, or with S3's own."""
    if kms_key_arn is None:
        return {"ServerSideEncryption": "AES256"}
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn}


@contextlib.contextmanager
def bucket_errors(bucket: str, action: str, *, made_by: str = MAKE_BUCKET) -> Iterator[None]:
    """Raise `BackendMissing` or `AccessDenied` with bucket and action for S3's errors."""
    try:
        yield
    except AccessDenied as denied:
        if ":" in denied.action:
            raise
        raise AccessDenied(action, f"{denied.given} (bucket {bucket})") from denied
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucket":
            raise
        raise missing_bucket(bucket, made_by) from error


def missing_bucket(bucket: str, made_by: str = MAKE_BUCKET) -> BackendMissing:
    """Return the error for a missing state bucket."""
    return BackendMissing(
        "the bucket for the state doesn't exist",
        given=bucket,
        advice=(
            f"create it with: {made_by}; or correct the settings ([state], [workspace]) or the "
            "AWS account"
        ),
    )
