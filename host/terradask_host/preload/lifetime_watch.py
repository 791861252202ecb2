"""Watch a scheduler from inside: its clients, its work, and the end of the cluster's lifetime."""

from __future__ import annotations

import asyncio
import datetime
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from terradask_host.documents import LifetimePolicy
from terradask_host.preload.jupyter_server import CLIENT_NAME
from terradask_host.preload.watchers import watching
from terradask_host.rules.lifetime import (
    Activity,
    Observation,
    effective_policy,
    end_reason,
    near_end,
)
from terradask_host.trouble import Trouble

#: Part of the name of the client by which the scheduler's process runs jobs.
JOBS_CLIENT_NAME = "jobs"

#: Parts of the names of clients of tasks (``Client-worker-<uuid>``, Dask's own) and notebooks.
_INNER_CLIENTS = ("worker", CLIENT_NAME, JOBS_CLIENT_NAME)


class LifetimeWatch:
    """Checks a scheduler at intervals, and reports the end of the cluster's lifetime.

    It applies ``life`` of ``run.json``, with ``poll_seconds`` and ``first_client_seconds``. The
    host program acts: it sets the groups to zero even if this process no longer can. `jobs_running`
    and `came` are as for `Observer`.
    """

    def __init__(
        self,
        scheduler: Any,
        life: Mapping[str, Any],
        report: Callable[..., None],
        jobs_running: Callable[[], bool] = lambda: False,
        came: set[str] | None = None,
    ) -> None:
        dask_idle_seconds = getattr(scheduler, "idle_timeout", None)
        self._policy = effective_policy(LifetimePolicy.read(life), dask_idle_seconds)
        self._first_client_seconds = float(life.get("first_client_seconds", 120.0))
        self._poll_seconds = float(life.get("poll_seconds", 1.0))
        self._report = report
        self._observer = Observer(scheduler, jobs_running, came)
        self._activity = Activity.begin(time.monotonic())
        self._trouble = Trouble()
        #: Whether a near end is reported.
        self._is_near = False

    def note_open_kernels(self, number: int) -> None:
        """Set the number of open kernels of the notebook server."""
        self._observer.open_kernels = number

    def set_keepalive(self, seconds: float | None) -> None:
        """Set how long the cluster runs without a client; None: for ever."""
        self._policy = replace(self._policy, no_client_timeout_seconds=seconds)
        # So that it applies to the scheduler's next process too.
        self._report("keepalive", seconds=seconds)

    def timeouts(self) -> dict[str, float | None]:
        """Return the time without work at the last check, and the timeouts in force."""
        return {
            "idle_seconds": self._activity.seen_at - self._activity.active_at,
            "idle_timeout_seconds": self._policy.idle_timeout_seconds,
            "no_client_timeout_seconds": self._policy.no_client_timeout_seconds,
        }

    async def run(self) -> None:
        """Return after the end was reported to the host program."""
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                self._activity = self._activity.after(self._observer.observe())
                now = datetime.datetime.now(datetime.UTC)
                self._report_near(now)
                reason = end_reason(
                    self._activity,
                    self._policy,
                    now,
                    first_client_seconds=self._first_client_seconds,
                )
            except Exception:  # noqa: BLE001 - a custom scheduler class may raise anything; the next check may succeed
                self._trouble.note(
                    f"can't check whether the cluster is idle: {traceback.format_exc()}"
                )
                continue
            if reason:
                return self._report("over", reason=reason)

    def _report_near(self, now: datetime.datetime) -> None:
        """Report that the end is near, and that it isn't any more, once each."""
        near = near_end(self._activity, self._policy, now)
        if (near is not None) == self._is_near:
            return
        self._is_near = near is not None
        at, reason = (None, None) if near is None else near
        self._report("ending", at=None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}", reason=reason)


class Observer:
    """Observes a scheduler.

    `jobs_running` returns whether a job isn't over; `came` collects the names of arriving cluster
    managers.
    """

    def __init__(
        self,
        scheduler: Any,
        jobs_running: Callable[[], bool] = lambda: False,
        came: set[str] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._jobs_running = jobs_running
        self._uploads = Uploads()
        self._came = set() if came is None else came
        self.open_kernels = 0
        _note_clients(scheduler, self._came)

    def observe(self) -> Observation:
        """Observe once."""
        from distributed.metrics import time as dask_time

        scheduler, now = self._scheduler, time.monotonic()
        # Dask's definition: running, queued and unrunnable tasks, and graphs in processing.
        idle_since = scheduler.check_idle()
        came = frozenset(filter(_is_users_client, self._came))
        self._came.clear()
        return Observation(
            at=now,
            idle_seconds=None if idle_since is None else max(dask_time() - idle_since, 0.0),
            # Thousands of workers have as many connections: they aren't checked during work.
            uploading=idle_since is not None and self._uploads.check(list(scheduler._comms), now),
            # Others hold published data, or are being released.
            present=frozenset(
                filter(_is_users_client, scheduler.client_comms.keys() & scheduler.clients.keys())
            )
            | watching(scheduler),
            came=came,
            open_kernels=self.open_kernels,
            left_work=bool(scheduler.clients["fire-and-forget"].wants_what)
            or self._jobs_running()
            or _computes_published(scheduler, idle_since),
            holds_published=bool(_published(scheduler)),
        )


def _published(scheduler: Any) -> list[Any]:
    """Return the holders of published datasets: Dask's own clients for them."""
    return [
        state
        for name, state in scheduler.clients.items()
        if name.startswith("published-") and state.wants_what
    ]


def _computes_published(scheduler: Any, idle_since: float | None) -> bool:
    """Return whether a task of a published dataset isn't computed yet."""
    return idle_since is None and any(
        task.state not in ("memory", "erred", "released", "forgotten")
        for state in _published(scheduler)
        for task in state.wants_what
    )


def _note_clients(scheduler: Any, came: set[str]) -> None:
    """Record every connecting client: it may be gone before the next check."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class NoteClients(SchedulerPlugin):  # type: ignore[misc]  # distributed carries no types here
        name = "terradask-clients"

        def add_client(self, scheduler: Any, client: str) -> None:
            came.add(client)

    scheduler.add_plugin(NoteClients())


def _is_users_client(client: str) -> bool:
    """Return whether a client belongs to a user, not to a task or notebook on the cluster."""
    return client.split("-")[1:2] not in ([name] for name in _INNER_CLIENTS)


# ---- detect uploads to a scheduler ---------------------------------------------------------------


#: Clients' heartbeats and polls stay far below, any upload far above.
UPLOAD_BYTES_A_SECOND = 16_384

# `tcpi_bytes_received` in `struct tcp_info`, part of Linux's stable interface:
# https://github.com/torvalds/linux/blob/v6.1/include/uapi/linux/tcp.h#L214
_RECEIVED = struct.Struct("=Q")
_RECEIVED_OFFSET = 128


class Uploads:
    """Detects from call to call whether any connection receives much data."""

    def __init__(self) -> None:
        self._before: dict[Any, int] = {}
        self._at: float | None = None

    def check(self, comms: Iterable[Any], now: float) -> bool:
        """Return whether one of these connections has received much data since the last call."""
        received = {comm: number for comm in comms if (number := received_bytes(comm)) is not None}
        seconds = None if self._at is None else now - self._at
        much = seconds is not None and self._much(received, seconds)
        self._before, self._at = received, now
        return much

    def _much(self, received: Mapping[Any, int], seconds: float) -> bool:
        # A new connection includes its handshake, so it counts from its second call on.
        return any(
            number - self._before.get(comm, number) > UPLOAD_BYTES_A_SECOND * seconds
            for comm, number in received.items()
        )


def received_bytes(comm: Any) -> int | None:
    """Return the bytes that the kernel has received on a connection; None if unavailable."""
    plug = getattr(getattr(comm, "stream", None), "socket", None)
    if plug is None or sys.platform != "linux":
        return None
    try:
        facts = plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
    if len(facts) < _RECEIVED_OFFSET + _RECEIVED.size:
        return None
    (number,) = _RECEIVED.unpack_from(facts, _RECEIVED_OFFSET)
    return int(number)
