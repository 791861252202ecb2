"""The owner and the encryption that calls of S3 name for a bucket: bucket names are unique across
AWS, another account can take one; writes are encrypted as one object that the network wrote.

AWS (documented): A bucket's policy may refuse a write to S3 without an encryption header, whatever
the bucket's default encryption is.
https://repost.aws/knowledge-center/s3-bucket-store-kms-encrypted-objects
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

#: Names that terradask chooses: of workspaces' buckets, and of those for states.
_NAME = re.compile(r"terradask-.+-(?P<account>[0-9]{12})-[a-z0-9-]+")


def expect_owner(client: Any, owners: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Add the account in a bucket's name to an S3 client's calls, and return the client.

    `owners` maps buckets to accounts and takes precedence over the name; it is read at each call.

    AWS (documented, s3-owner): S3 refuses a call with ExpectedBucketOwner by 403 Access Denied if
    the bucket belongs to another account.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html
    """
    client.meta.events.register("before-parameter-build.s3", partial(_name_owner, owners))
    return client


def _name_owner(owners: Mapping[str, str], params: dict[str, Any], model: Any, **_: Any) -> None:
    # HeadBucket reads no content, and is how a bucket of another account is recognised.
    if model.name == "HeadBucket":
        return
    # botocore passes it as text.
    source = str(params.get("CopySource", "")).partition("/")[0]
    for parameter, bucket in (
        ("ExpectedBucketOwner", params.get("Bucket")),
        ("ExpectedSourceBucketOwner", source),
    ):
        named = _NAME.fullmatch(str(bucket))
        owner = owners.get(str(bucket)) or (named and named["account"])
        if owner and parameter in model.input_shape.members:
            params.setdefault(parameter, owner)


# ---- encryption ----------------------------------------------------------------------------------


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
