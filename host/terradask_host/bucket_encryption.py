"""How a workspace's bucket encrypts what is written to it: as the network wrote one object there,
whose answers tell it. Policies may refuse a write that names no encryption, whatever the bucket's
default is, and name it all the same: https://repost.aws/knowledge-center/s3-bucket-store-kms-encrypted-objects
"""

from __future__ import annotations

import re
from typing import Any

_BUCKET = re.compile(r"terradask-(?!state-).+-[0-9]{12}-[a-z0-9-]+")
_WRITES = frozenset({"PutObject", "CreateMultipartUpload", "CopyObject"})
_READS = frozenset({"GetObject", "HeadObject"})
_SOURCE = "terradask_encryption_of"


def name_encryption(client: Any, told_by: str, *, asked: bool = False) -> Any:
    """Have a client of S3 name the encryption of what it writes to a workspace's bucket, and return
    the client. The bucket's default applies while that isn't known.

    Parameters
    ----------
    client
        The client.
    told_by
        End of the key of the object whose encryption is the workspace's. Reading it tells.
    asked
        Ask for that object before the first write, where it wasn't read; `told_by` is its key.
    """
    _Encryption(client, told_by, asked=asked)
    return client


class _Encryption:
    def __init__(self, client: Any, told_by: str, *, asked: bool) -> None:
        self._client = client
        self._told_by = told_by
        self._asked = asked
        #: Bucket -> parameters of a write.
        self._known: dict[str, dict[str, str]] = {}
        client.meta.events.register("before-parameter-build.s3", self._name)
        client.meta.events.register("after-call.s3", self._learn)

    def _name(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        bucket = str(params.get("Bucket"))
        if _BUCKET.fullmatch(bucket) is None:
            return
        if model.name in _READS and str(params.get("Key")).endswith(self._told_by):
            context[_SOURCE] = bucket
        elif model.name in _WRITES and "ServerSideEncryption" not in params:
            if bucket not in self._known and self._asked:
                self._ask(bucket)
            params.update(self._known.get(bucket, {}))

    def _ask(self, bucket: str) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.head_object(Bucket=bucket, Key=self._told_by)
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
