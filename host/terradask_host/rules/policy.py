"""A host's next steps after the end of its Dask process, as pure functions."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host.documents import Ended, SchedulerAddress
from terradask_host.timing import Timing

MIB = 2**20

#: The first version of distributed without https://github.com/advisories/GHSA-c336-7962-wfj2, as
#: pyproject.toml has it for clients.
LEAST_DISTRIBUTED = "2026.1.1"

#: Dask's reasons to close of a worker whose connection was lost, not the worker itself.
LOST_REASONS = frozenset(
    {
        "worker-handle-scheduler-connection-broken",
        "worker-heartbeat-error",
        "nanny-unregister-failed",
        "scheduler-close",
    }
)

#: The scheduler doesn't know the worker. A heartbeat may overtake the order to close, so this
#: alone is ambiguous.
FORGOTTEN = "worker-heartbeat-missing"


class Next(enum.Enum):
    """The next step after the end of the Dask process."""

    #: Find the scheduler and join it.
    SEEK = "seek"
    #: The same, after a wait for the client to end the instance.
    SEEK_LATER = "seek later"
    #: Retired: wait for the client to end the instance, then leave.
    RETIRED = "retired"
    #: A crash: restart it.
    RESTART = "restart"
    #: A crash too many.
    FAIL = "fail"
    #: The scheduler ended itself: the cluster is over.
    OVER = "over"


class Seek(enum.Enum):
    """The next step of a worker without a scheduler."""

    JOIN = "join"
    WAIT = "wait"
    LEAVE = "leave"


@dataclass(frozen=True)
class Exit:
    """The end of the Dask process.

    Parameters
    ----------
    code
        Exit code; negative for a signal.
    reason
        Dask's reason to close, or the error that prevented its start, if it was reported.
    ran
        Whether it had reported that it runs.
    last_line
        The last line of its output, if any.
    """

    code: int
    reason: str | None = None
    ran: bool = False
    last_line: str | None = None

    def describe(self) -> str:
        """Return one line for the report."""
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        # Only the last line of a process that never ran explains its end.
        why = self.reason or (None if self.ran else self.last_line)
        return f"{how}: {why}" if why else how


def is_own_run(
    tag_run_id: str | None, run_id: str | None, waited_seconds: float, timing: Timing
) -> bool:
    """Return whether the run in ``run.json`` is this instance's; if not yet, the host polls again.

    The instance's tag ``terradask:run:id`` may lag behind its launch, as the run may: then it is
    None.
    """
    if tag_run_id is None:
        return run_id is not None and waited_seconds >= timing.run_tag_grace_seconds
    return run_id == tag_run_id


def after_worker_exit(end: Exit, *, crashes: int, scheduler_answers: bool, timing: Timing) -> Next:
    """Decide the next step of a worker's host after its Dask process has ended by itself."""
    if end.reason in LOST_REASONS:
        return Next.SEEK
    if end.reason == FORGOTTEN:
        return Next.SEEK_LATER
    if end.code == 0:
        return Next.RETIRED
    if not scheduler_answers:
        return Next.SEEK
    return Next.RESTART if crashes < timing.dask_restarts else Next.FAIL


def after_scheduler_exit(end: Exit, *, crashes: int, timing: Timing) -> Next:
    """Decide the next step of a scheduler's host after its Dask process has ended by itself."""
    if end.code == 0:
        return Next.OVER
    return Next.RESTART if crashes < timing.dask_restarts else Next.FAIL


def seek(
    scheduler: SchedulerAddress | None,
    *,
    run_id: str,
    lost_boot: int | None,
    lost_boot_answers: bool,
    silent_seconds: float,
    timing: Timing,
) -> Seek:
    """Decide the next step of a worker without a scheduler.

    A ``scheduler.json`` of another run is ignored. `lost_boot` is the boot that it had joined, if
    any; it may answer again.
    """
    if end_of(scheduler, run_id) is not None:
        return Seek.LEAVE
    if (
        scheduler is not None
        and scheduler.run_id == run_id
        and (scheduler.boot != lost_boot or lost_boot_answers)
    ):
        return Seek.JOIN
    limit = (
        timing.scheduler_first_wait_seconds
        if lost_boot is None
        else timing.scheduler_silent_seconds
    )
    return Seek.LEAVE if silent_seconds >= limit else Seek.WAIT


def end_of(scheduler: SchedulerAddress | None, run_id: str) -> Ended | None:
    """Return the end of this run by itself, if ``scheduler.json`` reports one."""
    return scheduler.ended if scheduler is not None and scheduler.run_id == run_id else None


def seek_pause_seconds(waited_seconds: float) -> float:
    """Return the pause before the next read of ``scheduler.json``, which grows with the wait."""
    if waited_seconds < 10:
        return 0.25
    return 1.0 if waited_seconds < 120 else 5.0


def next_boot(previous: SchedulerAddress | None, run_id: str) -> int:
    """Return the boot number of a starting scheduler."""
    return previous.boot + 1 if previous is not None and previous.run_id == run_id else 1


def version_differences(
    own: Mapping[str, Any], scheduler: Mapping[str, Any]
) -> dict[str, tuple[str | None, str | None]]:
    """Return the differences of worker and scheduler: name -> (worker's, scheduler's).

    Both have ``python`` (``3.11``) and ``packages`` (with ``dask`` and ``distributed``).
    """
    pairs = {"python": (_minor(own.get("python")), _minor(scheduler.get("python")))}
    for name in ("dask", "distributed"):
        pairs[name] = (own.get("packages", {}).get(name), scheduler.get("packages", {}).get(name))
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def worker_memory_limit_bytes(machine_bytes: int) -> int:
    """Return a worker's limit of the machine's memory.

    The host program and the operating system keep 3 %, at least 256 MiB; a worker always gets half.
    """
    reserve = max(256 * MIB, machine_bytes * 3 // 100)
    return max(machine_bytes - reserve, machine_bytes // 2)


def _minor(version: Any) -> str | None:
    return ".".join(version.split(".")[:2]) if isinstance(version, str) else None


def is_too_old(version: str | None) -> bool:
    """Return whether a version of distributed is below `LEAST_DISTRIBUTED` or unreadable."""
    return _release(version or "") < _release(LEAST_DISTRIBUTED)


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
