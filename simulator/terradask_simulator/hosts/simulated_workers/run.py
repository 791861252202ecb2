"""One run of a cluster for its simulated hosts, and the address of its scheduler, looked up once
for all hosts of a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.credentials import Credentials

from terradask_host import documents
from terradask_host.agent.aws import Aws
from terradask_host.agent.bound_run import RUN, BoundRun, secret_id
from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.groups import ClusterGroups
from terradask_host.agent.instance_proofs import sign_proof
from terradask_host.agent.keys import KeyFiles, check_in_memory, write_keys
from terradask_host.agent.objects import ClusterObjects, wait_for
from terradask_host.config import HostConfig
from terradask_host.documents import SchedulerAddress
from terradask_host.metadata import Identity
from terradask_host.rules.instance_proof import audience_of
from terradask_host.structure import Structure

__all__ = ["Run", "SchedulerLookup"]

T = TypeVar("T")

_POLL_SECONDS = 0.5
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Run:
    """Shared state of all hosts of a run: the user data, ``run.json``, key files, AWS clients."""

    config: HostConfig
    cluster: Structure
    run: documents.Run
    keys: KeyFiles
    objects: ClusterObjects
    groups: ClusterGroups
    sts_url: str

    @classmethod
    def gather(cls, config: HostConfig, cluster_name: str, run_id: str) -> Run:
        """Wait for a host's inputs: keys and ``run.json``."""
        aws = Aws(config.region)
        objects = ClusterObjects(aws, config.bucket, cluster_name)
        events = EventQueue()

        def need(what: str, read: Callable[[], T | None]) -> T:
            deadline = config.timing.run_deadline_seconds
            return wait_for(
                lambda _: read(),
                what=what,
                advice="Start the cluster.",
                deadline_seconds=deadline,
                events=events,
            )

        secret_name = secret_id(config.workspace, cluster_name)
        secret = need("keys of this run", lambda: _of_run(objects.read_secret(secret_name), run_id))
        bound = BoundRun.read(need(RUN, lambda: objects.read(RUN)), secret)
        check_in_memory(config.paths.keys)
        return cls(
            config,
            bound.structure,
            bound.run,
            write_keys(secret, "worker", config.paths.keys),
            objects,
            ClusterGroups(aws, bound.structure, print),
            aws.client("sts").meta.endpoint_url,
        )

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    def proof(self, identity: Identity, credentials: Credentials) -> dict[str, Any]:
        """Return the identity proof of an instance; all use the same STS address."""
        audience = audience_of(self.config.workspace, identity.cluster, self.run_id)
        region = self.config.region
        return sign_proof(self.sts_url, region, credentials, audience).to_document()


def _of_run(document: dict[str, Any] | None, run_id: str) -> dict[str, Any] | None:
    """Return a document if it belongs to this run."""
    return document if document is not None and document.get("run_id") == run_id else None


class SchedulerLookup:
    """The scheduler of a run, shared by all hosts of a process."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = asyncio.Lock()
        self._known: SchedulerAddress | None = None

    async def find(self) -> SchedulerAddress:
        """Return ``scheduler.json`` of this run once its scheduler listens; one host polls."""
        async with self._lock:
            while self._known is None:
                document = _of_run(
                    await asyncio.to_thread(self._run.objects.read_document, "scheduler.json"),
                    self._run.run_id,
                )
                # The document names a dead scheduler until another one starts.
                address = None if document is None else SchedulerAddress.read(document)
                if address is not None and await _listens(address.private_address):
                    self._known = address
                else:
                    await asyncio.sleep(_POLL_SECONDS)
            return self._known

    def forget(self, scheduler: SchedulerAddress) -> None:
        """Discard a lost scheduler, to look it up again."""
        if self._known == scheduler:
            self._known = None


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(host, int(port)), _CONNECT_SECONDS
        )
    except OSError:
        return False
    writer.close()
    return True
