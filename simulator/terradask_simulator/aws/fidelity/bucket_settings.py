"""Give a bucket its defaults from its creation on, and refuse what S3 refuses of its creation and
of its configuration.

AWS (recorded): New S3 buckets encrypt with SSE-S3, block all public access, and own each object;
each answer shows how an object is encrypted. tests/records/data/s3-settings.json

AWS (recorded): S3 refuses a bucket's configuration whose document it can't read, or whose values it
doesn't know, with these codes and texts. tests/records/data/s3-settings.json
tests/records/data/s3-buckets.json tests/records/data/s3-lifecycle.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import boto3
import xmltodict

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import malformed, refused

__all__ = ["install"]

#: AWS (documented): S3 takes lower-case letters, digits, dots and hyphens in a bucket's name, 3 to
#: 63. https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

_HEADER = "x-amz-server-side-encryption"
_OWNERSHIPS = ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")


def install() -> None:
    """Replace how moto takes what configures a bucket, and its buckets, which have no defaults."""
    from moto.s3.responses import S3Response

    _install_defaults()

    @around(S3Response, "_bucket_response_put")
    def put(put: Any, response: Any, request: Any, bucket_name: str, query: Any) -> Any:
        if not query:
            _check_creation(response, bucket_name)
            return _with_arn(put(response, request, bucket_name, query), response, bucket_name)
        response.backend.get_bucket(bucket_name)
        for name, check in _CHECKS.items():
            if name in query:
                check(response.body)
        answer = put(response, request, bucket_name, query)
        return (204, {}, "") if "policy" in query else answer

    @around(S3Response, "head_bucket")
    def head_bucket(head: Any, response: Any) -> Any:
        status, headers, body = head(response)
        if status != 200:
            return status, headers, body
        region = headers["x-amz-bucket-region"]
        if region != response.region:
            return 301, {"x-amz-bucket-region": region}, ""
        bucket = response.backend.get_bucket(response.bucket_name)
        added = {"x-amz-bucket-arn": bucket.arn, "x-amz-access-point-alias": "false"}
        return status, {**headers, **added}, body


def _install_defaults() -> None:
    from moto.s3.models import FakeBucket, PublicAccessBlock, S3Backend
    from moto.s3.responses import S3Response

    @around(FakeBucket, "__init__")
    def init(begin: Any, bucket: Any, *args: Any, **kwargs: Any) -> None:
        begin(bucket, *args, **kwargs)
        bucket.encryption = _default_encryption()
        bucket.ownership_rule = "BucketOwnerEnforced"
        bucket.public_access_block = PublicAccessBlock(True, True, True, True)

    @around(S3Backend, "delete_bucket_encryption")
    def delete_bucket_encryption(_: Any, backend: Any, bucket_name: str) -> None:
        backend.get_bucket(bucket_name).encryption = _default_encryption()

    @around(S3Backend, "create_multipart_upload")
    def create(begin: Any, backend: Any, bucket_name: str, *args: Any, **kwargs: Any) -> Any:
        upload = begin(backend, bucket_name, *args, **kwargs)
        default = _default_of(backend, bucket_name)
        if not upload.sse_encryption:
            upload.sse_encryption = default["SSEAlgorithm"]
            upload.kms_key_id = default.get("KMSMasterKeyID")
        return upload

    @around(S3Response, "_key_response_post")
    def post(answer: Any, response: Any, request: Any, body: bytes, name: str, *args: Any) -> Any:
        status, headers, content = answer(response, request, body, name, *args)
        if "uploads" in args[0] and status == 200 and _HEADER not in headers:
            default = _default_of(response.backend, name)
            headers[_HEADER] = default["SSEAlgorithm"]
            if default.get("KMSMasterKeyID"):
                headers[f"{_HEADER}-aws-kms-key-id"] = default["KMSMasterKeyID"]
        return status, headers, content


def _default_encryption() -> dict[str, Any]:
    return {
        "Rule": {
            "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"},
            "BucketKeyEnabled": False,
        }
    }


def _default_of(backend: Any, bucket_name: str) -> dict[str, str]:
    return backend.get_bucket(bucket_name).encryption["Rule"]["ApplyServerSideEncryptionByDefault"]


def _with_arn(answer: Any, response: Any, bucket_name: str) -> Any:
    status, headers, body = answer
    bucket = response.backend.get_bucket(bucket_name)
    headers["x-amz-bucket-arn"] = bucket.arn
    if bucket.region_name != "us-east-1":
        headers["Location"] = f"http://{bucket_name}.s3.amazonaws.com/"
    return status, headers, body


def _check_creation(response: Any, bucket_name: str) -> None:
    if not _NAME.fullmatch(bucket_name):
        text = "The specified bucket is not valid."
        raise refused(400, "InvalidBucketName", text, BucketName=bucket_name)
    ownership = response.headers.get("x-amz-object-ownership")
    if ownership is not None and ownership not in _OWNERSHIPS:
        text = f"Invalid x-amz-object-ownership header: {ownership}"
        raise refused(400, "InvalidArgument", text, ArgumentName="x-amz-object-ownership")
    place = response._get_location_constraint()
    if place and response.region == "us-east-1" and place not in _regions():
        text = "The specified location-constraint is not valid"
        raise refused(400, "InvalidLocationConstraint", text, LocationConstraint=place)


def _regions() -> list[str]:
    return boto3.session.Session().get_available_regions("s3")


def _check_versioning(body: bytes) -> None:
    configuration = xmltodict.parse(body)["VersioningConfiguration"] or {}
    status = configuration.get("Status")
    if status is None:
        raise refused(
            400,
            "IllegalVersioningConfigurationException",
            "The Versioning element must be specified",
        )
    if status not in ("Enabled", "Suspended"):
        raise malformed()


def _check_encryption(body: bytes) -> None:
    rule = _only(xmltodict.parse(body)["ServerSideEncryptionConfiguration"])
    default = rule.get("ApplyServerSideEncryptionByDefault") or {}
    if default.get("KMSMasterKeyID") and not default.get("SSEAlgorithm", "").startswith("aws:kms"):
        raise refused(
            400,
            "InvalidArgument",
            "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or "
            "aws:kms:dsse",
            ArgumentName="ApplyServerSideEncryptionByDefault",
        )


def _check_ownership(body: bytes) -> None:
    rule = _only(xmltodict.parse(body)["OwnershipControls"])
    if rule.get("ObjectOwnership") not in _OWNERSHIPS:
        raise malformed()


def _only(configuration: Any) -> dict[str, Any]:
    """Return the one rule that a configuration must have."""
    rule = (configuration or {}).get("Rule")
    if not isinstance(rule, dict):
        raise malformed()
    return rule


def _check_policy(body: bytes) -> None:
    if not body.startswith(b"{"):
        text = "Policies must be valid JSON and the first byte must be '{'"
        raise refused(400, "MalformedPolicy", text)
    try:
        document = json.loads(body)
    except ValueError as error:
        raise refused(400, "MalformedPolicy", "This policy contains invalid Json") from error
    if "Statement" not in document:
        raise refused(400, "MalformedPolicy", "Missing required field Statement")


def _check_lifecycle(body: bytes) -> None:
    rules = (xmltodict.parse(body)["LifecycleConfiguration"] or {}).get("Rule") or []
    for rule in rules if isinstance(rules, list) else [rules]:
        chosen = rule.get("Filter") or {}
        both = chosen.get("And") or {}
        noncurrent = "NoncurrentVersionExpiration"
        if len(set(chosen) - {"@xmlns"}) > 1 or (noncurrent in rule and not rule[noncurrent]):
            raise malformed()
        tags = both.get("Tag") or []
        keys = [tag["Key"] for tag in (tags if isinstance(tags, list) else [tags])]
        if len(set(keys)) < len(keys):
            raise refused(400, "InvalidRequest", "Duplicate Tag Keys are not allowed.")
        date = (rule.get("Expiration") or {}).get("Date")
        if date and not re.search(r"T00:00:00(\.0+)?(Z|\+00:00)?$", date):
            text = "'Date' must be at midnight GMT"
            raise refused(
                400, "InvalidArgument", text, ArgumentName="Date", ArgumentValue=str(date)
            )


_CHECKS: dict[str, Callable[[bytes], None]] = {
    "versioning": _check_versioning,
    "encryption": _check_encryption,
    "ownershipControls": _check_ownership,
    "policy": _check_policy,
    "lifecycle": _check_lifecycle,
}
