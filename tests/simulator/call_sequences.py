"""Which AWS calls a stretch of work makes: this process's own in their order,
Terraform's as a set.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.client import BaseClient
from botocore.httpsession import URLLib3Session

from terradask_simulator import Simulator
from terradask_simulator.aws.endpoint.calls import identify
from terradask_simulator.aws.iam.operation import read_operation

_READS = re.compile(r"\w+:(Describe|Get|Head|List|Simulate|Batch(Get|Check))")

#: What differs from run to run, or from release to release, and what stands in its place.
_PLACEHOLDERS = [
    (re.compile(pattern), placeholder)
    for pattern, placeholder in [
        (r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b", "<run id>"),
        (r"\b\d{8}T\d{6}Z\b", "<time>"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b[0-9a-f]{32}\b", "<md5>"),
        (r"(:secret:[\w/-]+)-\w{6}\b", r"\1-<six>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?", "<time>"),
        (
            r"\b(ami|eipalloc|i|igw|lt|nat|rtb|rtbassoc|sg|sgr|subnet|vol|vpc|vpce)-[0-9a-f]{8,17}\b",
            r"<\1>",
        ),
        (r"\bterradask_host-[\w.+]+-py3", "terradask_host-<version>-py3"),
        (r"\bterradask-[a-z]+-\d{12}-us-east-1\b", "<bucket>"),
        # Another page of the same answer.
        (r" (ContinuationToken|Marker|NextToken|nextToken)=\S+", ""),
        # How many hosts have reported by then is a matter of time.
        (r"(, )?\{Key=clusters/\w+/hosts/<i>\.json\}", ""),
        (r"\b127\.\d+\.\d+\.\d+\b", "<address>"),
    ]
]


def plain(text: str) -> str:
    """Put placeholders in place of what differs from run to run."""
    for pattern, placeholder in _PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text


@dataclass(frozen=True)
class Sent:
    """One call of this process, as code makes it: retries are not told apart."""

    seconds: float
    action: str
    parameters: str

    def __str__(self) -> str:
        return f"{self.action} {self.parameters}".rstrip()

    @property
    def is_read(self) -> bool:
        return bool(_READS.match(self.action))


@dataclass
class Recording:
    """The calls to one embedded AWS, by phases that are marked with `phase`."""

    sim: Simulator
    _begun: list[tuple[float, str]] = field(default_factory=list)
    _sent: list[Sent] = field(default_factory=list)
    #: Action and resource as the endpoint names them, and when the request left and was answered.
    _requests: list[tuple[str, str, float, float]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def phase(self, name: str) -> None:
        """Begin a phase, which lasts until the next begins."""
        self._begun.append((time.monotonic(), name))

    def actions(self) -> set[str]:
        """Return what this process has called in this phase."""
        begun, _ = self._begun[-1]
        with self._lock:
            return {sent.action for sent in self._sent if sent.seconds >= begun}

    def note_call(self, client: BaseClient, operation: str, parameters: Mapping[str, Any]) -> None:
        # A missing object is looked up in a list only while its bucket is young.
        looks_up = operation == "ListObjectsV2" and parameters.get("MaxKeys") == 1
        if client.meta.endpoint_url == self.sim.endpoint_url and not looks_up:
            action = f"{client.meta.service_model.signing_name}:{operation}"
            with self._lock:
                self._sent.append(Sent(time.monotonic(), action, plain(_shown(parameters))))

    def note_request(self, request: Any, left: float, answered: float) -> None:
        parts = urlsplit(request.url)
        if not request.url.startswith(self.sim.endpoint_url):
            return
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        environ = {
            "REQUEST_METHOD": request.method,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": headers.get("content-type", ""),
            "HTTP_AUTHORIZATION": headers.get("authorization", ""),
        }
        if "x-amz-target" in headers:
            environ["HTTP_X_AMZ_TARGET"] = headers["x-amz-target"]
        body = request.body if isinstance(request.body, bytes) else str(request.body or "").encode()
        call = identify(read_operation(environ, body))
        if call is not None:
            with self._lock:
                self._requests.append((call.action, call.resource, left, answered))

    def by_phase(self) -> Iterator[tuple[str, list[Sent], set[str]]]:
        """Tell each phase's name, this process's calls, and what Terraform called."""
        others = self._others()
        ends = [seconds for seconds, _ in self._begun[1:]] + [float("inf")]
        for (begin, name), end in zip(self._begun, ends, strict=True):
            mine = [sent for sent in self._sent if begin <= sent.seconds < end]
            yield name, mine, {text for seconds, text in others if begin <= seconds < end}

    def _others(self) -> list[tuple[float, str]]:
        """Return what came to the endpoint and no request of this process explains: one clock
        serves all processes.
        """
        left: list[tuple[float, str]] = []
        open_requests = list(self._requests)
        for row in self.sim.call_log():
            mine = next(
                (
                    number
                    for number, (action, resource, begin, end) in enumerate(open_requests)
                    if action == row["action"]
                    and resource == row["resource"]
                    and begin <= row["seconds"] <= end
                ),
                None,
            )
            if mine is None:
                left.append((row["seconds"], plain(f"{row['action']} {row['resource']}".rstrip())))
            else:
                del open_requests[mine]
        return left


@contextlib.contextmanager
def recording(sim: Simulator) -> Iterator[Recording]:
    """Record calls for the length of a ``with`` block, whichever client of boto3 makes them."""
    recorded = Recording(sim)
    make_call, send = BaseClient._make_api_call, URLLib3Session.send

    def noted_call(client: BaseClient, operation: str, parameters: Mapping[str, Any]) -> Any:
        recorded.note_call(client, operation, parameters)
        return make_call(client, operation, parameters)

    def noted_send(session: URLLib3Session, request: Any) -> Any:
        left = time.monotonic()
        try:
            return send(session, request)
        finally:
            recorded.note_request(request, left, time.monotonic())

    sim.reset_calls()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", noted_call)
        patch.setattr(URLLib3Session, "send", noted_send)
        yield recorded


def told(
    recorded: Recording,
    *,
    side_by_side: Sequence[re.Pattern[str]],
    unordered: re.Pattern[str],
    by_chance: re.Pattern[str],
) -> str:
    """Return the calls as text: by phase, this process's writes in their order, its reads and
    Terraform's calls as sets.

    Writes that the same one of the patterns `side_by_side` matches have no order of their own, and
    are sorted where they follow one another. Writes that `unordered` matches have no order among
    all the others, and come last. Reads that `by_chance` matches are left out.
    """
    lines = []
    for name, sent, terraform in recorded.by_phase():
        writes = [str(call) for call in sent if not call.is_read]
        sections = {
            "writes": _in_order(
                [text for text in writes if not unordered.search(text)], side_by_side
            ),
            "writes in any order": sorted(filter(unordered.search, writes)),
            "reads": sorted(
                {str(call) for call in sent if call.is_read and not by_chance.search(str(call))}
            ),
            "terraform": sorted(terraform),
        }
        lines.append(f"== {name}")
        for title, calls in sections.items():
            lines += [title, *(f"  {text}" for text in calls)] if calls else []
    return "\n".join(lines) + "\n"


def _in_order(writes: Sequence[str], side_by_side: Sequence[re.Pattern[str]]) -> list[str]:
    def concurrent(text: str) -> int | None:
        return next(
            (number for number, pattern in enumerate(side_by_side) if pattern.search(text)), None
        )

    ordered: list[str] = []
    for together, neighbours in groupby(writes, concurrent):
        found = list(neighbours)
        ordered += found if together is None else sorted(found)
    return ordered


def _shown(value: Any, name: str = "") -> str:
    if isinstance(value, Mapping):
        inner = " ".join(f"{key}={_shown(one, key)}" for key, one in sorted(value.items()))
        return f"{{{inner}}}" if name else inner
    if isinstance(value, list | tuple | set):
        if name == "AutoScalingGroupNames":
            # What is asked about by names has no order.
            value = sorted(value)
        return "[" + ", ".join(_shown(one, name or "-") for one in value) + "]"
    if name in ("Body", "SecretString"):
        return _kind(value)
    return str(value)


def _kind(content: Any) -> str:
    """Say of a document what keys it has."""
    try:
        document = json.loads(_text(content))
    except ValueError:
        return "…"
    return "{" + ", ".join(sorted(document)) + "}" if isinstance(document, dict) else "…"


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
