"""The scheduler host's ``scheduler.json``: the address, the scaling policies, the cluster's end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from terradask_host.agent.host import Host
from terradask_host.agent.objects import overwrite, wait_for
from terradask_host.documents import UNREADABLE, Ended, SchedulerAddress, now_text
from terradask_host.errors import ConfigInvalid
from terradask_host.rules import policy
from terradask_host.scaling_policy import Exchange, ScalingPolicy

T = TypeVar("T")

NAME = "scheduler.json"


class Announcement:
    """The ``scheduler.json`` of a run, written by this host; safe to use from two threads."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._previous: SchedulerAddress | None = None
        self._was_read = False
        #: ETag of this host's last write.
        self._etag: str | None = None
        self._writing = threading.Lock()

    def read(self) -> None:
        """Read once the document of an earlier host of this cluster."""
        if not self._was_read:
            self._previous = self._read_previous()
            self._was_read = True

    @property
    def scaling(self) -> Mapping[str, ScalingPolicy]:
        """The policies last in force; without an earlier host of this run, those of the start."""
        previous = self._of_this_run
        if previous is not None and previous.scaling is not None:
            return previous.scaling
        return self._host.run.scaling

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """The exchanges that an earlier host or process of this run began."""
        return (self._of_this_run and self._of_this_run.exchanges) or {}

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of hosts that clients had set and groups hadn't reached."""
        return self._of_this_run.numbers if self._of_this_run else {}

    @property
    def ended(self) -> Ended | None:
        """The end that an earlier host of this run reached and reported."""
        return policy.end_of(self._previous, self._host.run_id)

    @property
    def _of_this_run(self) -> SchedulerAddress | None:
        previous = self._previous
        same = previous is not None and previous.run_id == self._host.run_id
        return previous if same else None

    def announce(self, versions: Mapping[str, Any]) -> SchedulerAddress:
        """Write the scheduler's address; `versions` has its ``python`` and ``packages``."""
        with self._writing:
            identity, entry = self._host.identity, self._host.cluster.scheduler
            public = identity.public_address
            address = SchedulerAddress(
                run_id=self._host.run_id,
                instance_id=identity.instance_id,
                boot=policy.next_boot(self._previous, self._host.run_id),
                private_address=f"tls://{identity.private_address}:{entry.port}",
                public_address=f"tls://{public}:{entry.port}" if public else None,
                dashboard_port=entry.dashboard_port,
                python=versions["python"],
                packages=versions["packages"],
                started_at=now_text(),
                scaling=self.scaling,
                exchanges=self.exchanges,
                numbers=self.numbers,
            )
            self._etag = self._with_retries(
                lambda _: self._host.objects.write_document(NAME, address.to_document()),
                f"chance to write {NAME}",
            )
            self._previous = address
        return address

    def keep(self, field: str, values: Mapping[str, Any]) -> None:
        """Store policies, exchanges or pending numbers for the scheduler's next process or host."""
        changed: Any = {field: dict(values)}
        self._rewrite(**changed)

    def _rewrite(self, **changed: Any) -> None:
        # Stopping the cluster deletes the document; it isn't written again.
        with self._writing:
            if self._etag is None or self._previous is None:
                return
            address = replace(self._previous, **changed)
            written = overwrite(
                self._host.objects, NAME, address.to_document(), self._etag, self._own_etag
            )
            # If the owner is unknown or the object was deleted, the condition stays: the next
            # write overwrites only our own object.
            self._etag, self._previous = written or self._etag, address

    def _own_etag(self) -> str | None:
        """Return the ETag of the stored document, if this host wrote it."""
        objects = self._host.objects
        etag, document = objects.etag(NAME), self._document() or {}
        own = (document.get("run_id"), document.get("instance_id")) == (
            self._host.run_id,
            self._host.identity.instance_id,
        )
        return etag if own else None

    def write_ended(self, reason: str) -> None:
        """Report the cluster's end to clients, workers and a replacement of this host.

        A document that a stop has deleted isn't written again.
        """
        self._try_to_rewrite("the end of the cluster", ended=Ended(now_text(), reason))

    def note_ending(self, at: str | None, reason: str | None) -> None:
        """Report the near end of an idle cluster, or that it goes on."""
        ending = None if at is None else Ended(at, reason or "")
        self._try_to_rewrite("a near end", ending=ending)

    def _try_to_rewrite(self, what: str, **changed: Any) -> None:
        try:
            self._rewrite(**changed)
        except Exception as error:  # noqa: BLE001 - the groups still need their zero
            why = f"{type(error).__name__}: {error}"
            self._host.log.info(f"{what} can't be written to {NAME}: {why}")

    def _read_previous(self) -> SchedulerAddress | None:
        objects = self._host.objects

        def read(_: float) -> dict[str, Any] | None:
            document = self._document()
            # S3 may not find an object of a new bucket; clients and workers know boots by number.
            return document if document or objects.etag(NAME) else {}

        document = self._with_retries(read, f"answer about {NAME}")
        try:
            return SchedulerAddress.read(document) if document else None
        except UNREADABLE as error:
            # It is written again as soon as the scheduler listens.
            self._host.log.info(f"{NAME} can't be read: {type(error).__name__}: {error}")
            return None

    def _document(self) -> dict[str, Any] | None:
        """Return the stored document; empty if it isn't as terradask writes it."""
        try:
            return self._host.objects.read_document(NAME)
        except ConfigInvalid as error:
            self._host.log.info(str(error))
            return {}

    def _with_retries(self, ask: Callable[[float], T | None], what: str) -> T:
        return wait_for(
            ask,
            what=what,
            advice="Check the bucket and the scheduler role's rights below clusters/<name>/.",
            deadline_seconds=self._host.config.timing.run_deadline_seconds,
            events=self._host.events,
        )
