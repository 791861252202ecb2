"""Answers that get lost, and those that are given again.

On demand a call is served, and then its connection is cut. An SDK that tries again meets what its
first attempt has done, as it would on AWS, where few calls have an idempotency token.

Under load too an answer can be lost after its work was done. The AWS SDKs then ask again, and calls
for which AWS knows no idempotency token (a security group's rules) would meet a duplicate of their
own making: asked again, they are given the answer that was missed, and nothing is done twice. The
SDKs name each call and count its attempts, in ``amz-sdk-invocation-id`` and ``amz-sdk-request``
(AWS SDKs and Tools Reference Guide, retry behaviour), so that a second attempt is known.
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

__all__ = ["Answer", "LostAnswers", "Replays", "cut_connection", "serving"]

_log = logging.getLogger(__name__)
_SERVING = threading.local()
_KEPT = 512
_LARGEST_BYTES = 64 * 1024


class LostAnswers(Setting):
    """Which answers get lost: a share of those to calls of a pattern, so many times at most (0 for
    any number). Not for several threads at once.
    """

    def __init__(self) -> None:
        super().__init__(action="*", share=0.0, times=0, seed=0)
        self._lost = 0

    def turn(self, **arguments: Any) -> dict[str, Any]:
        """Lose answers so from now on; return how it was before."""
        self._lost = 0
        return super().turn(**arguments)

    def takes(self, action: str) -> bool:
        """Return whether the answer to a call gets lost now."""
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
    """Remember the connection that this thread serves."""
    _SERVING.channel = channel


def cut_connection() -> None:
    """End the connection that this thread serves, so that nothing more reaches the client."""
    channel = getattr(_SERVING, "channel", None)
    if channel is not None:
        channel.will_close = True
        try:
            channel.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The client was faster.
            return


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Replays:
    """The last answers to calls that change something, by the SDKs' name for the call. Not for
    several threads at once.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def missed(self, environ: dict[str, Any]) -> Answer | None:
        """Return the answer to an earlier attempt of the same call, if that succeeded."""
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
        """Keep an answer, if it is one to a call that changed something."""
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
