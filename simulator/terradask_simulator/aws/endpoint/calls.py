"""Count calls at the endpoint, by action, caller and object."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from terradask_simulator.aws.endpoint.paths import CONTROL_PREFIX

__all__ = ["Call", "CallRecorder", "identify"]

#: So many of the newest calls are remembered one by one.
_LOGGED = 100_000

#: What moto answers besides AWS's calls: its dashboard, and a metadata service.
_MOTOS_OWN = ("/moto-api", "/favicon.ico", "/latest/meta-data/", "/latest/api/")

_S3_OBJECT = {
    "GET": "GetObject",
    "PUT": "PutObject",
    "HEAD": "HeadObject",
    "DELETE": "DeleteObject",
}
_S3_BUCKET = {
    "GET": "ListObjects",
    "PUT": "CreateBucket",
    "HEAD": "HeadBucket",
    "DELETE": "DeleteBucket",
}
_S3_VERB = {"GET": "Get", "PUT": "Put", "DELETE": "Delete", "POST": "Post", "HEAD": "Head"}
#: Query parameters of object calls that name no sub-resource.
_S3_PLAIN = {
    "list-type",
    "prefix",
    "delimiter",
    "max-keys",
    "continuation-token",
    "start-after",
    "fetch-owner",
    "encoding-type",
    "marker",
    "x-id",
    "versionId",
    "partNumber",
    "response-content-type",
}


@dataclass(frozen=True)
class Call:
    """One call.

    Parameters
    ----------
    action
        ``service:Action``, as in IAM policies.
    access_key
        The key that signed it, empty for an unsigned call.
    resource
        ``bucket/key`` for S3, ``bucket?prefix=…`` for a list of keys, else empty.
    """

    action: str
    access_key: str
    resource: str


def identify(environ: Mapping[str, Any], body: bytes) -> Call | None:
    """Return which call a request is, or None where it is none of AWS's."""
    path = environ.get("PATH_INFO", "/")
    if path.startswith((*_MOTOS_OWN, CONTROL_PREFIX)):
        return None
    access_key, service = _signer(environ)
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        return Call(f"{service or 'unknown'}:{target.rpartition('.')[2]}", access_key, "")
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        fields = parse_qs(body.decode("utf-8", "replace"))
        if "Action" in fields:
            return Call(f"{service or 'unknown'}:{fields['Action'][0]}", access_key, "")
    if service in ("", "s3"):
        return _s3(environ, access_key)
    return Call(f"{service}:{environ.get('REQUEST_METHOD', 'GET')} {path}", access_key, "")


def _signer(environ: Mapping[str, Any]) -> tuple[str, str]:
    header = environ.get("HTTP_AUTHORIZATION", "")
    if "Credential=" in header:
        scope = header.split("Credential=", 1)[1].split(",", 1)[0].split("/")
    else:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        scope = query.get("X-Amz-Credential", [""])[0].split("/")
    return (scope[0], scope[3].lower()) if len(scope) >= 5 else ("", "")


def _s3(environ: Mapping[str, Any], access_key: str) -> Call:
    method = environ.get("REQUEST_METHOD", "GET")
    resource = unquote(environ.get("PATH_INFO", "/")).strip("/")
    bucket, _, key = resource.partition("/")
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    part = next(
        (name for name in query if name not in _S3_PLAIN and not name.startswith("X-Amz-")), None
    )
    if not bucket:
        action = "ListBuckets"
    elif key and "uploadId" in query:
        action = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload"}.get(
            method, f"{_S3_VERB[method]}Upload"
        )
    elif key and "uploads" in query:
        action = "CreateMultipartUpload"
    elif part is not None:
        suffix = "".join(word.capitalize() for word in part.split("-"))
        action = f"{_S3_VERB.get(method, method)}{'Object' if key else 'Bucket'}{suffix}"
    elif key:
        action = _S3_OBJECT.get(method, method)
    elif method == "GET" and "list-type" in query:
        action = "ListObjectsV2"
        if "prefix" in query:
            resource += f"?prefix={query['prefix'][0]}"
    else:
        action = _S3_BUCKET.get(method, method)
    return Call(f"s3:{action}", access_key, resource)


class CallRecorder:
    """Counts of calls since the last mark, and when each of the newest came."""

    def __init__(self) -> None:
        self._counts: Counter[Call] = Counter()
        self._log: deque[tuple[float, Call]] = deque(maxlen=_LOGGED)
        self._roles: dict[str, str] = {}
        self._lock = threading.Lock()

    def record(self, call: Call) -> None:
        """Count one call."""
        with self._lock:
            self._counts[call] += 1
            self._log.append((time.monotonic(), call))

    def know_role(self, access_key: str, role: str) -> None:
        """Remember that an access key was handed out to an instance's role."""
        with self._lock:
            self._roles[access_key] = role

    def reset(self) -> None:
        """Set the mark: counts start at zero again."""
        with self._lock:
            self._counts.clear()
            self._log.clear()

    def counts(self) -> dict[str, int]:
        """Return the number of calls by ``service:Action``."""
        return self._table(lambda _call: "")[""]

    def by_role(self) -> dict[str, dict[str, int]]:
        """Return the number of calls by role, then ``service:Action``; callers without a role are
        ``""``.
        """
        return self._table(lambda call: self._roles.get(call.access_key, ""))

    def by_resource(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the number of S3 calls by role, then `Call.resource`, then ``service:Action``."""
        table: dict[str, dict[str, dict[str, int]]] = {}
        with self._lock:
            for call, count in self._counts.items():
                if call.resource:
                    role = self._roles.get(call.access_key, "")
                    row = table.setdefault(role, {}).setdefault(call.resource, {})
                    row[call.action] = row.get(call.action, 0) + count
        return table

    def log(self, role: str = "") -> list[dict[str, Any]]:
        """Return the calls of a role, or of callers without one, in their order: ``seconds`` on a
        clock, ``action`` and ``resource``.
        """
        with self._lock:
            return [
                {"seconds": seconds, "action": call.action, "resource": call.resource}
                for seconds, call in self._log
                if self._roles.get(call.access_key, "") == role
            ]

    def _table(self, column: Any) -> dict[str, dict[str, int]]:
        table: dict[str, dict[str, int]] = defaultdict(dict)
        with self._lock:
            for call, count in self._counts.items():
                row = table[column(call)]
                row[call.action] = row.get(call.action, 0) + count
        return {name: dict(sorted(row.items())) for name, row in sorted(table.items())} or {"": {}}
