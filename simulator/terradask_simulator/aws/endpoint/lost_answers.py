"""Answers that get lost on demand: the call is served, and then its connection is cut.

An SDK that tries again meets what its first attempt has done, as it would on AWS, where few calls
have an idempotency token.
"""

from __future__ import annotations

import fnmatch
import socket
import threading
from typing import Any

from terradask_simulator.aws.switchboard import Setting

__all__ = ["LostAnswers", "cut_connection", "serving"]

_SERVING = threading.local()


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
