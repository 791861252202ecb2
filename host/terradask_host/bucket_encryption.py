"""Encryption of writes to a workspace's bucket: the same as of one object that the network wrote.

AWS (documented): A bucket's policy may refuse a write to S3 without an encryption header, whatever
the bucket's default encryption is.
https://repost.aws/knowledge-center/s3-bucket-store-kms-encrypted-objects
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_BUCKET = re.compile(r"terradask-(?!state-).+-[0-9]{12}-[a-z0-9-]+")
_WRITES = frozenset({"PutObject", "CreateMultipartUpload", "CopyObject"})
_READS = frozenset({"GetObject", "HeadObject"})
_SOURCE = "terradask_encryption_of"


def of_network(key: str) -> str | None:
    """Return the key of the object with the encryption for callers: the network's document."""
    return "workspace.json"


def of_run(key: str) -> str | None:
    """Return the key of the object with the encryption for hosts: their cluster's run."""
    parts = key.split("/")
    return f"clusters/{parts[1]}/run.json" if parts[0] == "clusters" and len(parts) > 1 else None


def name_encryption(client: Any, asks: Callable[[str], str | None]) -> Any:
    """Add the encryption of a workspace's bucket to an S3 client's writes; return the client.

    `asks` maps an object's key to the key of the object whose encryption is the workspace's. It is
    known from reads of that object; otherwise the first write reads it. Until then the bucket's
    default applies.
    """
    _Encryption(client, asks)
    return client


class _Encryption:
    def __init__(self, client: Any, asks: Callable[[str], str | None]) -> None:
        self._client = client
        self._asks = asks
        #: Bucket -> parameters of a write.
        self._known: dict[str, dict[str, str]] = {}
        client.meta.events.register("before-parameter-build.s3", self._name)
        client.meta.events.register("after-call.s3", self._learn)

    def _name(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        bucket, key = str(params.get("Bucket")), str(params.get("Key"))
        if _BUCKET.fullmatch(bucket) is None:
            return
        if model.name in _READS and key == self._asks(key):
            context[_SOURCE] = bucket
        elif model.name in _WRITES and "ServerSideEncryption" not in params:
            if bucket not in self._known:
                self._ask(bucket, self._asks(key))
            params.update(self._known.get(bucket, {}))

    def _ask(self, bucket: str, key: str | None) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if key is None:
            return
        try:
            self._client.head_object(Bucket=bucket, Key=key)
        except (BotoCoreError, ClientError):
            # There may be no network yet; the write itself reports other errors.
            return

    def _learn(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        bucket, how = context.get(_SOURCE), parsed.get("ServerSideEncryption")
        if bucket is None or how is None:
            return
        self._known[bucket] = {"ServerSideEncryption": how} | (
            {"SSEKMSKeyId": parsed["SSEKMSKeyId"]} if "SSEKMSKeyId" in parsed else {}
        )
