"""Listings of objects and of their versions.

AWS (documented): A page of S3's versions begins after the markers, which name the last one before
it. https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html
AWS (recorded): S3's listings show each checksum's algorithm and type; the version that a marker
names need not be there any more. tests/records/data/s3-versions.json
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import changing, refused

__all__ = ["install"]


def install() -> None:
    """Replace moto's, whose pages of versions begin with the marker's key again."""
    from moto.s3.models import S3Backend
    from moto.s3.responses import S3Response

    @around(S3Response, "list_objects_v2")
    def objects(listed: Any, response: Any) -> Any:
        token = response.querystring.get("continuation-token", [None])[0]

        def change(result: dict[str, Any]) -> None:
            _add_checksums(response, result, "Contents")
            if token:
                result["ContinuationToken"] = token
            if result.get("EncodingType") == "url" and "StartAfter" in result:
                result["StartAfter"] = quote(result["StartAfter"])

        with changing(response, change):
            return listed(response)

    @around(S3Response, "list_object_versions")
    def versions(listed: Any, response: Any) -> Any:
        asked = {name: values[0] for name, values in response.querystring.items()}
        if asked.get("version-id-marker") and not asked.get("key-marker"):
            raise refused(
                400,
                "InvalidArgument",
                "A version-id marker cannot be specified without a key marker.",
                ArgumentName="version-id-marker",
                ArgumentValue=asked["version-id-marker"],
            )

        def change(result: dict[str, Any]) -> None:
            _add_checksums(response, result, "Versions")
            for entry in (*result["Versions"], *result["DeleteMarkers"]):
                # AWS no longer returns names of owners.
                entry["Owner"] = {"ID": entry["Owner"]["ID"]}
            if asked.get("encoding-type") == "url":
                _encode_names(result)

        with changing(response, change):
            return listed(response)

    S3Backend.list_object_versions = _list_versions


def _add_checksums(response: Any, result: dict[str, Any], listing: str) -> None:
    keys = response.backend.get_bucket(response.bucket_name).keys
    for entry in result[listing]:
        version = entry.get("VersionId")
        name = unquote(entry["Key"]) if result.get("EncodingType") == "url" else entry["Key"]
        for key in keys.getlist(name, []):
            if version in (None, key.version_id) and getattr(key, "checksum_algorithm", None):
                entry["ChecksumAlgorithm"] = [key.checksum_algorithm]
                entry["ChecksumType"] = key.checksum_type


def _encode_names(result: dict[str, Any]) -> None:
    """Encode what holds keys, as clients ask for because XML can't hold every key."""
    result["EncodingType"] = "url"
    entries = (*result["Versions"], *result["DeleteMarkers"], *result.get("CommonPrefixes", ()))
    names = ("Key", "Prefix", "KeyMarker", "NextKeyMarker", "Delimiter")
    for one in (result, *entries):
        one.update({name: quote(one[name]) for name in names if one.get(name)})


def _list_versions(
    backend: Any,
    bucket_name: str,
    *,
    delimiter: str | None = None,
    key_marker: str | None = None,
    max_keys: int = 1000,
    prefix: str = "",
    version_id_marker: str | None = None,
) -> tuple[list[Any], list[str], list[Any], str | None, str | None]:
    from moto.s3.models import FakeDeleteMarker

    keys = backend.get_bucket(bucket_name).keys
    names = sorted(key for key in dict(keys) if key.startswith(prefix))
    found: list[tuple[str, Any]] = []
    for name in names:
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        if delimiter and cut >= 0:
            group = name[: cut + len(delimiter)]
            if group > (key_marker or "") and (group, None) not in found[-1:]:
                found.append((group, None))
        elif name >= (key_marker or ""):
            after = None if name != key_marker else version_id_marker or ""
            found += [(name, version) for version in _newest_first(keys.getlist(name), after)]
    page, rest = found[:max_keys], found[max_keys:]
    next_key, next_version = page[-1] if page and rest else (None, None)
    return (
        [one for _, one in page if one is not None and not isinstance(one, FakeDeleteMarker)],
        [name for name, version in page if version is None],
        [one for _, one in page if isinstance(one, FakeDeleteMarker)],
        next_key,
        next_version.version_id if next_version else None,
    )


def _newest_first(versions: list[Any], after: str | None) -> Iterator[Any]:
    """Yield a key's versions; `after` is one of them, or "" for the last one."""
    for place, version in enumerate(reversed(versions)):
        version.is_latest = place == 0
    for version in reversed(versions):
        if after is None or (after and _made(version) < after):
            yield version


def _made(version: Any) -> str:
    """Return what orders a version among those of its key, as the ids that S3 gave do."""
    if version.version_id != "null":
        return str(version.version_id)
    made = version.last_modified.replace(tzinfo=datetime.UTC).timestamp()
    return f"{int(made * 10**9):016x}"
