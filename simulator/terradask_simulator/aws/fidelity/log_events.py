"""Apply CloudWatch Logs' limits to writing and reading log events, and read them page by page.

moto accepts any batch, names the wrong events as rejected, returns all events in one page and at
once, and ignores ``logStreamNamePrefix`` and ``startFromHead`` of FilterLogEvents.

- AWS (documented): A log stream's name has no ``:`` and no ``*``.
  https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogStream.html
- AWS (documented): A batch has at most 10,000 events, 1,048,576 bytes (26 more for each event) and,
  in order, valid events of 24 hours; events older than 14 days or than the group's retention, and
  those more than 2 hours ahead, are rejected, and the others taken.
  https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
- AWS (documented): A page of FilterLogEvents has at most 10,000 events or 1 MB, and may be empty
  though more pages follow; up to 100 streams can be named, or a prefix given.
  https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
  Here each first page is empty. Events are sorted by time, then by ingestion.
- AWS (documented): DescribeLogStreams shows the time of a stream's last event "typically in less
  than an hour". https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogStream.html
  Here after one hour.

AWS gives no figure for how soon an event can be read; `delay_logs` sets one.

moto sets a group's key only at its creation, and answers the two calls that change it with HTTP
500, which the Terraform provider repeats for minutes.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from terradask_simulator.aws.fidelity.clock import now as now_utc
from terradask_simulator.aws.fidelity.patching import add, around
from terradask_simulator.aws.switchboard import Setting

__all__ = ["DELAY", "install"]

_STREAM_NAME = re.compile(r"[^:*]{1,512}")
_BATCH_EVENTS, _BATCH_BYTES, _EVENT_OVERHEAD_BYTES = 10_000, 1_048_576, 26
_BATCH_MILLISECONDS = _DAY_MILLISECONDS = 24 * 3_600_000
_OLDEST_MILLISECONDS, _NEWEST_MILLISECONDS = 14 * _DAY_MILLISECONDS, 2 * 3_600_000
_PAGE_EVENTS, _PAGE_BYTES = 10_000, 2**20
_NAMED_STREAMS = 100
#: Earliest start time of requests for the newest events first.
_FROM_TAIL_SINCE = 1_704_067_200_000
_DESCRIBED_AFTER_SECONDS = 3_600.0


#: Seconds from an event's ingestion until it can be read.
DELAY = Setting(seconds=0.0)


def install() -> None:
    """Replace moto's responses to the four calls, and add the two that change a group's key."""
    from moto.logs.models import LogsBackend
    from moto.logs.responses import LogsResponse

    @around(LogsResponse, "create_log_stream")
    def create_log_stream(create: Any, response: Any) -> Any:
        name = response._get_param("logStreamName")
        if not _STREAM_NAME.fullmatch(name or ""):
            raise _invalid(
                f"1 validation error detected: Value '{name}' at 'logStreamName' failed to satisfy "
                "constraint: Member must satisfy regular expression pattern: [^:*]*"
            )
        return create(response)

    @around(LogsBackend, "put_log_events")
    def put_log_events(
        put: Any, backend: Any, group: str, stream: str, events: list[dict[str, Any]]
    ) -> tuple[str, dict[str, int]]:
        found = backend.groups.get(group)
        valid, rejected = _sorted_out(events, found and found.retention_in_days)
        _check_batch(events, valid)
        token, _ = put(backend, group, stream, valid)
        return token, rejected

    @around(LogsResponse, "describe_log_streams")
    def describe_log_streams(describe: Any, response: Any) -> Any:
        answer = json.loads(describe(response))
        newest = (time.time() - _DESCRIBED_AFTER_SECONDS) * 1000
        for stream in answer["logStreams"]:
            if stream.get("lastIngestionTime", 0) > newest:
                for name in ("firstEventTimestamp", "lastEventTimestamp", "lastIngestionTime"):
                    del stream[name]
        return json.dumps(answer)

    def associate_kms_key(response: Any) -> str:
        _group(response).kms_key_id = response._get_param("kmsKeyId")
        return ""

    def disassociate_kms_key(response: Any) -> str:
        _group(response).kms_key_id = None
        return ""

    add(LogsResponse, filter_log_events, associate_kms_key, disassociate_kms_key)


def _group(response: Any) -> Any:
    from moto.logs.exceptions import ResourceNotFoundException

    found = response.logs_backend.groups.get(response._get_param("logGroupName"))
    if found is None:
        raise ResourceNotFoundException
    return found


def filter_log_events(response: Any) -> str:
    """Return one page of a log group's events."""
    asked = {
        name: response._get_param(name)
        for name in (
            "logGroupName",
            "logStreamNames",
            "logStreamNamePrefix",
            "startTime",
            "endTime",
            "filterPattern",
        )
    }
    limit = response._get_param("limit") or _PAGE_EVENTS
    _check_question(asked, limit)
    token, from_head = response._get_param("nextToken"), response._get_param("startFromHead", True)
    after = None
    if token:
        from_head, after = _read_token(token, asked)
    elif not from_head and (asked["startTime"] or 0) < _FROM_TAIL_SINCE:
        raise _invalid(
            "startFromHead set to false is supported only when startTime is on or after Jan 1, "
            "2024 00:00:00 UTC."
        )
    events = sorted(_events(response, asked), key=_place, reverse=not from_head)
    if after is not None:
        events = [one for one in events if _comes_after(_place(one), after, from_head=from_head)]
    page = _first_page(events, limit) if token else []
    answer: dict[str, Any] = {"events": [_shown(one) for one in page], "searchedLogStreams": []}
    if len(page) < len(events):
        answer["nextToken"] = _make_token(asked, from_head, _place(page[-1]) if page else after)
    return json.dumps(answer)


def _sorted_out(
    events: list[dict[str, Any]], retention_days: Any
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the valid events, and AWS's indexes of the others."""
    now = now_utc().timestamp() * 1000
    oldest, newest = now - _OLDEST_MILLISECONDS, now + _NEWEST_MILLISECONDS
    kept_since = now - int(retention_days or 0) * _DAY_MILLISECONDS if retention_days else 0
    times = [event["timestamp"] for event in events]
    old, expired, timely = (
        sum(at < bound for at in times) for bound in (oldest, kept_since, newest)
    )
    rejected = {
        **({"tooOldLogEventEndIndex": old} if old else {}),
        **({"expiredLogEventEndIndex": expired} if expired else {}),
        **({"tooNewLogEventStartIndex": timely} if timely < len(times) else {}),
    }
    return events[max(old, expired) : timely], rejected


def _check_batch(events: list[dict[str, Any]], valid: list[dict[str, Any]]) -> None:
    sizes = [len(event["message"].encode()) + _EVENT_OVERHEAD_BYTES for event in events]
    every, times = ([event["timestamp"] for event in each] for each in (events, valid))
    if not 1 <= len(events) <= _BATCH_EVENTS:
        raise _invalid(
            "1 validation error detected: Value at 'logEvents' failed to satisfy constraint: "
            "Member must have length between 1 and 10000"
        )
    if sum(sizes) > _BATCH_BYTES:
        raise _invalid(f"Upload too large: {sum(sizes)} bytes exceeds limit of {_BATCH_BYTES}")
    if sorted(every) != every:
        # The recorded text: LocalStack, test_put_log_events_wrong_order.
        raise _invalid(
            "Log events in a single PutLogEvents request must be in chronological order."
        )
    if times and max(times) - min(times) > _BATCH_MILLISECONDS:
        raise _invalid(
            "The batch of log events in a single PutLogEvents request cannot span more than 24 "
            "hours."
        )


def _check_question(asked: dict[str, Any], limit: int) -> None:
    names = asked["logStreamNames"]
    if names and asked["logStreamNamePrefix"]:
        raise _invalid("logStreamNames and logStreamNamePrefix can't be given both.")
    if names and len(names) > _NAMED_STREAMS:
        raise _invalid(
            "1 validation error detected: Value at 'logStreamNames' failed to satisfy constraint: "
            "Member must have length less than or equal to 100"
        )
    if not 1 <= limit <= _PAGE_EVENTS:
        raise _invalid(
            f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy "
            "constraint: Member must have value less than or equal to 10000"
        )


def _events(response: Any, asked: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the requested events with their streams' names."""
    from moto.logs.exceptions import ResourceNotFoundException
    from moto.logs.models import EventMessageFilter

    group = _group(response)
    names = asked["logStreamNames"] or [
        name for name in group.streams if name.startswith(asked["logStreamNamePrefix"] or "")
    ]
    if any(name not in group.streams for name in names):
        raise ResourceNotFoundException("The specified log stream does not exist.")
    begin, end = asked["startTime"] or 0, asked["endTime"] or float("inf")
    shown = (time.time() - DELAY.seconds) * 1000
    pattern = EventMessageFilter(asked["filterPattern"])
    for name in names:
        for event in group.streams[name].events:
            is_within = begin <= event.timestamp <= end and event.ingestion_time <= shown
            if is_within and pattern.matches(event.message):
                yield name, event


def _place(found: tuple[str, Any]) -> tuple[int, int, int]:
    event = found[1]
    return event.timestamp, event.ingestion_time, event.event_id


def _comes_after(
    place: tuple[int, int, int], other: tuple[int, int, int], *, from_head: bool
) -> bool:
    return place > other if from_head else place < other


def _first_page(events: list[tuple[str, Any]], limit: int) -> list[tuple[str, Any]]:
    size = 0
    for number, (_, event) in enumerate(events[:limit]):
        size += len(event.message.encode())
        if number and size > _PAGE_BYTES:
            return events[:number]
    return events[:limit]


def _shown(found: tuple[str, Any]) -> dict[str, Any]:
    return {**found[1].to_filter_dict(), "logStreamName": found[0]}


def _make_token(asked: dict[str, Any], from_head: bool, after: tuple[int, int, int] | None) -> str:
    content = json.dumps([asked, from_head, after], sort_keys=True)
    return base64.urlsafe_b64encode(content.encode()).decode()


def _read_token(token: str, asked: dict[str, Any]) -> tuple[bool, tuple[int, int, int] | None]:
    try:
        of, from_head, after = json.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        of = None
    if of != asked:
        raise _invalid("The specified nextToken is invalid.")
    return from_head, None if after is None else tuple(after)


def _invalid(message: str) -> Exception:
    from moto.logs.exceptions import InvalidParameterException

    return InvalidParameterException(message)
