"""Observe this process's own calls to AWS, with their answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.model import OperationModel


@dataclass(frozen=True)
class ObservedCall:
    """A call with AWS's final answer; retries by botocore aren't seen."""

    model: OperationModel
    region: str
    #: As the caller gave them.
    parameters: Mapping[str, Any]
    #: As botocore parsed it. The body of an object is a stream, which isn't read.
    answer: Mapping[str, Any]

    @property
    def operation(self) -> str:
        """The operation's name, such as ``CreateVpc``."""
        return str(self.model.name)

    @property
    def status(self) -> int:
        """The answer's HTTP status."""
        return int(self.answer["ResponseMetadata"]["HTTPStatusCode"])

    @property
    def succeeded(self) -> bool:
        """Whether AWS did what was asked."""
        return self.status < 300  # HTTP's

    @property
    def code(self) -> str:
        """AWS's error code; empty for a success."""
        return str(self.answer.get("Error", {}).get("Code", ""))


_OBSERVERS: list[Callable[[ObservedCall], object]] = []
_PARAMETERS = "terradask_parameters"


@contextlib.contextmanager
def observed(observer: Callable[[ObservedCall], object]) -> Iterator[None]:
    """Show every call of this process to an observer inside a block, from any thread."""
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)


def make_observable(client: Any) -> None:
    """Show a client's calls to the observers."""
    client.meta.events.register_first("provide-client-params", _keep_parameters)
    client.meta.events.register_first("after-call", _show)


def _keep_parameters(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
    if _OBSERVERS:
        context[_PARAMETERS] = _copied(params)


def _show(parsed: Mapping[str, Any], model: Any, context: Mapping[str, Any], **_: Any) -> None:
    if _OBSERVERS and _PARAMETERS in context and "ResponseMetadata" in parsed:
        call = ObservedCall(model, context["client_region"], context[_PARAMETERS], _copied(parsed))
        for observer in tuple(_OBSERVERS):
            observer(call)


def _copied(value: Any) -> Any:
    """Return a copy that later changes don't reach; streams are the same ones."""
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(one) for one in value]
    return value
