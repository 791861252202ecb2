"""Replay cases over the wire, and compare the answers with the recorded ones."""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jmespath
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.response import StreamingBody

from terradask_simulator import Simulator

from .record import ABSENT, NAME, TIME, Call, Case, Difference, RecordError

_ACCOUNT = "123456789012"
_UNTIL_SECONDS = 30
_STANDS_FOR_ANY = re.compile(r"<[a-z][a-z0-9 _:-]*>|<…>")


class Replayer:
    """Asks one embedded AWS; clients are made once.

    Parameters
    ----------
    simulator
        The running embedded AWS.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._session = simulator.session()
        self._clients: dict[tuple[str, ...], Any] = {}

    def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            client.close()

    def differences(self, case: Case) -> list[Difference]:
        """Replay a case, and return every difference, those that nobody reads too.

        Raises
        ------
        RecordError
            It can't be asked: the text names the call.
        """
        with ExitStack() as switched:
            for name, arguments in case.switches.items():
                switched.enter_context(getattr(self._simulator, name)(**arguments))
            return list(self._replay(case))

    def _replay(self, case: Case) -> Iterator[Difference]:
        names = _Names()
        for number, call in enumerate(case.calls):
            try:
                status, answer = self._ask_until(call, names)
                for name, path in call.keep.items():
                    names.keep(name, path, answer)
            except (BotoCoreError, RecordError) as error:
                raise RecordError(
                    f"case {case.name!r}: calls[{number}] {call.action}: {error}"
                ) from error
            found = list(_compare_call(call, status, answer, names, case.unordered))
            yield from (Difference(number, call.action, *one) for one in found)
            if call.status is None and found:
                return  # what follows rests on it

    def _ask_until(self, call: Call, names: _Names) -> tuple[int, dict[str, Any]]:
        deadline = time.monotonic() + _UNTIL_SECONDS
        while True:
            status, answer = self._ask(call, names)
            if not call.until or jmespath.search(call.until, answer):
                return status, answer
            if time.monotonic() > deadline:
                raise RecordError(f"until {call.until}: not within {_UNTIL_SECONDS} s: {answer}")
            time.sleep(0.1)

    def _ask(self, call: Call, names: _Names) -> tuple[int, dict[str, Any]]:
        service, operation = call.action.split(":")
        region = call.region or self._simulator.info.region
        names.known.setdefault("account", _ACCOUNT)
        names.known.setdefault("region", region)
        client = self._client(service, region, call, names)
        method = client.meta.method_to_api_mapping
        if operation not in method.values():
            raise RecordError(f"{service} has no operation {operation}")
        model = client.meta.service_model.operation_model(operation).input_shape
        given = _as_shape(names.filled(call.parameters), model)
        try:
            answer = getattr(client, xform_name(operation))(**given)
        except ClientError as error:
            answer = error.response
        status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
        return status, _plain(answer)

    def _client(self, service: str, region: str, call: Call, names: _Names) -> Any:
        keys: dict[str, str] = {}
        if call.caller:
            kept = names.filled(call.caller)
            keys = {
                "aws_access_key_id": kept["AccessKeyId"],
                "aws_secret_access_key": kept["SecretAccessKey"],
                "aws_session_token": kept.get("SessionToken"),
            }
        known = (service, region, str(call.unvalidated), keys.get("aws_access_key_id", ""))
        if known not in self._clients:
            with self._simulator.applied():
                self._clients[known] = self._session.client(
                    service,
                    region_name=region,
                    endpoint_url=self._simulator.endpoint_url,
                    config=Config(
                        retries={"total_max_attempts": 1},
                        parameter_validation=not call.unvalidated,
                    ),
                    **keys,
                )
        return self._clients[known]


@dataclass
class _Names:
    """What `$name` stands for within a case."""

    known: dict[str, Any] = field(default_factory=dict)
    random: str = field(default_factory=lambda: secrets.token_hex(4))
    now: float = field(default_factory=time.time)

    def keep(self, name: str, path: str, answer: dict[str, Any]) -> None:
        value = jmespath.search(path, answer)
        if value is None:
            raise RecordError(f"keep {name}: nothing at {path} in {json.dumps(answer)[:500]}")
        self.known[name] = value

    def value(self, name: str) -> Any:
        return self.known.setdefault(name, f"records-{self.random}-{name.replace('_', '-')}")

    def filled(self, value: Any) -> Any:
        """Return a value with every name replaced."""
        if isinstance(value, dict):
            return {self.filled(key): self.filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.filled(one) for one in value]
        if not isinstance(value, str):
            return value
        if found := TIME.fullmatch(value):
            return self._time(milliseconds=bool(found[1]), moved=int(found[2] or 0))
        if found := NAME.fullmatch(value):
            return self.value(found[1] or found[2])
        return NAME.sub(lambda found: str(self.value(found[1] or found[2])), value)

    def _time(self, *, milliseconds: bool, moved: int) -> Any:
        if milliseconds:
            return int(self.now * 1000) + moved
        return datetime.fromtimestamp(int(self.now) + moved, UTC).isoformat()


def _as_shape(value: Any, shape: Any) -> Any:
    """Return parameters with each document where the API takes a string written as JSON."""
    if shape is None:
        return value
    if shape.type_name == "string" and isinstance(value, dict | list):
        return json.dumps(value)
    if shape.type_name == "structure" and isinstance(value, dict):
        return {key: _as_shape(one, shape.members.get(key)) for key, one in value.items()}
    if shape.type_name == "list" and isinstance(value, list):
        return [_as_shape(one, shape.member) for one in value]
    return value


def _plain(value: Any) -> Any:
    """Return an answer as a JSON file would have it."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StreamingBody):
        value = value.read()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return value


_Found = Iterator[tuple[str, Any, Any]]


def _compare_call(
    call: Call, status: int, answer: dict[str, Any], names: _Names, unordered: list[str]
) -> _Found:
    error = answer.get("Error", {})
    code, message = error.pop("Code", ""), error.pop("Message", "")
    if call.status is None:
        if status >= 300:
            yield "(set-up)", "success", f"{status} {code}: {message}"
        return
    if status != call.status:
        yield "status", call.status, status
    if code != call.code:
        yield "code", call.code or ABSENT, f"{code}: {message}" if code else ABSENT
    elif call.message is not None and not _matches(names.filled(call.message), message):
        yield "message", names.filled(call.message), message
    if call.answer is not None and (status < 300) is (call.status < 300):
        if not error:
            answer.pop("Error", None)
        yield from _compare(names.filled(call.answer), answer, "", unordered)
    for path, recorded in call.values.items() if status < 300 else ():
        ours = jmespath.search(path, answer)
        sides = (ABSENT if one is None else one for one in (names.filled(recorded), ours))
        yield from _compare(*sides, path, unordered)


def _compare(recorded: Any, ours: Any, path: str, unordered: list[str]) -> _Found:
    if isinstance(recorded, dict) and isinstance(ours, str):
        ours = _document(ours)  # services return documents as text
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in {**recorded, **ours}:
            yield from _compare(
                recorded.get(key, ABSENT),
                ours.get(key, ABSENT),
                f"{path}.{key}".lstrip("."),
                unordered,
            )
    elif isinstance(recorded, list) and isinstance(ours, list):
        if re.sub(r"\[\d+\]", "[]", path) in unordered:
            ours = _in_order_of(recorded, ours, path, unordered)
        for index in range(max(len(recorded), len(ours))):
            pair = (side[index] if index < len(side) else ABSENT for side in (recorded, ours))
            yield from _compare(*pair, f"{path}[{index}]", unordered)
    elif not _matches(recorded, ours):
        yield path or "(answer)", recorded, ours


def _in_order_of(recorded: list[Any], ours: list[Any], path: str, unordered: list[str]) -> Any:
    """Return our items, each in the place of a recorded one that it equals, if there is one."""
    equal = [
        [place for place, it in enumerate(ours) if not list(_compare(one, it, path, unordered))]
        for one in recorded
    ]
    placed: dict[int, int] = {}
    for index in sorted(range(len(recorded)), key=lambda index: len(equal[index])):
        free = [place for place in equal[index] if place not in placed.values()]
        placed.update({index: free[0]} if free else {})
    left = [it for place, it in enumerate(ours) if place not in placed.values()]
    return [
        ours[placed[index]] if index in placed else left.pop(0)
        for index in range(len(recorded))
        if index in placed or left
    ] + left


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_TYPES: dict[str, Callable[[Any], bool]] = {
    "<any>": lambda ours: True,
    "<bool>": lambda ours: isinstance(ours, bool),
    "<number>": lambda ours: isinstance(ours, int | float) and not isinstance(ours, bool),
    "<time>": lambda ours: _TYPES["<number>"](ours) or _is_iso(ours),
}


def _matches(recorded: Any, ours: Any) -> bool:
    """Tell whether a value is the recorded one, or of the type that it stands for."""
    if ours is ABSENT or recorded is ABSENT:
        return ours is recorded
    if isinstance(recorded, str) and recorded in _TYPES:
        return _TYPES[recorded](ours)
    if isinstance(recorded, str) and isinstance(ours, str):
        literal = _STANDS_FOR_ANY.split(recorded)
        return bool(re.fullmatch("(?s:.+)".join(map(re.escape, literal)), ours))
    return type(recorded) is type(ours) and recorded == ours


def _is_iso(value: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return False
