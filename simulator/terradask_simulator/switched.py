"""A switch that was turned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from terradask_simulator.errors import SimulatorError

__all__ = ["Switched", "switch_named"]


class Switched:
    """A switch that was turned; as a context manager it turns it back at the end of the block.

    Parameters
    ----------
    undo
        Turns it back.
    """

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        """Leave the switch as it was turned."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Turn it back."""
        self._undo()


def switch_named(
    switches: object, name: str, known: Sequence[str], arguments: Mapping[str, Any]
) -> Callable[..., object]:
    """Return the method of a switch's name. Raises `SimulatorError` if there is no such switch, or
    if it takes something else.
    """
    if name not in known:
        raise SimulatorError("There is no such switch", given=name, allowed=", ".join(known))
    method: Callable[..., object] = getattr(switches, name)
    signature = inspect.signature(method)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise SimulatorError(
            f"{name} doesn't take that: {error}",
            given=arguments,
            allowed=", ".join(signature.parameters),
        ) from error
    return method
