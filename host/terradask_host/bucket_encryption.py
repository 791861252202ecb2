"""How a workspace's bucket encrypts what is written to it: as the network wrote one object there,
whose answers tell it. Policies may refuse a write that names no encryption, whatever the bucket's
default is, and name it all the same: https://repost.aws/knowledge-center/s3-bucket-store-kms-encrypted-objects
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
    """Return what tells callers how an object is to be encrypted: the network's document."""
    return "workspace.json"


def of_run(key: str) -> str | None:
    """Return what tells hosts, who may not read the network's: their cluster's run."""
    parts = key.split("/")
    return f"clusters/{parts[1]}/run.json" if parts[0] == "clusters" and len(parts) > 1 else None


def name_encryption(client: Any, asks: Callable[[str], str | None]) -> Any:
    """Have a client of S3 name the encryption of what it writes to a workspace's bucket, and return
    the client. The bucket's default applies while that isn't known.

    Parameters
    ----------
    client
        The client.
    asks
        Key of an object -> key of the one whose encryption is the workspace's. Reading that tells;
        where it wasn't read, the first write asks.
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
            # There may be no network yet; what is the matter else, the write will say.
            return

    def _learn(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        bucket, how = context.get(_SOURCE), parsed.get("ServerSideEncryption")
        if bucket is None or how is None:
            return
        self._known[bucket] = {"ServerSideEncryption": how} | (
            {"SSEKMSKeyId": parsed["SSEKMSKeyId"]} if "SSEKMSKeyId" in parsed else {}
        )
