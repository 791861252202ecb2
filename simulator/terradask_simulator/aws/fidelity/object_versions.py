"""Versions of objects, and delete markers.

AWS (recorded): S3 makes a delete marker for a key that isn't there, and reports when one is
deleted; while versioning is suspended, a bucket keeps its versions.
tests/records/data/s3-versions.json
"""

from __future__ import annotations

import hashlib
import secrets
import string
import time
from types import SimpleNamespace
from typing import Any

import xmltodict

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import changing, refused

__all__ = ["install"]

_LETTERS = string.ascii_letters + string.digits + "._"

_HEADER = "x-amz-version-id"


def install() -> None:
    """Replace moto's, which loses the versions of a suspended bucket."""
    _install_versions()
    _install_answers()


def _install_versions() -> None:
    from moto.s3.models import FakeDeleteMarker, S3Backend

    @around(FakeDeleteMarker, "__init__")
    def mark(begin: Any, marker: Any, key: Any) -> None:
        begin(marker, key)
        marker._version_id = _new_version()

    @around(S3Backend, "put_object")
    def put(
        keep: Any, backend: Any, bucket_name: str, key_name: str, *args: Any, **more: Any
    ) -> Any:
        bucket, before = backend.get_bucket(bucket_name), []
        if bucket.versioning_status == "Suspended":
            # moto would dispose of them.
            before = dict.pop(bucket.keys, key_name, [])
        key = keep(backend, bucket_name, key_name, *args, **more)
        if key.version_id != "null":
            key._version_id = _new_version()
        if before:
            kept = [one for one in before if one.version_id != "null"]
            bucket.keys.setlist(key_name, [*kept, key])
            for replaced in before:
                if replaced not in kept:
                    replaced.dispose()
        return key

    @around(S3Backend, "_set_delete_marker")
    def set_marker(mark: Any, backend: Any, bucket_name: str, key_name: str) -> Any:
        keys = backend.get_bucket(bucket_name).keys
        if keys.getlist(key_name):
            return mark(backend, bucket_name, key_name)
        marker = FakeDeleteMarker(key=SimpleNamespace(name=key_name))
        keys.setlist(key_name, [marker])
        return marker

    @around(S3Backend, "delete_object")
    def delete(remove: Any, backend: Any, bucket_name: str, key_name: str, **asked: Any) -> Any:
        bucket, version_id = backend.get_bucket(bucket_name), asked.get("version_id")
        before = bucket.keys.getlist(key_name, [])
        named = [one for one in before if version_id and one.version_id == version_id]
        if bucket.versioning_status == "Suspended":
            answer = _deleted_while_suspended(backend, bucket, key_name, version_id)
        else:
            answer = remove(backend, bucket_name, key_name, **asked)
        if any(isinstance(one, FakeDeleteMarker) for one in named):
            answer[1]["delete-marker"] = "true"
        return answer


def _install_answers() -> None:
    from moto.s3.exceptions import BucketNotEmpty
    from moto.s3.responses import S3Response

    @around(S3Response, "delete_object")
    def delete_one(delete: Any, response: Any) -> Any:
        _check_version(response)
        return delete(response)

    @around(S3Response, "_key_response_get")
    def get(answer: Any, response: Any, query: Any, key_name: str) -> Any:
        _check_version(response)
        _check_marker(response, query, "GET")
        status, headers, content = answer(response, query, key_name)
        bucket = response.backend.get_bucket(response.bucket_name)
        if status == 200 and bucket.versioning_status and not {"acl", "tagging"} & set(query):
            headers.setdefault(_HEADER, "null")
        return status, headers, content

    @around(S3Response, "put_object_tagging")
    def put_tags(put: Any, response: Any) -> Any:
        _check_marker(response, {"tagging"}, "PUT")
        return put(response)

    @around(S3Response, "delete_object_tagging")
    def delete_tags(delete: Any, response: Any) -> Any:
        _check_marker(response, {"tagging"}, "DELETE")
        return delete(response)

    @around(S3Response, "delete_bucket")
    def delete_bucket(delete: Any, response: Any) -> Any:
        try:
            return delete(response)
        except BucketNotEmpty as error:
            if not response.backend.get_bucket(response.bucket_name).versioning_status:
                raise
            text = f"{error.message}. You must delete all versions in the bucket."
            raise refused(409, "BucketNotEmpty", text, BucketName=response.bucket_name) from error

    @around(S3Response, "_bucket_response_delete_keys")
    def delete_many(delete: Any, response: Any, bucket_name: str, **kwargs: Any) -> Any:
        asked = xmltodict.parse(response.body, strip_whitespace=False)["Delete"]
        versions = _versions_asked_for(response.backend.get_bucket(bucket_name).keys, asked)
        quiet = asked.get("Quiet") == "true"
        with changing(response, lambda result: _report_versions(result, versions, quiet=quiet)):
            return delete(response, bucket_name, **kwargs)


def _new_version() -> str:
    drawn = f"{time.time_ns():016x}" + "".join(secrets.choice(_LETTERS) for _ in range(8))
    return drawn + _sealed(drawn)


def _sealed(drawn: str) -> str:
    """Return the end of a version's id, by which S3 knows its own ids: it refuses all others."""
    return hashlib.sha256(drawn.encode()).hexdigest()[:8]


def _is_version(text: str) -> bool:
    return text == "null" or (len(text) == 32 and text[24:] == _sealed(text[:24]))


def _deleted_while_suspended(
    backend: Any, bucket: Any, key_name: str, version_id: str | None
) -> tuple[bool, dict[str, str]]:
    gone = version_id or "null"
    left = [one for one in bucket.keys.getlist(key_name, []) if str(one.version_id) != gone]
    if left or version_id is None:
        bucket.keys.setlist(key_name, left)
    elif key_name in bucket.keys:
        bucket.keys.pop(key_name)
    if version_id is not None:
        return True, {"version-id": version_id}
    marker = backend._set_delete_marker(bucket.name, key_name)
    marker._version_id = "null"
    return True, {"version-id": "null", "delete-marker": "true"}


def _check_version(response: Any) -> None:
    version = response._get_param("versionId")
    if version is None:
        return
    bucket = response.backend.get_bucket(response.bucket_name)
    if not _is_version(version) or not (bucket.versioning_status or version == "null"):
        raise refused(
            400,
            "InvalidArgument",
            "Invalid version id specified",
            ArgumentName="versionId",
            ArgumentValue=version,
        )


def _check_marker(response: Any, query: Any, method: str) -> None:
    """Refuse to read a delete marker by its version, or to touch its tags."""
    from moto.s3.exceptions import MissingKey, MissingVersion
    from moto.s3.models import FakeDeleteMarker

    name, version = response.parse_key_name(), response._get_param("versionId")
    if version is None and "tagging" not in query:
        return
    key = response.backend.get_object(
        response.bucket_name, name, version_id=version, return_delete_marker=True
    )
    if isinstance(key, FakeDeleteMarker):
        raise refused(
            405,
            "MethodNotAllowed",
            "The specified method is not allowed against this resource.",
            Method=method,
            ResourceType="DeleteMarker",
        )
    if key is None:
        raise MissingVersion(name, version) if version else MissingKey(key=name)


def _versions_asked_for(keys: Any, asked: Any) -> dict[tuple[str, str], Any]:
    entries = asked.get("Object") or []
    entries = entries if isinstance(entries, list) else [entries]
    return {
        (one["Key"], one["VersionId"]): next(
            (
                version
                for version in keys.getlist(one["Key"], [])
                if version.version_id == one["VersionId"]
            ),
            None,
        )
        for one in entries
        if one.get("VersionId")
    }


def _report_versions(result: dict[str, Any], versions: dict[Any, Any], *, quiet: bool) -> None:
    from moto.s3.models import FakeDeleteMarker

    deleted = []
    for entry in result["Deleted"]:
        place = entry["Key"], entry.get("VersionId")
        found = versions.get(place)
        if place in versions and found is None:
            result["Errors"].append(
                {
                    "Key": place[0],
                    "VersionId": place[1],
                    "Code": "NoSuchVersion",
                    "Message": "The specified version does not exist.",
                }
            )
            continue
        if isinstance(found, FakeDeleteMarker):
            entry.update(DeleteMarker=True, DeleteMarkerVersionId=place[1])
        deleted.append(entry)
    result["Deleted"] = [] if quiet else deleted
