"""Dask's own operations that are replaced on schedulers, and the parameters that the replacements
count on.

distributed has no upper bound, so that clusters have the user's newest Dask: a scheduler checks
its shape instead.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Shape:
    """The table that Dask has an operation in, and the operation's parameters."""

    table: str
    parameters: frozenset[str]
    #: The replacement passes further parameters on.
    passes_more: bool = True


_SHAPES = {
    "register-worker": _Shape("handlers", frozenset({"comm", "name", "address", "extra"})),
    "register-client": _Shape("handlers", frozenset({"comm", "versions"})),
    "retire_workers": _Shape("handlers", frozenset({"names"})),
    "subscribe_worker_status": _Shape("handlers", frozenset({"comm"}), passes_more=False),
    "subscribe-topic": _Shape("stream_handlers", frozenset({"topic", "client"}), passes_more=False),
}


def changed_operations(scheduler: Any) -> list[str]:
    """Return a sentence for each operation of a new scheduler whose parameters aren't those that
    its replacement counts on.
    """
    found = []
    for name, shape in _SHAPES.items():
        handler = getattr(scheduler, shape.table).get(name)
        if handler is None:
            found.append(f"{name} is gone")
            continue
        there = _parameters(handler)
        missing = shape.parameters - there
        more = frozenset() if shape.passes_more else there - shape.parameters
        found += [f"{name} has no parameter {each}" for each in sorted(missing)]
        found += [f"{name} has the new parameter {each}" for each in sorted(more)]
    return found


def warn_of_changed_operations(scheduler: Any) -> None:
    """Print a warning with the version of distributed if its operations have changed. Raises
    `RuntimeError` if one is gone, since nothing then keeps strangers or pickles out.
    """
    import distributed  # of Dask's environment

    changed = changed_operations(scheduler)
    if not changed:
        return
    text = (
        f"distributed {distributed.__version__} has changed operations that terradask replaces: "
        f"{'; '.join(changed)}. Upgrade terradask, or install an older distributed in the client's "
        "environment"
    )
    if any(each.endswith(" is gone") for each in changed):
        raise RuntimeError(text)
    print(f"warning: {text}", file=sys.stderr)


def _parameters(handler: Any) -> frozenset[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(handler).parameters.values()
    return frozenset(each.name for each in parameters if each.kind in named)
