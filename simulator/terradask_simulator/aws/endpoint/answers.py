"""Lose responses on demand, and replay missed ones.

On demand a call is served, and then its connection is cut. An SDK that retries finds the effects of
its first attempt, as on AWS, where few calls have an idempotency token.

Under load a response can also be lost after its call was served. The AWS SDKs then retry, and calls
without an idempotency token (a security group's rules) would fail as duplicates of themselves: a
retry gets the missed response, and the call isn't served twice. The SDKs identify each call and its
attempts by ``amz-sdk-invocation-id`` and ``amz-sdk-request`` (AWS SDKs and Tools Reference Guide,
retry behaviour).
"""

from __future__ import annotations

import fnmatch
import logging
import re
import socket
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.switchboard import Setting

__all__ = [
    "LATER_VALUES",
    "Answer",
    "LostAnswers",
    "Replays",
    "cut_connection",
    "serving",
    "with_later_values",
]

_log = logging.getLogger(__name__)
_SERVING = threading.local()
_KEPT = 512
_LARGEST_BYTES = 64 * 1024

#: A value that answers replace by another one, such as one of a later version of AWS.
LATER_VALUES = Setting(action="*", value="", later="")


class LostAnswers(Setting):
    """Responses to lose: a share of those to calls that match a pattern, up to a number (0:
    unlimited). Not thread-safe.
    """

    def __init__(self) -> None:
        super().__init__(action="*", share=0.0, times=0, seed=0)
        self._lost = 0

    def turn(self, **arguments: Any) -> dict[str, Any]:
        """Lose responses by these settings from now on; return the previous ones."""
        self._lost = 0
        return super().turn(**arguments)

    def takes(self, action: str) -> bool:
        """Return whether to lose the response to a call."""
        if (
            not self.share
            or (self.times and self._lost >= self.times)
            or not fnmatch.fnmatchcase(action, self.action)
        ):
            return False
        taken: bool = self.draws.random() < self.share
        self._lost += taken
        return taken


def serving(channel: Any) -> None:
    """Store the connection that this thread serves."""
    _SERVING.channel = channel


def cut_connection() -> None:
    """Close the connection that this thread serves, so that no response reaches the client."""
    channel = getattr(_SERVING, "channel", None)
    if channel is not None:
        channel.will_close = True
        try:
            channel.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The client closed it first.
            return


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def with_later_values(action: str, answer: Answer) -> Answer:
    """Return an answer as `LATER_VALUES` sets: in XML and JSON, where it is a whole value."""
    if not LATER_VALUES.value or not fnmatch.fnmatchcase(action, LATER_VALUES.action):
        return answer
    body = answer.body
    for form in (">{}<", '"{}"'):
        body = body.replace(
            form.format(LATER_VALUES.value).encode(), form.format(LATER_VALUES.later).encode()
        )
    length = ("Content-Length", str(len(body)))
    others = (one for one in answer.headers if one[0].lower() != "content-length")
    return Answer(answer.status, (*others, length), body)


class Replays:
    """The last responses to changing calls, by the SDKs' invocation id. Not thread-safe."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def missed(self, environ: dict[str, Any]) -> Answer | None:
        """Return the response to an earlier successful attempt of the same call, if any."""
        attempt = re.search(r"attempt=(\d+)", environ.get("HTTP_AMZ_SDK_REQUEST", ""))
        answer = (
            self._answers.get(_name(environ))
            if attempt is not None and int(attempt[1]) > 1
            else None
        )
        if answer is not None:
            _log.warning(
                "an answer was missed and is given again: %s %s",
                environ.get("REQUEST_METHOD"),
                environ.get("PATH_INFO"),
            )
        return answer

    def note(self, environ: dict[str, Any], answer: Answer) -> None:
        """Keep a response to a changing call."""
        name = _name(environ)
        if (
            name
            and environ.get("REQUEST_METHOD") != "GET"
            and answer.status.startswith("2")
            and len(answer.body) <= _LARGEST_BYTES
        ):
            self._answers[name] = answer
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)


def _name(environ: dict[str, Any]) -> str:
    return str(environ.get("HTTP_AMZ_SDK_INVOCATION_ID", ""))
