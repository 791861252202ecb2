"""A process of hollow hosts: ``python -m terradask_simulator.hosts.simulated_workers.worker_process CLUSTER RUN_ID``.

Reads from its standard input, one JSON document a line, which instances begin, end or vanish. When the input ends, all have ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from terradask_host.agent.aws import Aws
from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.groups import ClusterGroups
from terradask_host.agent.keys import KeyFiles, write_keys
from terradask_host.agent.launch_documents import prepare_document
from terradask_host.agent.memory_files import check_in_memory
from terradask_host.agent.objects import ClusterObjects, wait_for
from terradask_host.config import HostConfig, load_config
from terradask_host.preload.serve import configure
from terradask_simulator.hosts.simulated_workers.simulated_host import HollowHost

__all__ = ["Crew", "Run", "main"]

T = TypeVar("T")

#: A hundred servers in one process: what each does by the clock, and nobody here looks at, is done rarely or not at all.
#: They share two processors with the scheduler and with AWS: whatever waits for an answer waits longer.
_QUIET = {
    "distributed": {
        "worker": {"profile": {"enabled": False}, "http": {"routes": []}},
        "admin": {
            "tick": {"interval": "5s", "limit": "1h", "cycle": "5s"},
            "system-monitor": {"interval": "60s", "disk": False, "gil": {"enabled": False}},
        },
        "comm": {"timeouts": {"connect": "120s", "tcp": "120s"}},
    }
}

_SEEK_SECONDS = 0.5
_LISTENS_SECONDS = 5.0
_LAST_WORDS_SECONDS = 5.0


@dataclass(frozen=True)
class Run:
    """What all hosts of a run share.

    Parameters
    ----------
    config
        What the user data says.
    cluster, run
        The documents ``cluster.json`` and ``run.json``.
    keys
        The role's key files.
    objects, groups
        Doors to AWS.
    """

    config: HostConfig
    cluster: Mapping[str, Any]
    run: Mapping[str, Any]
    keys: KeyFiles
    objects: ClusterObjects
    groups: ClusterGroups

    @classmethod
    def gather(cls, config: HostConfig, cluster_name: str, run_id: str) -> Run:
        """Wait for what a host waits for: descriptor, run, keys.

        Raises
        ------
        RunMissing
            They are not there in time.
        """
        aws = Aws(config.region)
        objects = ClusterObjects(aws, config.bucket, cluster_name)
        events = EventQueue()

        def need(what: str, ask: Callable[[], T | None]) -> T:
            deadline = config.timing.run_deadline_seconds
            return wait_for(lambda _: ask(), what=what, advice="Start the cluster.", deadline_seconds=deadline, events=events)

        cluster = need("cluster.json", lambda: objects.read_document("cluster.json"))
        run = need("run.json of this run", lambda: _of_run(objects.read_document("run.json"), run_id))
        secret = need(
            "keys of this run", lambda: _of_run(objects.read_secret(cluster["secret_id"], run.get("secret_version_id")), run["run_id"])
        )
        check_in_memory(config.paths.keys)
        return cls(config, cluster, run, write_keys(secret, "worker", config.paths.keys), objects, ClusterGroups(aws, cluster, print))

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])


class Crew:
    """The hosts of one process.

    Parameters
    ----------
    run
        What they share.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        #: One thread: reports are written in their order.
        self.writer = ThreadPoolExecutor(1, "reports")
        self._hosts: dict[str, HollowHost] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._seeking = asyncio.Lock()
        self._scheduler: dict[str, Any] | None = None

    async def work(self, words: AsyncIterator[dict[str, Any]]) -> None:
        """Begin and end hosts as told, until nothing more is told."""
        async for word in words:
            match word:
                case {"begin": facts, "broken": broken}:
                    self._hosts[facts["instance_id"]] = HollowHost(self, facts, broken=broken)
                case {"end": instance_id}:
                    self._end(instance_id, vanished=False)
                case {"vanish": instance_id}:
                    self._end(instance_id, vanished=True)
        for instance_id in list(self._hosts):
            self._end(instance_id, vanished=False)
        if self._endings:
            await asyncio.wait(self._endings, timeout=_LAST_WORDS_SECONDS)
        self.writer.shutdown()

    async def scheduler(self) -> dict[str, Any]:
        """Return where this run's scheduler is, once it is up: one host asks for all."""
        async with self._seeking:
            while self._scheduler is None:
                document = _of_run(await asyncio.to_thread(self.run.objects.read_document, "scheduler.json"), self.run.run_id)
                # One that has died is still named there until another comes up.
                if document is not None and await _listens(document["private_address"]):
                    self._scheduler = document
                else:
                    await asyncio.sleep(_SEEK_SECONDS)
            return self._scheduler

    def forget(self, scheduler: Mapping[str, Any]) -> None:
        """Ask again where the scheduler is: it isn't there any more."""
        if self._scheduler == scheduler:
            self._scheduler = None

    def _end(self, instance_id: str, *, vanished: bool) -> None:
        host = self._hosts.pop(instance_id, None)
        if host is not None:
            task = asyncio.create_task(host.end(vanished=vanished))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), _LISTENS_SECONDS)
    except OSError:
        return False
    writer.close()
    return True


def _of_run(document: dict[str, Any] | None, run_id: str) -> dict[str, Any] | None:
    return document if document is not None and document.get("run_id") == run_id else None


async def _words() -> AsyncIterator[dict[str, Any]]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


def main(arguments: list[str]) -> int:
    """Gather what the hosts share, then be hosts until the input ends.

    Parameters
    ----------
    arguments
        The cluster's name and the run's id.
    """
    config = load_config(os.environ)
    run = Run.gather(config, *arguments)
    prepared = prepare_document("worker", run.run, run.keys, config.paths.scratch)
    configure(prepared["dask_config"], prepared["host_config"])
    configure(_QUIET, prepared["host_config"])

    async def work() -> None:
        await Crew(run).work(_words())

    asyncio.run(work())
    # Threads of closed workers may still wait for work.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
