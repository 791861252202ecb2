"""Log of the endpoint's requests, as actions, resources and condition keys."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any

from terradask_simulator.aws.iam.evaluation import Request

__all__ = ["LoggedRequest", "RequestLog"]

#: Keys that differ from call to call, which would make every request distinct.
_VOLATILE = (
    "aws:CurrentTime",
    "aws:EpochTime",
    "aws:UserAgent",
    "aws:userid",
    "ec2:SourceInstanceARN",
    "s3:if-match",
)


@dataclass(frozen=True)
class LoggedRequest:
    """A distinct request, and how often it was received.

    Parameters
    ----------
    request
        The request, without the keys that differ from call to call.
    operation
        The operation that required the action, as ``service:Operation``; they differ if the action
        is implied.
    allowed
        Whether the request was allowed.
    count
        The number of such requests.
    """

    request: Request
    operation: str
    allowed: bool
    count: int

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> LoggedRequest:
        """Return the entry from JSON values."""
        return cls(**{**given, "request": Request.from_dict(given["request"])})


class RequestLog:
    """Requests by principal; equal requests are kept once and counted."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()

    def record(self, entity: str, operation: str, request: Request, *, allowed: bool) -> None:
        """Count a request."""
        context = tuple(
            sorted((key, values) for key, values in request.context.items() if key not in _VOLATILE)
        )
        key = (entity, operation, request.action, request.resource, context, allowed)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1

    def reset(self) -> None:
        """Remove all requests."""
        with self._lock:
            self._counts.clear()

    def by_principal(self) -> dict[str, list[LoggedRequest]]:
        """Return the requests of each user or role by its ARN; the simulator's own credentials are
        ``""``.
        """
        table: dict[str, list[LoggedRequest]] = {}
        with self._lock:
            for key, count in self._counts.items():
                entity, operation, action, resource, context, allowed = key
                request = Request(action, resource, dict(context), entity)
                table.setdefault(entity, []).append(
                    LoggedRequest(request, operation, allowed, count)
                )
        return table
