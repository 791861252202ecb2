"""What this process logs about a cluster: more of terradask's, less of Dask's."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from terradask.errors import InvalidInput

#: Dask's own.
_FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"


class OwnLogging:
    """Has this process log as ``Cluster`` is asked to; what Dask logs, until it is closed.

    Raises `InvalidInput` if `silence` is no level.
    """

    def __init__(self, silence: bool | int | str) -> None:
        self._level = _level(silence)
        self._silenced = contextlib.ExitStack()

    def begin(self, *, configure: bool | None) -> None:
        """Silence Dask's loggers, and show terradask's if they are to be."""
        from distributed.utils import silence_logging_cmgr

        if self._level:
            for root in ("distributed", "bokeh"):
                self._silenced.enter_context(silence_logging_cmgr(self._level, root))
        if configure:
            _show_own()

    def close(self) -> None:
        """Have Dask's loggers log as before."""
        self._silenced.close()


def _level(given: Any) -> int:
    """Return the level from which on Dask's loggers still log; 0 for no change."""
    if isinstance(given, bool):
        return logging.ERROR if given else 0
    level = logging.getLevelNamesMapping().get(given.upper()) if isinstance(given, str) else given
    if isinstance(level, int) and level >= 0:
        return level
    raise InvalidInput(
        "silence_logs is no level.",
        given=given,
        allowed="True, False, or a level of Python's logging, such as 'ERROR'",
    )


def _show_own() -> None:
    """Show what terradask logs, from INFO on, on standard error, unless something handles it."""
    logger = logging.getLogger("terradask")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
        # The root's handlers would show it once more.
        logger.propagate = False
    logger.setLevel(logging.INFO)
