"""Tags of buckets and objects: what S3 refuses.

AWS (recorded): S3 refuses tags that are there twice, are AWS's own or have other signs, in these
texts. tests/records/data/s3-tags.json
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import xmltodict

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import malformed, refused

__all__ = ["install"]

#: AWS (documented): S3 takes letters, digits and spaces in tags, and these signs.
#: https://docs.aws.amazon.com/AmazonS3/latest/API/API_control_Tag.html
_TEXT = re.compile(r"[\w +\-=.:/@]*")


def install() -> None:
    """Replace how moto reads tags."""
    from moto.s3.responses import S3Response

    @around(S3Response, "_tagging_from_xml")
    def of_object(_: Any, response: Any) -> dict[str, str]:
        return _tags(response.body, "Your TagKey cannot be prefixed with aws:")

    @around(S3Response, "_bucket_tagging_from_body")
    def of_bucket(_: Any, response: Any) -> dict[str, str]:
        return _tags(response.body, "System tags cannot be added/updated by requester")

    @around(S3Response, "_tagging_from_headers")
    def of_header(_: Any, response: Any, headers: Any) -> dict[str, str]:
        given = headers.get("x-amz-tagging") or ""
        pairs = parse_qsl(given, keep_blank_values=True)
        tags = dict(pairs)
        texts = [text for pair in pairs for text in pair]
        if len(tags) < len(pairs) or not all(map(_TEXT.fullmatch, texts)):
            raise refused(
                400,
                "InvalidArgument",
                "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query "
                "parameters without tag name duplicates.",
                ArgumentName="x-amz-tagging",
                ArgumentValue=given,
            )
        return tags

    @around(S3Response, "put_object_tagging")
    def put_object_tagging(put: Any, response: Any) -> Any:
        status, headers, body = put(response)
        version = response._get_param("versionId")
        key = response.backend.get_object(
            response.bucket_name, response.parse_key_name(), version_id=version
        )
        if key is not None and key.version_id != "null":
            headers["x-amz-version-id"] = key.version_id
        return status, headers, body


def _tags(body: bytes, reserved: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for tag in _elements(body):
        if not tag.get("Key") or "Value" not in tag:
            raise malformed()
        key, value = tag["Key"], tag["Value"] or ""
        if key in tags:
            raise refused(
                400, "InvalidTag", "Cannot provide multiple Tags with the same key", TagKey=key
            )
        if key.startswith("aws:"):
            raise refused(400, "InvalidTag", reserved, TagKey=key)
        if not _TEXT.fullmatch(key):
            text = "The TagKey you have provided is invalid"
            raise refused(400, "InvalidTag", text, TagKey=key)
        if not _TEXT.fullmatch(value):
            text = "The TagValue you have provided is invalid"
            raise refused(400, "InvalidTag", text, TagKey=key, TagValue=value)
        tags[key] = value
    return tags


def _elements(body: bytes) -> Iterator[dict[str, Any]]:
    parsed = xmltodict.parse(body, force_list={"Tag": True}, strip_whitespace=False)
    found = (parsed["Tagging"] or {}).get("TagSet")
    for tag in found.get("Tag", []) if isinstance(found, dict) else []:
        yield tag if isinstance(tag, dict) else {}
