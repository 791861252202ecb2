"""Launches and boots that take as long as on EC2, once that is switched on.

moto's instances run at once. Times are drawn evenly between the smallest and the largest of those
published, with a seed:

- from the request to ``running``: 4.9 s, and 17.8 s (69 % of 25.8 s),
- from ``running`` to the first program of one's own: 3.1 s (12 % of 25.8 s), and 22.8 s (17.2 s +
  5.6 s).

Sources, in this order: https://www.daemonology.net/blog/2021-08-12-EC2-boot-time-benchmarking.html
(boot: the second figure), https://github.com/brevdev/ec2-coldboot-research.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from terradask_simulator.aws.backend import BELL

__all__ = ["Delays", "booted", "current_delays", "hold", "let_run", "set_delays"]

_LAUNCH_SECONDS = (4.9, 17.8)
_BOOT_SECONDS = (3.1, 22.8)


@dataclass
class Delays:
    """How long launches and boots take.

    Parameters
    ----------
    factor
        What the published times are multiplied by; 0 switches delays off.
    seed
        The same seed gives the same times in the same order.
    """

    factor: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Begin the sequence of times."""
        self._random = random.Random(self.seed)  # noqa: S311  (nothing secret)

    def draw(self) -> tuple[float, float]:
        """Return the seconds until another instance runs, and from then until it has booted."""
        return self.factor * self._random.uniform(
            *_LAUNCH_SECONDS
        ), self.factor * self._random.uniform(*_BOOT_SECONDS)


@dataclass
class _State:
    delays: Delays = field(default_factory=Delays)
    pending: list[Any] = field(default_factory=list)


_STATE = _State()


def current_delays() -> Delays:
    """Return how long launches take now."""
    return _STATE.delays


def set_delays(delays: Delays) -> Delays:
    """Let launches take their time from now on; return how it was before."""
    before, _STATE.delays = _STATE.delays, delays
    return before


def hold(instance: Any) -> None:
    """Let a new instance be pending as long as it is to be."""
    if not _STATE.delays.factor:
        return
    launch_seconds, boot_seconds = _STATE.delays.draw()
    instance._state.name, instance._state.code = "pending", 0
    instance._embedded_runs_at = time.monotonic() + launch_seconds
    instance._embedded_boots_at = instance._embedded_runs_at + boot_seconds
    _STATE.pending.append(instance)


def let_run() -> None:
    """Let the pending instances run whose time has come; call it with the lock held."""
    now = time.monotonic()
    still = [instance for instance in _STATE.pending if instance.state == "pending"]
    _STATE.pending = [instance for instance in still if instance._embedded_runs_at > now]
    for instance in still:
        if instance._embedded_runs_at <= now:
            instance._state.name, instance._state.code = "running", 16
            BELL.set()


def booted(instance: Any) -> bool:
    """Return whether an instance has had the time to boot."""
    return bool(getattr(instance, "_embedded_boots_at", 0.0) <= time.monotonic())
