"""The check of each call at the endpoint, which writes what is wrong to a file."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from botocore.model import OperationModel, Shape, StructureShape

from terradask_simulator.aws.endpoint.answers import Answer
from terradask_simulator.aws.iam.operation import Operation, nested
from terradask_simulator.aws.shapes import MODELS_VARIABLE, REPORT_VARIABLE
from terradask_simulator.aws.shapes.known import is_known
from terradask_simulator.aws.shapes.models import Models, models_in, operation_of
from terradask_simulator.aws.shapes.trees import Problem, of_form, of_json, of_xml, quoting
from terradask_simulator.aws.shapes.values import problem_of_text

__all__ = ["ShapeCheck", "problems_of_answer", "problems_of_request"]

#: Headers of any request and answer of S3, which its model doesn't list.
_COMMON_HEADERS = frozenset(
    {
        # AWS's SDK for C++, which pyarrow has.
        "x-amz-api-version",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-id-2",
        "x-amz-request-id",
        "x-amz-security-token",
        "x-amz-trailer",
        "x-amz-user-agent",
    }
)

_REQUEST_ID = re.compile(rb"<[rR]equestId>[^<]*")

#: Of answers from this size on, one of each operation is checked.
_LARGE_BYTES = 64 * 1024

_NOTHING = StructureShape("Nothing", {"type": "structure", "members": {}})


class ShapeCheck:
    """Checks calls against botocore's models, and writes each problem once."""

    def __init__(self, report: Path, models: Models) -> None:
        self._report = report
        self._models = models
        self._seen: set[int] = set()
        self._written: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] = os.environ) -> ShapeCheck | None:
        """Return the check that an environment asks for, if any."""
        report = environ.get(REPORT_VARIABLE)
        return cls(Path(report), models_in(environ.get(MODELS_VARIABLE, ""))) if report else None

    def check(self, operation: Operation, answer: Answer) -> None:
        """Check one call and its answer: the answer against the newest release, and the request
        against all, unless it was refused: then its caller knows.
        """
        if operation.protocol == "rest" and operation.service != "s3":
            return  # routes of others, such as Route 53's, aren't read
        asked, answered = _of_request(operation), hash((answer.status, *_without_ids(answer.body)))
        place = f"{operation.service}:{operation.name or operation.method}"
        with self._lock:
            if not self._is_new(place, asked, answered):
                return
            one = None
            for model in self._models.of(operation.service):
                one = operation_of(model, operation)
                if one is None:
                    self._write(place, "", f"not in the model of {model.api_version}")
                elif answer.status < "4" and self._is_new(id(model), place, asked):
                    self._write_all(
                        f"request {operation.service}:{one.name}",
                        problems_of_request(one, operation),
                    )
            if one is None:
                return
            # As the newest release has it.
            named = f"answer {operation.service}:{one.name}"
            is_large = len(answer.body) >= _LARGE_BYTES
            if self._is_new(named, "large" if is_large else answered):
                self._write_all(named, problems_of_answer(one, operation, answer))

    def _is_new(self, *parts: Any) -> bool:
        """Return whether something hasn't been checked before: many calls repeat others."""
        key = hash(parts)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _write_all(self, place: str, problems: Iterator[Problem]) -> None:
        try:
            for path, problem in problems:
                self._write(place, path, problem)
        except (ValueError, ElementTree.ParseError) as error:
            self._write(place, "", f"can't be read: {error}")

    def _write(self, place: str, path: str, problem: str) -> None:
        if (place, path, problem) in self._written or is_known(place, path):
            return
        self._written.add((place, path, problem))
        with self._report.open("a") as report:
            report.write(json.dumps({"call": place, "at": path, "problem": problem}) + "\n")


def _of_request(operation: Operation) -> int:
    """Return the same number for the same request."""
    rest: tuple[Any, ...] = ()
    if operation.protocol == "rest":
        headers = frozenset(
            each
            for each in operation.headers.items()
            if each[0].startswith("x-amz-") and each[0] not in _COMMON_HEADERS
        )
        rest = (tuple(operation.parameters.items()), headers)
    return hash((operation.method, operation.path, operation.body, *rest))


def _without_ids(body: bytes) -> list[bytes]:
    """Return an answer's parts without the ids of requests, which all differ."""
    return _REQUEST_ID.split(body) if len(body) < _LARGE_BYTES else [body]


def problems_of_request(one: OperationModel, operation: Operation) -> Iterator[Problem]:
    """Yield what is wrong with a request."""
    shape = one.input_shape
    if operation.protocol == "rest":
        if shape is not None:
            yield from _rest_request(one, shape, operation)
    elif operation.protocol == "json":
        given = json.loads(operation.body or b"{}")
        if shape is not None or given:
            yield from of_json(shape or _NOTHING, given)
    else:
        fields = dict(parse_qsl(operation.body.decode(), keep_blank_values=True))
        version = fields.pop("Version", "")
        if version != one.service_model.api_version:
            yield "Version", f"{version} isn't {one.service_model.api_version}"
        del fields["Action"]
        protocol = "ec2-request" if operation.protocol == "ec2" else "query"
        if shape is not None or fields:
            yield from of_form(shape or _NOTHING, nested(fields), protocol)


def _rest_request(one: OperationModel, shape: Shape, operation: Operation) -> Iterator[Problem]:
    assert isinstance(shape, StructureShape)
    query = {part.partition("=")[0] for part in one.http["requestUri"].partition("?")[2].split("&")}
    parameters = _members_at(shape, "querystring")
    for name, value in operation.parameters.items():
        if name in parameters:
            problem = problem_of_text(parameters[name], str(value), "rfc822")
            yield from quoting(f"?{name}", problem, value)
        elif name not in query and name != "x-id" and not name.startswith("X-Amz-"):
            yield f"?{name}", "is not a parameter"
    yield from _headers(shape, operation.headers)
    payload = shape.serialization.get("payload")
    body = shape.members[payload] if payload else None
    if isinstance(body, StructureShape) and operation.body:
        yield from of_xml(body, ElementTree.fromstring(operation.body), payload or "")  # noqa: S314
    elif isinstance(body, StructureShape) and payload in shape.required_members:
        yield f".{payload}", "is required"


def _members_at(shape: StructureShape, location: str) -> dict[str, Shape]:
    """Return the members of a place of a message by their names there."""
    return {
        member.serialization.get("name", name): member
        for name, member in shape.members.items()
        if member.serialization.get("location") == location
    }


def _headers(shape: StructureShape, headers: Mapping[str, str]) -> Iterator[Problem]:
    known = {name.lower(): member for name, member in _members_at(shape, "header").items()}
    prefixes = (*map(str.lower, _members_at(shape, "headers")), "x-amz-checksum-")
    for name, value in headers.items():
        if name in known:
            yield from quoting(name, problem_of_text(known[name], value, "rfc822"), value)
        elif (
            name.startswith("x-amz-")
            and name not in _COMMON_HEADERS
            and not name.startswith(prefixes)
        ):
            yield name, "is not a header"


def problems_of_answer(
    one: OperationModel, operation: Operation, answer: Answer
) -> Iterator[Problem]:
    """Yield what is wrong with an answer."""
    if answer.status >= "3":
        kind = dict(answer.headers).get("Content-Type", "")
        if answer.body and operation.method != "HEAD" and not kind.startswith("text/plain"):
            yield from _problems_of_error(one, operation, answer)
        return
    shape = one.output_shape
    if operation.protocol == "json":
        given = json.loads(answer.body or b"{}")
        if shape is not None:
            yield from of_json(shape, given)
        elif given:
            yield "", f"{given} is more than nothing"
    elif operation.protocol == "rest":
        if shape is not None:
            yield from _rest_answer(shape, answer)
    else:
        yield from _answer_of_xml(shape, operation, answer)


def _answer_of_xml(shape: Shape | None, operation: Operation, answer: Answer) -> Iterator[Problem]:
    root = ElementTree.fromstring(answer.body)  # noqa: S314  (our own)
    if not root.tag.endswith(f"{operation.name}Response"):
        yield "", f"{root.tag} is not of {operation.name}"
    if operation.protocol == "ec2":
        for child in root:
            if child.tag.endswith("}requestId") or child.tag == "requestId":
                root.remove(child)
                break
        else:
            yield ".requestId", "is required"
    elif shape is not None and (wrapper := shape.serialization.get("resultWrapper")):
        inner = next((child for child in root if child.tag.endswith(wrapper)), None)
        if inner is None:
            yield f".{wrapper}", "is required"
            return
        root = inner
    if shape is not None:
        yield from of_xml(shape, root)


def _rest_answer(shape: Shape, answer: Answer) -> Iterator[Problem]:
    assert isinstance(shape, StructureShape)
    yield from _headers(shape, {name.lower(): value for name, value in answer.headers})
    payload = shape.serialization.get("payload")
    body = shape.members[payload] if payload else shape
    if isinstance(body, StructureShape) and answer.body:
        yield from of_xml(body, ElementTree.fromstring(answer.body), payload or "")  # noqa: S314


def _problems_of_error(
    one: OperationModel, operation: Operation, answer: Answer
) -> Iterator[Problem]:
    """Yield what is wrong with an error: the operation's model may name which codes it has, and
    with which status.
    """
    if operation.protocol == "json":
        code = str(json.loads(answer.body).get("__type", "")).rpartition("#")[2]
    else:
        root = ElementTree.fromstring(answer.body)  # noqa: S314  (our own)
        found = next((each for each in root.iter() if each.tag.endswith("Code")), None)
        code = (found.text or "") if found is not None else ""
    if not code:
        yield "error", "has no code"
        return
    declared = {
        each.metadata.get("error", {}).get("code") or each.name: each for each in one.error_shapes
    }
    if code not in declared:
        if operation.protocol != "ec2" and declared:
            yield f"error {code}", "is none that the operation declares"
        return
    status = declared[code].metadata.get("error", {}).get("httpStatusCode")
    if status and not answer.status.startswith(str(status)):
        yield f"error {code}", f"has the status {answer.status}, not {status}"
