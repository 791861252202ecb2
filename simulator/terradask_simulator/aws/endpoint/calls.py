"""Count calls at the endpoint, by action, caller and object."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from terradask_simulator.aws.endpoint import CONTROL_PREFIX
from terradask_simulator.aws.iam.operation import SIGNED, Operation

__all__ = ["Call", "CallRecorder", "identify"]

#: Number of the newest calls that are kept individually.
_LOGGED = 100_000

#: Paths of moto's own: its dashboard and its metadata service.
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
    """One call: its ``service:Action``, the key that signed it, and for S3 ``bucket/key``, or
    ``bucket?prefix=…`` for a list of keys.
    """

    action: str
    access_key: str
    resource: str


def identify(operation: Operation) -> Call | None:
    """Return the AWS call of a request, or None for other requests."""
    if operation.path.startswith((*_MOTOS_OWN, CONTROL_PREFIX)):
        return None
    key = operation.access_key
    service = SIGNED.get(operation.service, operation.service)
    if operation.name:
        return Call(f"{service or 'unknown'}:{operation.name}", key, "")
    if service != "s3":
        return Call(f"{service}:{operation.method} {operation.path}", key, "")
    action, resource = _s3(operation)
    return Call(f"s3:{action}", key, resource)


def _s3(operation: Operation) -> tuple[str, str]:
    """Return the action and the resource of an S3 call."""
    method, query = operation.method, operation.parameters
    resource = unquote(operation.path).strip("/")
    bucket, _, key = resource.partition("/")
    part = next(
        (name for name in query if name not in _S3_PLAIN and not name.startswith("X-Amz-")), None
    )
    if not bucket:
        return "ListBuckets", resource
    if key and "uploadId" in query:
        uploads = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload"}
        return uploads.get(method, f"{_S3_VERB[method]}Upload"), resource
    if part is not None:
        suffix = "".join(word.capitalize() for word in part.split("-"))
        of_part = f"{_S3_VERB.get(method, method)}{'Object' if key else 'Bucket'}{suffix}"
        return "CreateMultipartUpload" if key and "uploads" in query else of_part, resource
    if not key and method == "GET" and "list-type" in query:
        prefix = f"?prefix={query['prefix']}" if "prefix" in query else ""
        return "ListObjectsV2", resource + prefix
    return (_S3_OBJECT if key else _S3_BUCKET).get(method, method), resource


class CallRecorder:
    """Counts of calls since the last reset, and the times of the newest ones."""

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

    def register_role(self, access_key: str, role: str) -> None:
        """Register the access key of an instance's role."""
        with self._lock:
            self._roles[access_key] = role

    def reset(self) -> None:
        """Reset all counts to zero."""
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
        """Return the calls of a role, or of callers without one, in order: ``seconds`` on a clock,
        ``action`` and ``resource``.
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
