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
from terradask_simulator.aws.shapes.models import operation_of

__all__ = ["Call", "CallRecorder", "identify"]

#: Number of the newest calls that are kept individually.
_LOGGED = 100_000

#: Paths of moto's own: its dashboard and its metadata service.
_MOTOS_OWN = ("/moto-api", "/favicon.ico", "/latest/meta-data/", "/latest/api/")


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
    from moto.core.utils import get_service_model

    known = operation_of(get_service_model("s3"), operation)
    action = operation.method if known is None else known.name
    resource = unquote(operation.path).strip("/")
    if action == "ListObjectsV2" and "prefix" in operation.parameters:
        resource += f"?prefix={operation.parameters['prefix']}"
    return action, resource


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
