"""``with Cluster(...) as cluster`` and ``async with``: the end of the block closes it."""

from __future__ import annotations

from typing import Self

from distributed.deploy.spec import SpecCluster

from terradask._dask.lifecycle import Lifecycle


class ClosedByBlock:
    """Enters blocks of code. `Cluster` makes the parts."""

    _lifecycle: Lifecycle

    def __enter__(self) -> Self:
        self._lifecycle.enter_block()
        SpecCluster.__enter__(self)
        return self

    async def __aenter__(self) -> Self:
        self._lifecycle.enter_block()
        await self  # type: ignore[misc]  # Cluster can be awaited
        return self
