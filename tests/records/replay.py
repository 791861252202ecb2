"""Replay cases over the wire, and compare the answers with the recorded ones."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jmespath
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.response import StreamingBody

from terradask_simulator import Simulator

from .compare import compare_call
from .record import NAME, TIME, Call, Case, Difference, RecordError

_ACCOUNT = "123456789012"
_UNTIL_SECONDS = 30


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
        names = Names()
        for number, call in enumerate(case.calls):
            try:
                status, answer = self._ask_until(call, names)
                for name, path in call.keep.items():
                    names.keep(name, path, answer)
            except (BotoCoreError, RecordError) as error:
                raise RecordError(
                    f"case {case.name!r}: calls[{number}] {call.action}: {error}"
                ) from error
            found = list(compare_call(call, status, answer, names, case.unordered))
            yield from (Difference(number, call.action, *one) for one in found)
            if call.status is None and found:
                return  # what follows rests on it

    def _ask_until(self, call: Call, names: Names) -> tuple[int, dict[str, Any]]:
        deadline = time.monotonic() + _UNTIL_SECONDS
        while True:
            status, answer = self._ask(call, names)
            if not call.until or jmespath.search(call.until, answer):
                return status, answer
            if time.monotonic() > deadline:
                raise RecordError(f"until {call.until}: not within {_UNTIL_SECONDS} s: {answer}")
            time.sleep(0.1)

    def _ask(self, call: Call, names: Names) -> tuple[int, dict[str, Any]]:
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
        except ResponseParserError as error:  # none of AWS's
            return 500, {"Error": {"Code": "", "Message": str(error)}}
        status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
        return status, _plain(answer)

    def _client(self, service: str, region: str, call: Call, names: Names) -> Any:
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
class Names:
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
