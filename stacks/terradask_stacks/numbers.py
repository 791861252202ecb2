"""How many workers ``n_workers`` asks for: a number, or bounds between which a cluster scales itself. Pure."""

from __future__ import annotations

#: A number of workers, or ``[minimum, maximum]``; None where nothing is said.
NWorkers = int | list[int] | None


def bounds_of(n_workers: NWorkers) -> tuple[int, int] | None:
    """Return the bounds between which a cluster scales itself; None where a number is asked for, or nothing."""
    return (n_workers[0], n_workers[1]) if isinstance(n_workers, list) else None


def first_of(n_workers: NWorkers) -> int | None:
    """Return how many workers to start with; None where nothing is said."""
    return n_workers[0] if isinstance(n_workers, list) else n_workers


def most_of(n_workers: NWorkers) -> int:
    """Return the most workers that are asked for; 0 where nothing is said."""
    return n_workers[1] if isinstance(n_workers, list) else n_workers or 0
