"""The record of a check: its own requests to AWS, and AWS's answers, in the form of the cases in
``tests/records``. Requests of Terraform's provider aren't part of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from terradask._aws.endpoints import ENDPOINT_VARIABLE
from terradask._aws.observing import ObservedCall, observed
from terradask._aws.translation import DENIED
from terradask._doctor.account_check.harmless import (
    Names,
    harmless_code,
    harmless_message,
    is_known,
    texts_in,
)

#: Tokens of pages, in requests and in answers.
_PAGES = frozenset(
    {"NextToken", "nextToken", "Marker", "IsTruncated", "ContinuationToken"}
    | {"NextContinuationToken", "nextForwardToken", "nextBackwardToken", "KeyMarker"}
    | {"VersionIdMarker", "NextKeyMarker", "NextVersionIdMarker", "PaginationToken"}
)
_READS = ("Describe", "Get", "Head", "List", "Lookup", "Filter", "Simulate", "Search")
_LACKING = ("NoSuch", "NotFound", "DoesNotExist")
_SHORTEST = 4

NOT_REPLAYED = "uses what Terraform, a host or an earlier step made, or the caller's identity"


class Recorder:
    """Collect the calls of each step.

    Parameters
    ----------
    step
        Returns the name of the current step.
    """

    def __init__(self, step: Callable[[], str]) -> None:
        self._step = step
        self._calls: dict[str, list[ObservedCall]] = {}
        self._lock = threading.Lock()

    def watching(self) -> contextlib.AbstractContextManager[None]:
        """Collect the calls of this process inside a block."""
        return observed(self._note)

    def _note(self, call: ObservedCall) -> None:
        # Later pages have the shape of the first one.
        if not _PAGES & set(call.parameters):
            with self._lock:
                self._calls.setdefault(self._step(), []).append(call)

    def document(self, seen: str) -> dict[str, Any]:
        """Return the record as JSON."""
        # Answers of an embedded AWS prove nothing about the real one.
        embedded = bool(os.environ.get(ENDPOINT_VARIABLE))
        with self._lock:
            steps = {name: list(calls) for name, calls in self._calls.items()}
        hidden = names_of(calls for calls in steps.values())
        return {
            "sources": {
                "live": {
                    "repository": "the embedded AWS" if embedded else "AWS",
                    "commit": f"terradask {metadata.version('terradask')}",
                }
            },
            "cases": [
                case for name, calls in steps.items() for case in cases(name, calls, seen, hidden)
            ],
        }


def names_of(steps: Iterable[Iterable[ObservedCall]]) -> frozenset[str]:
    """Return the names in all ARNs, which a message about another call may have."""
    arns = (
        text
        for calls in steps
        for call in calls
        for text in (*texts_in(call.parameters), *texts_in(call.answer))
        if text.startswith("arn:")
    )
    parts = {part for arn in set(arns) for part in re.split("[:/]", arn)}
    return frozenset(part for part in parts if len(part) >= _SHORTEST and not is_known(part))


def cases(
    step: str, calls: list[ObservedCall], seen: str, hidden: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Yield a step's cases: the calls that can be replayed alone, and the others.

    `hidden` are names that no message may show.
    """
    alone = _Written.of(calls, hidden).alone
    parts = (
        [one for one, is_alone in zip(calls, alone, strict=True) if is_alone is which]
        for which in (True, False)
    )
    for part, name, more in zip(
        parts, (step, f"{step}, with resources"), ({}, {"not_replayed": NOT_REPLAYED}), strict=True
    ):
        if part:
            yield {
                "name": name,
                "source": "live",
                "at": f"terradask doctor --live: {step}",
                "evidence": "recorded",
                "seen": seen[:10],
                "calls": _Written.of(part, hidden).once,
                **more,
            }


@dataclass
class _Written:
    """Calls as in a case."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    #: Whether each call needs only what the others made.
    alone: list[bool] = field(default_factory=list)

    @classmethod
    def of(cls, calls: Iterable[ObservedCall], hidden: frozenset[str]) -> _Written:
        """Write calls, in their order."""
        written, answered, made = cls(), dict[str, tuple[int, str]](), set[str]()
        foreign = set[str]()
        known, kept = dict[str, str](), dict[str, tuple[int, str]]()
        for number, call in enumerate(calls):
            names = Names(answered, known, foreign=foreign, kept=kept)
            written.calls.append(_call(call, names, hidden))
            fresh = {name for name in names.used if name not in kept}
            if _creates(call):
                made |= fresh - foreign
            written.alone.append(
                call.code not in DENIED
                and (fresh <= made or _is_absent(call))
                and all(written.alone[kept[name][0]] for name in names.used if name in kept)
            )
            reads = call.operation.startswith(_READS)
            for text, path in _paths(call.answer):
                # Another account's list has other items.
                if not (reads and "[" in path):
                    answered.setdefault(text, (number, path))
        for name, (number, path) in kept.items():
            written.calls[number].setdefault("keep", {})[name] = path
        return written

    @property
    def once(self) -> list[dict[str, Any]]:
        """Each call once: steps ask again and again until something happens."""
        return [one for index, one in enumerate(self.calls) if one not in self.calls[:index]]


def _creates(call: ObservedCall) -> bool:
    named = call.operation.startswith("Create") and not call.operation.endswith("Tags")
    return named and call.succeeded


def _is_absent(call: ObservedCall) -> bool:
    """Return whether AWS has no resource of the name, like the embedded AWS later."""
    if call.model.service_model.service_name == "s3":
        return call.code in {"NoSuchBucket", "404"}
    return call.code.startswith(_LACKING) or call.code.endswith(_LACKING)


def _call(call: ObservedCall, names: Names, hidden: frozenset[str]) -> dict[str, Any]:
    """Return a call as in a case."""
    model = call.model
    parameters = names.request(call.parameters, model.input_shape)
    reads = call.operation.startswith(_READS)
    answer = {key: one for key, one in call.answer.items() if key != "Error"}
    error = call.answer.get("Error", {})
    found = names.answer(answer, model.output_shape if call.succeeded else None, reads=reads)
    for key in _PAGES & set(found):
        found[key] = "<optional>"
    if not call.succeeded:
        details = {key: one for key, one in error.items() if key not in ("Code", "Message")}
        if details:
            found["Error"] = names.answer(details, None, reads=False)
    asked = {one for one in texts_in(call.parameters) if len(one) >= _SHORTEST}
    message = harmless_message(error.get("Message", ""), hidden | asked)
    return {
        "action": f"{model.service_model.service_name}:{call.operation}",
        "region": call.region,
        "parameters": parameters,
        "status": call.status,
        **({"code": harmless_code(call.code), "message": message} if call.code else {}),
        "answer": found,
    }


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of an answer with its JMESPath."""
    if isinstance(value, str) and len(value) >= _SHORTEST:
        yield value, path
    elif isinstance(value, Mapping):
        for key, one in value.items():
            if key != "ResponseMetadata":
                name = key if str(key).isidentifier() else json.dumps(key)
                yield from _paths(one, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _paths(one, f"{path}[{index}]")
