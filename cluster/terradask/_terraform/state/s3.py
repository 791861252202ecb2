"""A state in an object of S3: read, write and lock it without Terraform."""

from __future__ import annotations

import contextlib
import datetime
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.s3 import ObjectStore, StoredObject, as_json
from terradask._aws.session import Aws
from terradask._common.processes import this_user
from terradask._terraform.state.backend import ASIDE, FoundState, LockWait, until_free
from terradask._terraform.state.local import LocalBackend
from terradask._terraform.state.lock_info import LockInfo
from terradask._terraform.state.lock_owner import proof_of_end
from terradask._terraform.state.model import StateInfo, state_of
from terradask.errors import AccessDenied, BackendMissing, StateConflict

#: The command that makes the bucket of the networks' states.
MAKE_BUCKET = "terradask init --state s3"

_LOCK = ".tflock"


class S3Backend:
    """A state in an object of S3, locked by an object beside it as Terraform's ``use_lockfile``
    does.

    Permissions needed: ``s3:GetObject``, ``s3:PutObject`` and ``s3:DeleteObject`` on the object,
    the one with ``.tflock`` and the one with ``.migrated`` behind its name, and ``s3:ListBucket``;
    with a KMS key ``kms:GenerateDataKey`` and ``kms:Decrypt``.

    Parameters
    ----------
    owner
        The account that must have the bucket. None: the one in the name of a workspace's bucket.
    encryption
        What every write names, by `encrypted_with`. None: what the workspace's bucket has.
    made_by
        The command that makes the bucket.
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

    def read(self) -> FoundState | None:
        """Return the state; None where there is none. Raises `BackendMissing`."""
        found = self._get(self.key)
        if found is None:
            return None
        document = state_of(found.content, self.name)
        return (
            FoundState(found.content, StateInfo.from_json(document), found.etag)
            if document
            else None
        )

    def write(self, content: bytes, *, over: FoundState | None) -> None:
        """Put a state here, on condition that what lies here is `over`, or nothing."""
        with self._named("s3:PutObject"):
            written = (
                self._store.claim(self.key, content)
                if over is None
                else self._store.replace(self.key, content, str(over.version))
            )
        if not written:
            raise StateConflict(
                "another command wrote a state to this place while the state was being moved",
                given=self.name,
                advice="find out which command that was, then run this one again",
            )

    def set_aside(self) -> str:
        """Copy the object to another name, then delete it."""
        with self._named("s3:PutObject"):
            self._store.copy(self.key, self.key + ASIDE)
        self._delete(self.key)
        return self.name + ASIDE

    @contextlib.contextmanager
    def held(self, waiting: LockWait) -> Iterator[None]:
        """Hold the lock on the object."""
        lock = {
            "ID": str(uuid.uuid4()),
            "Operation": "OperationTypeInvalid",
            "Info": "terradask moves the state",
            "Who": this_user(),
            "Version": "",
            "Created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "Path": f"{self.bucket}/{self.key}",
        }
        content = json.dumps(lock).encode()
        until_free(
            lambda: self._claim(self.key + _LOCK, content),
            lambda: self.release_killed(waiting),
            waiting,
        )
        try:
            yield
        finally:
            self._delete(self.key + _LOCK)

    def lock(self) -> LockInfo | None:
        """Return the lock, whether its holder is alive or not."""
        found = self._get(self.key + _LOCK)
        return None if found is None else LockInfo.from_json(found.content)

    def break_lock(self, lock_id: str | None) -> None:
        """Delete the lock of this id, and none that was taken meanwhile."""
        found = self._get(self.key + _LOCK)
        if found is not None and LockInfo.from_json(found.content).id == lock_id:
            self._delete(self.key + _LOCK, etag=found.etag)

    def release_killed(self, waiting: LockWait) -> LockInfo | None:
        """Break the lock of the folder's killed command; return another's, or None."""
        lock = self.lock()
        proof = None if lock is None else proof_of_end(lock, waiting.killed)
        if lock is not None and proof is not None:
            waiting.on_wait(f"removing the lock that a killed command left on {self.name}")
            waiting.on_unlock(self, lock, proof)
            self.break_lock(lock.id)
            return None
        return lock

    def write_beside(self, key: str, document: Mapping[str, Any]) -> None:
        """Write a new JSON object into the same bucket."""
        with self._named("s3:PutObject"):
            self._store.claim(key, as_json(document))

    def _claim(self, key: str, content: bytes) -> bool:
        with self._named("s3:PutObject"):
            return self._store.claim(key, content)

    def _get(self, key: str) -> StoredObject | None:
        with self._named("s3:GetObject"):
            return self._store.read(key)

    def _delete(self, key: str, *, etag: str | None = None) -> None:
        with self._named("s3:DeleteObject"):
            self._store.delete(key, etag=etag)

    def _named(self, action: str) -> AbstractContextManager[None]:
        return bucket_errors(self.bucket, action, made_by=self._made_by)


def encrypted_with(kms_key_arn: str | None) -> dict[str, str]:
    """Return how a write names its encryption: with a key, or with S3's own."""
    if kms_key_arn is None:
        return {"ServerSideEncryption": "AES256"}
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_arn}


#: Where a state lies, or may lie.
StateBackend = LocalBackend | S3Backend


@contextlib.contextmanager
def bucket_errors(bucket: str, action: str, *, made_by: str = MAKE_BUCKET) -> Iterator[None]:
    """Raise `BackendMissing` or `AccessDenied`, with bucket and action, for S3's answers."""
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
    """Return the error for a state's bucket that isn't there."""
    return BackendMissing(
        "the bucket for the state doesn't exist",
        given=bucket,
        advice=(
            f"create it with: {made_by}; or correct the settings ([state], [workspace]) or the "
            "AWS account"
        ),
    )
