"""A class of workers with the surface of ``dask_cuda.CUDAWorker`` 26.10 (dask_cuda/cuda_worker.py),
without CUDA: a nanny for each device, whose name it numbers; no name, status or reason of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from typing import Any

from distributed import Nanny
from distributed.core import Server


class CUDAWorker(Server):
    """Makes a nanny for each device in ``CUDA_VISIBLE_DEVICES``."""

    def __init__(
        self,
        scheduler: str | None = None,
        host: str | None = None,
        nthreads: int = 1,
        name: str | None = None,
        memory_limit: Any = "auto",
        resources: str | None = None,
        dashboard: bool = True,
        dashboard_address: str = ":0",
        local_directory: str | None = None,
        security: Any = None,
        **kwargs: Any,
    ) -> None:
        # As there, Server's own constructor isn't called.
        devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        amounts = None
        if resources:
            pairs = (pair.split("=") for pair in resources.replace(",", " ").split())
            amounts = {key: float(value) for key, value in pairs}
        self.nannies = [
            Nanny(
                scheduler,
                nthreads=nthreads,
                dashboard=dashboard,
                dashboard_address=dashboard_address,
                resources=amounts,
                memory_limit=memory_limit,
                host=host,
                security=security,
                env={"CUDA_VISIBLE_DEVICES": ",".join(devices[i:] + devices[:i])},
                name=name if len(devices) == 1 or name is None else f"{name}-{i}",
                local_directory=local_directory,
                config={"distributed-ucxx": {}},
                **kwargs,
            )
            for i in range(len(devices))
        ]

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        await asyncio.gather(*self.nannies)

    async def finished(self) -> None:
        await asyncio.gather(*(nanny.finished() for nanny in self.nannies))

    async def close(self, timeout: float = 5) -> None:
        await asyncio.gather(*(nanny.close(timeout=timeout) for nanny in self.nannies))
