"""Answers that get lost on demand: the call is served, and then its connection is cut.

An SDK that tries again meets what its first attempt has done, as it would on AWS, where few calls
have an idempotency token.
"""

from __future__ import annotations

import fnmatch
import random
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Loss", "LostAnswers", "cut_connection", "serving"]

_SERVING = threading.local()


@dataclass
class Loss:
    """Which answers get lost.

    Parameters
    ----------
    action
        Pattern of ``service:Action``.
    share
        The part of them that gets lost, from 0 to 1.
    times
        How many get lost at most; 0 for any number.
    seed
        The same seed and the same calls lose the same answers.
    """

    action: str = "*"
    share: float = 0.0
    times: int = 0
    seed: int = 0
    lost: int = field(default=0, init=False)
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Begin the sequence of draws."""
        self._random = random.Random(self.seed)  # noqa: S311  (nothing secret)

    def takes(self, action: str) -> bool:
        """Return whether the answer to a call gets lost now."""
        if (
            not self.share
            or (self.times and self.lost >= self.times)
            or not fnmatch.fnmatchcase(action, self.action)
        ):
            return False
        taken = self._random.random() < self.share
        self.lost += taken
        return taken


class LostAnswers:
    """The loss of answers that is switched on. Not for several threads at once."""

    def __init__(self) -> None:
        self.loss = Loss()

    def switch(self, loss: Loss) -> Loss:
        """Lose answers so from now on; return how it was before."""
        before, self.loss = self.loss, loss
        return before


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
