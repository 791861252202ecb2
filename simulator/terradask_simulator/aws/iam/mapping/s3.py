"""Amazon S3: requests to permissions.

AWS (documented): S3's operations need these permissions.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree

from terradask_simulator.aws.iam.mapping.need import Facts, Need
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.world import World

__all__ = ["BUCKET_PARTS", "OBJECT_PARTS", "s3_needs"]

#: Sub-resources of buckets: the action without its verb.
BUCKET_PARTS = {
    "accelerate": "AccelerateConfiguration",
    "acl": "BucketAcl",
    "analytics": "AnalyticsConfiguration",
    "cors": "BucketCORS",
    "encryption": "EncryptionConfiguration",
    "intelligent-tiering": "IntelligentTieringConfiguration",
    "inventory": "InventoryConfiguration",
    "lifecycle": "LifecycleConfiguration",
    "location": "BucketLocation",
    "logging": "BucketLogging",
    "metrics": "MetricsConfiguration",
    "notification": "BucketNotification",
    "object-lock": "BucketObjectLockConfiguration",
    "ownershipControls": "BucketOwnershipControls",
    "policy": "BucketPolicy",
    "policyStatus": "BucketPolicyStatus",
    "publicAccessBlock": "BucketPublicAccessBlock",
    "replication": "ReplicationConfiguration",
    "requestPayment": "BucketRequestPayment",
    "tagging": "BucketTagging",
    "versioning": "BucketVersioning",
    "website": "BucketWebsite",
}
#: Sub-resources whose deletion has its own action; deleting any other counts as changing it.
_DELETABLE = {"policy", "website"}
#: Sub-resources of objects: the action without its verb.
OBJECT_PARTS = {
    "acl": "Acl",
    "legal-hold": "LegalHold",
    "retention": "Retention",
    "tagging": "Tagging",
    "torrent": "Torrent",
}
_HEADERS = {
    "x-amz-acl": "s3:x-amz-acl",
    "x-amz-server-side-encryption": "s3:x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id": "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-storage-class": "s3:x-amz-storage-class",
    "x-amz-copy-source": "s3:x-amz-copy-source",
    "if-match": "s3:if-match",
    "if-none-match": "s3:if-none-match",
}


def s3_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an S3 request."""
    bucket, _, key = operation.path.lstrip("/").partition("/")
    if not bucket:
        yield Need("s3:ListAllMyBuckets")
    elif key:
        yield from _on_object(operation, world, bucket, key)
    else:
        yield from _on_bucket(operation, world, bucket)


def _on_bucket(operation: Operation, world: World, bucket: str) -> Iterator[Need]:
    query, method = operation.parameters, operation.method
    if method == "POST" and "delete" in query:
        for key, version, etag in _listed_keys(operation.body):
            yield _object(world, bucket, key, "DeleteObjectVersion" if version else "DeleteObject")
            yield from _compared(world, bucket, key, etag)
        return
    part = next((name for name in query if name in BUCKET_PARTS), "")
    if part:
        verb = (
            "Get"
            if method in ("GET", "HEAD")
            else "Delete"
            if method == "DELETE" and part in _DELETABLE
            else "Put"
        )
        yield _bucket(world, bucket, f"{verb}{BUCKET_PARTS[part]}", operation)
    elif "versions" in query:
        yield _bucket(world, bucket, "ListBucketVersions", operation)
    elif "uploads" in query:
        yield _bucket(world, bucket, "ListBucketMultipartUploads", operation)
    else:
        names = {"PUT": "CreateBucket", "DELETE": "DeleteBucket"}
        yield _bucket(world, bucket, names.get(method, "ListBucket"), operation)
        if method == "PUT":
            for name in _made_with(operation):
                yield _bucket(world, bucket, name, None)


def _made_with(operation: Operation) -> Iterator[str]:
    """Yield the additional actions for headers of CreateBucket.

    AWS (documented): S3 CreateBucket needs further rights for object lock, ownership and ACLs.
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
    """
    headers = operation.headers
    if headers.get("x-amz-acl", "private") != "private" or any(
        name.startswith("x-amz-grant-") for name in headers
    ):
        yield "PutBucketAcl"
    if headers.get("x-amz-bucket-object-lock-enabled", "").lower() == "true":
        yield from ("PutBucketObjectLockConfiguration", "PutBucketVersioning")
    if "x-amz-object-ownership" in headers:
        yield "PutBucketOwnershipControls"


def _on_object(operation: Operation, world: World, bucket: str, key: str) -> Iterator[Need]:
    query, method = operation.parameters, operation.method
    version = "Version" if query.get("versionId") else ""
    context: Facts = {
        name: (operation.headers[header],)
        for header, name in _HEADERS.items()
        if header in operation.headers
    }
    part = next((name for name in query if name in OBJECT_PARTS), "")
    if "uploadId" in query and method in ("GET", "DELETE"):
        yield _object(
            world,
            bucket,
            key,
            "ListMultipartUploadParts" if method == "GET" else "AbortMultipartUpload",
        )
    elif part:
        verb = {"GET": "Get", "HEAD": "Get", "DELETE": "Delete"}.get(method, "Put")
        yield _object(world, bucket, key, f"{verb}Object{version}{OBJECT_PARTS[part]}")
    elif method in ("GET", "HEAD"):
        yield _object(world, bucket, key, f"GetObject{version}")
        if "attributes" in query:
            yield _object(world, bucket, key, f"GetObject{version}Attributes")
        if not world.has_object(bucket, key):
            # Without permission to list, a missing object is answered with 403.
            yield _bucket(world, bucket, "ListBucket", None)
    elif method == "DELETE":
        yield _object(world, bucket, key, f"DeleteObject{version}", context)
        yield from _compared(world, bucket, key, operation.headers.get("if-match", ""))
    else:
        yield from _writes(operation, world, bucket, key, context)


def _writes(
    operation: Operation, world: World, bucket: str, key: str, context: Facts
) -> Iterator[Need]:
    source = unquote(operation.headers.get("x-amz-copy-source", "")).lstrip("/")
    if source:
        path, _, version = source.partition("?versionId=")
        from_bucket, _, from_key = path.partition("/")
        yield _object(world, from_bucket, from_key, "GetObjectVersion" if version else "GetObject")
    tags = dict(parse_qsl(operation.headers.get("x-amz-tagging", "")))
    for name, value in tags.items():
        context[f"s3:RequestObjectTag/{name}"] = (value,)
    if tags:
        context["s3:RequestObjectTagKeys"] = tuple(tags)
    yield _object(world, bucket, key, "PutObject", context)
    yield from _compared(world, bucket, key, operation.headers.get("if-match", ""))
    if tags:
        yield _object(world, bucket, key, "PutObjectTagging", context)
    if operation.headers.get("x-amz-acl") or any(
        name.startswith("x-amz-grant-") for name in operation.headers
    ):
        yield _object(world, bucket, key, "PutObjectAcl", context)


def _compared(world: World, bucket: str, key: str, etag: str) -> Iterator[Need]:
    """Yield the permissions for conditional writes and deletions.

    AWS (s3-if-match-right)
    """
    if etag not in ("", "*"):
        yield _object(world, bucket, key, "GetObject")


def _bucket(world: World, bucket: str, name: str, operation: Operation | None) -> Need:
    query = operation.parameters if operation else {}
    context: Facts = {
        f"s3:{key}": (str(query[key]),)
        for key in ("prefix", "delimiter", "max-keys")
        if key in query
    }
    if operation and "x-amz-acl" in operation.headers:
        context["s3:x-amz-acl"] = (operation.headers["x-amz-acl"],)
    return Need(f"s3:{name}", f"arn:{world.partition}:s3:::{bucket}", "bucket", context=context)


def _object(world: World, bucket: str, key: str, name: str, context: Facts | None = None) -> Need:
    return Need(
        f"s3:{name}", f"arn:{world.partition}:s3:::{bucket}/{key}", "object", context=context or {}
    )


def _listed_keys(body: bytes) -> Iterator[tuple[str, bool, str]]:
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  (of this machine's own callers)
    except ElementTree.ParseError:
        return
    for one in root.iter():
        if one.tag.rpartition("}")[2] == "Object":
            fields = {field.tag.rpartition("}")[2]: field.text or "" for field in one}
            yield fields.get("Key", ""), bool(fields.get("VersionId")), fields.get("ETag", "")
