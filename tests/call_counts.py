"""How often calls came at most in a span of time, from the log of a simulator."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["most_within"]


def most_within(times: Iterable[float], seconds: float) -> int:
    """Return how many of these times lie in the fullest window of so many seconds."""
    ordered = sorted(times)
    first, most = 0, 0
    for last, time_ in enumerate(ordered):
        while time_ - ordered[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
