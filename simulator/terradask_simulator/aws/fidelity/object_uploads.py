"""Uploads in parts: what S3 refuses of them, and what the completion answers.

AWS (recorded): S3 refuses unknown uploads, and parts that are missing or too small, in these texts.
tests/records/data/s3-multipart.json
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import changing, refused

__all__ = ["install"]

#: AWS (documented): Every part of an S3 upload but the last has at least 5 MiB.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
_LEAST_BYTES = 5 * 1024**2


def install() -> None:
    """Replace moto's, which fails with HTTP 500 for an upload that it doesn't know."""
    from moto.s3.exceptions import NoSuchUpload
    from moto.s3.models import S3Backend
    from moto.s3.responses import S3Response

    @around(S3Backend, "upload_part")
    def upload_part(put: Any, backend: Any, bucket: str, upload_id: str, *args: Any) -> Any:
        if upload_id not in backend.get_bucket(bucket).multiparts:
            raise NoSuchUpload(upload_id=upload_id)
        return put(backend, bucket, upload_id, *args)

    @around(S3Backend, "complete_multipart_upload")
    def complete(whole: Any, backend: Any, bucket: str, upload_id: str, parts: Any) -> Any:
        named = list(parts)
        _check_parts(backend.get_bucket(bucket).multiparts[upload_id], named)
        return whole(backend, bucket, upload_id, iter(named))

    @around(S3Backend, "create_multipart_upload")
    def create(begin: Any, backend: Any, *args: Any, **kwargs: Any) -> Any:
        upload = begin(backend, *args, **kwargs)
        algorithm = upload.metadata.get("x-amz-checksum-algorithm")
        if algorithm and not upload.metadata.get("x-amz-checksum-type"):
            kind = "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE"
            upload.metadata["x-amz-checksum-type"] = kind
        return upload

    @around(S3Response, "_key_response_post")
    def post(answer: Any, response: Any, *args: Any) -> Any:
        _, body, bucket, query, name = args
        if not query.get("uploadId"):
            return answer(response, *args)
        _check_body(response, body, query["uploadId"][0], name)

        def change(result: dict[str, Any]) -> None:
            key = response.backend.get_object(bucket, name)
            result["Location"] = f"http://{bucket}.s3.amazonaws.com/{quote(name)}"
            result["ChecksumType"] = key.checksum_type or "FULL_OBJECT"

        with changing(response, change):
            status, headers, content = answer(response, *args)
        if headers.get("x-amz-version-id") == "null":
            del headers["x-amz-version-id"]
        return status, headers, content


def _check_body(response: Any, body: bytes, upload_id: str, name: str) -> None:
    from moto.s3.exceptions import NoSuchUpload

    upload = response.backend.get_bucket(response.bucket_name).multiparts.get(upload_id)
    if upload is None:
        made = response.backend.get_object(response.bucket_name, name)
        if made is None or not made.multipart or made.multipart.id != upload_id:
            raise NoSuchUpload(upload_id=upload_id)
        return  # a completion is repeated
    if b"<Part>" not in body:
        raise refused(400, "InvalidRequest", "You must specify at least one part")
    given = response.headers.get("x-amz-mp-object-size")
    size = sum(part.contentsize for part in upload.parts.values())
    if given and int(given) != size:
        raise refused(
            400,
            "InvalidRequest",
            f"The provided 'x-amz-mp-object-size' header value {given} does not match what was "
            f"computed: {size}",
        )


def _check_parts(upload: Any, named: list[tuple[int, str]]) -> None:
    for place, (number, etag) in enumerate(named):
        part, bare = upload.parts.get(number), etag.strip('"')
        if part is None or part.etag.strip('"') != bare:
            raise refused(
                400,
                "InvalidPart",
                "One or more of the specified parts could not be found.  The part may not have "
                "been uploaded, or the specified entity tag may not match the part's entity tag.",
                ETag=bare,
                PartNumber=str(number),
                UploadId=upload.id,
            )
        if part.contentsize < _LEAST_BYTES and place < len(named) - 1:
            raise refused(
                400,
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                ETag=bare,
                MinSizeAllowed=str(_LEAST_BYTES),
                PartNumber=str(number),
                ProposedSize=str(part.contentsize),
            )
