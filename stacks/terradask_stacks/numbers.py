"""Read ``n_workers``: a number of workers, or bounds between which a cluster scales
itself. Pure.
"""

from __future__ import annotations

#: Workers to start with, where ``n_workers`` isn't set.
DEFAULT_WORKERS = 4

#: Bounds of a cluster without ``n_workers``.
USUAL_BOUNDS = (DEFAULT_WORKERS, 20)

#: A number of workers, or ``[minimum, maximum]``; None if unset.
NWorkers = int | list[int] | None


def bounds_of(n_workers: NWorkers) -> tuple[int, int] | None:
    """Return the bounds between which a cluster scales itself; None for a number, or if unset."""
    return (n_workers[0], n_workers[1]) if isinstance(n_workers, list) else None


def first_of(n_workers: NWorkers) -> int | None:
    """Return how many workers to start with; None if unset."""
    return n_workers[0] if isinstance(n_workers, list) else n_workers


def most_of(n_workers: NWorkers) -> int:
    """Return the maximum number of workers; 0 if unset."""
    return n_workers[1] if isinstance(n_workers, list) else n_workers or 0
