"""Answers that a client has missed: asked again, they are given again, and nothing is done twice.

Under load an answer can be lost after its work was done. The AWS SDKs then ask again, and calls for
which AWS knows no idempotency token (a security group's rules) would meet a duplicate of their own
making. The SDKs name each call and count its attempts, in ``amz-sdk-invocation-id`` and
``amz-sdk-request`` (AWS SDKs and Tools Reference Guide, retry behaviour), so that a second attempt
is known.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Replays"]

_log = logging.getLogger(__name__)
_KEPT = 512
_LARGEST_BYTES = 64 * 1024


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
