"""Give a bucket its defaults from its creation on, and show them in answers: encryption, ownership,
no public access.

AWS (recorded): New S3 buckets encrypt with SSE-S3, block all public access, and own each object;
each answer shows how an object is encrypted. tests/records/data/s3-settings.json
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_HEADER = "x-amz-server-side-encryption"


def install() -> None:
    """Replace moto's buckets, which are made with nothing of it."""
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
        default = backend.get_bucket(bucket_name).encryption["Rule"]
        default = default["ApplyServerSideEncryptionByDefault"]
        if not upload.sse_encryption:
            upload.sse_encryption = default["SSEAlgorithm"]
            upload.kms_key_id = default.get("KMSMasterKeyID")
        return upload

    @around(S3Response, "_key_response_post")
    def post(answer: Any, response: Any, request: Any, body: bytes, name: str, *args: Any) -> Any:
        status, headers, content = answer(response, request, body, name, *args)
        if "uploads" in args[0] and status == 200 and _HEADER not in headers:
            default = response.backend.get_bucket(name).encryption["Rule"]
            default = default["ApplyServerSideEncryptionByDefault"]
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
