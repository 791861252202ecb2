"""Read the streams and events of the workspace's log group in CloudWatch, page by page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.rate_limit import RateLimiter
from terradask._aws.session import Aws
from terradask._aws.translation import is_transient
from terradask._observe.logs.query import Streams
from terradask.errors import AccessDenied, EndpointUnreachable
from terradask_host.log_streams import LogStream, parse_stream
from terradask_modules.names import log_group_name

#: Largest pages of DescribeLogStreams and FilterLogEvents.
_STREAMS_PAGE, EVENTS_PAGE = 50, 10_000

#: Pauses between calls. AWS allows 25 and 5 calls a second of all callers in account and region:
#: https://repost.aws/knowledge-center/cloudwatch-logs-throttling
_STREAMS_SECONDS, _EVENTS_SECONDS = 0.1, 0.5

#: Time of retries while AWS throttles, beyond boto3's own retries.
_BUSY_SECONDS = 60.0


class LogGroup:
    """Read the workspace's log group within AWS's rate limits.

    Permissions needed: ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents`` on it.
    """

    def __init__(
        self,
        aws: Aws,
        workspace: str,
        *,
        stream_limiter: RateLimiter | None = None,
        event_limiter: RateLimiter | None = None,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        self.name = log_group_name(workspace)
        self._aws = aws
        self._busy_seconds = busy_seconds
        self._stream_limiter = stream_limiter or RateLimiter(_STREAMS_SECONDS)
        self._event_limiter = event_limiter or RateLimiter(_EVENTS_SECONDS)

    def streams(self, prefix: str, *, newest_first: bool = False) -> Iterator[LogStream]:
        """Return hosts' streams with a prefix, sorted by name, which puts the newest run last, or
        first.
        """
        return _hosts(self._described(logStreamNamePrefix=prefix, descending=newest_first))

    def recent(self, *, most: int) -> Iterator[LogStream]:
        """Return at most `most` hosts' streams of all clusters, those with the newest events first;
        AWS's order may lag.
        """
        return _hosts(islice(self._described(orderBy="LastEventTime", descending=True), most))

    def runless(self, cluster: str, run_start_ms: int) -> list[LogStream]:
        """Return streams, created since a run's start, of a cluster's hosts without a known run."""
        every = self._described(logStreamNamePrefix=f"{cluster}/-/")
        return list(_hosts(one for one in every if one["creationTime"] >= run_start_ms))

    def _described(self, **query: Any) -> Iterator[dict[str, Any]]:
        query = {"limit": _STREAMS_PAGE, **query}
        for page in self._pages(self._stream_limiter, "describe_log_streams", query):
            yield from page.get("logStreams", ())

    def events(
        self, streams: Streams, start_ms: int, end_ms: int | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield events, oldest first; with ``startFromHead=False`` newest first."""
        if streams.prefix is None and not streams.names:
            return
        which: dict[str, Any] = (
            {"logStreamNames": list(streams.names)}
            if streams.prefix is None
            else {"logStreamNamePrefix": streams.prefix}
        )
        query = {**which, "startTime": start_ms, "limit": EVENTS_PAGE, **more}
        if end_ms is not None:
            query["endTime"] = end_ms
        for page in self._pages(self._event_limiter, "filter_log_events", query):
            yield from page.get("events", ())

    @property
    def reads_from_tail(self) -> bool:
        """Whether this version of boto3 can ask for the newest events first."""
        model = self._aws.client("logs").meta.service_model.operation_model("FilterLogEvents")
        return "startFromHead" in model.input_shape.members

    def _pages(
        self, limiter: RateLimiter, method: str, query: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._call(limiter, method, **query, **token)
            yield page
            # A page may be empty although others follow.
            if not page.get("nextToken"):
                return
            token = {"nextToken": page["nextToken"]}

    def _call(self, limiter: RateLimiter, method: str, **query: Any) -> dict[str, Any]:
        """Call, and repeat while AWS throttles; return nothing for an unknown group or stream."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                with limiter.slot(), unless("ResourceNotFoundException"):
                    call = getattr(self._aws.client("logs"), method)
                    answer: dict[str, Any] = call(logGroupName=self.name, **query)
                    return answer
                return {}
            except AccessDenied as error:
                error.allowed = "the rights of `terradask iam user` or `terradask iam ongoing`"
                error.advice = (
                    f"ask an administrator to attach these policies, which allow {error.action}, "
                    "or use another profile (AWS_PROFILE)"
                )
                raise
            except Exception as error:
                if not is_transient(error):
                    raise
                if time.monotonic() > deadline:
                    raise EndpointUnreachable(
                        "CloudWatch has answered no call that reads logs for a minute",
                        given=f"{self.name}: {error}",
                        allowed="5 calls of FilterLogEvents a second, of all callers in the "
                        "account and region",
                        advice="try again later, or read less: a host, --since, --tail",
                    ) from error


def _hosts(described: Iterable[Mapping[str, Any]]) -> Iterator[LogStream]:
    for one in described:
        if (stream := parse_stream(one["logStreamName"])) is not None:
            yield stream
