"""A process of simulated hosts: ``python -m
terradask_simulator.hosts.simulated_workers.worker_process CLUSTER RUN_ID``.

It reads from its standard input, one JSON document a line, which instances begin, end or vanish,
and which AWS recommends to replace. When the input ends, all instances end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.credentials import Credentials

from terradask_host.agent.launch_documents import prepare_document
from terradask_host.config import load_config
from terradask_host.preload.serve import configure
from terradask_simulator.hosts.simulated_workers.run import Run, SchedulerLookup
from terradask_simulator.hosts.simulated_workers.simulated_host import SimulatedHost

__all__ = ["WorkerProcess", "main"]

#: With a hundred servers in one process, periodic work that no test reads is rare or disabled. They
#: share two processors with the scheduler and with AWS, so timeouts are longer.
_QUIET = {
    "distributed": {
        "worker": {
            "profile": {"enabled": False},
            "http": {"routes": []},
            # The hosts share the process's memory.
            "memory": {"target": False, "spill": False, "pause": False},
        },
        "admin": {
            "tick": {"interval": "5s", "limit": "1h", "cycle": "5s"},
            "system-monitor": {"interval": "60s", "disk": False, "gil": {"enabled": False}},
        },
        "comm": {"timeouts": {"connect": "120s", "tcp": "120s"}},
    }
}

_LEAVE_SECONDS = 5.0


class WorkerProcess:
    """The simulated hosts of one process."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._scheduler = SchedulerLookup(run)
        #: One thread: reports are written in their order.
        self._writer = ThreadPoolExecutor(1, "reports")
        self._hosts: dict[str, SimulatedHost] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def work(self, messages: AsyncIterator[dict[str, Any]]) -> None:
        """Start and end hosts as requested, until the input ends."""
        async for message in messages:
            match message:
                case {"begin": facts, "credentials": credentials, "broken": broken}:
                    self._hosts[facts["instance_id"]] = SimulatedHost(
                        self._run,
                        self._scheduler,
                        self._writer,
                        facts,
                        Credentials(*credentials),
                        broken=broken,
                    )
                case {"recommend": instance_id}:
                    self._hosts[instance_id].recommend()
                case {"end": instance_id}:
                    self._end(instance_id, vanished=False)
                case {"vanish": instance_id}:
                    self._end(instance_id, vanished=True)
        for instance_id in list(self._hosts):
            self._end(instance_id, vanished=False)
        if self._endings:
            await asyncio.wait(self._endings, timeout=_LEAVE_SECONDS)
        self._writer.shutdown()

    def _end(self, instance_id: str, *, vanished: bool) -> None:
        host = self._hosts.pop(instance_id, None)
        if host is not None:
            task = asyncio.create_task(host.end(vanished=vanished))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)


async def _messages() -> AsyncIterator[dict[str, Any]]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        yield json.loads(line)


def main(arguments: list[str]) -> int:
    """Gather the shared state of a cluster's run, then simulate hosts until the input ends."""
    config = load_config(os.environ)
    run = Run.gather(config, *arguments)
    prepared = prepare_document("worker", run.run, run.keys, config.paths.scratch)
    configure(prepared["dask_config"], prepared["host_config"])
    configure(_QUIET, prepared["host_config"])

    async def work() -> None:
        await WorkerProcess(run).work(_messages())

    asyncio.run(work())
    # Threads of closed workers may still wait for work.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
