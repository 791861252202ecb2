"""What a host decides, as pure functions: no AWS, no Dask, no clock of their own."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host.documents import SchedulerAddress
from terradask_host.timing import Timing

MIB = 2**20

#: The first version of distributed without https://github.com/advisories/GHSA-c336-7962-wfj2, as
#: pyproject.toml has it for clients.
LEAST_DISTRIBUTED = "2026.1.1"

#: Why a Dask worker says it closed when it was the connection that went, not the worker that was
#: asked to go.
LOST_REASONS = frozenset(
    {
        "worker-handle-scheduler-connection-broken",
        "worker-heartbeat-error",
        "nanny-unregister-failed",
        "scheduler-close",
    }
)

#: The scheduler forgot the worker. A heartbeat may overtake the order to close, so this alone says
#: nothing.
FORGOTTEN = "worker-heartbeat-missing"


class Next(enum.Enum):
    """What follows the end of the Dask process."""

    #: Look for the scheduler and join it.
    SEEK = "seek"
    #: The same, once the client had time to end the instance.
    SEEK_LATER = "seek later"
    #: Retired: wait for the client to end the instance, then leave.
    RETIRED = "retired"
    #: A crash: start it again.
    RESTART = "restart"
    #: A crash too many.
    FAIL = "fail"
    #: The scheduler ended itself: the cluster is over.
    OVER = "over"


class Seek(enum.Enum):
    """What a worker without a scheduler does."""

    JOIN = "join"
    WAIT = "wait"
    LEAVE = "leave"


@dataclass(frozen=True)
class Exit:
    """How the Dask process ended.

    Parameters
    ----------
    code
        Exit code; negative for a signal.
    reason
        Why Dask says it closed, or the error that kept it from starting. Default: it said nothing.
    ran
        Whether it had said that it runs.
    last_line
        The last that it wrote to its output, if anything.
    """

    code: int
    reason: str | None = None
    ran: bool = False
    last_line: str | None = None

    def describe(self) -> str:
        """Return one line for the report."""
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        # A process that ran has logged other things; one that never did has logged, at best, why.
        why = self.reason or (None if self.ran else self.last_line)
        return f"{how}: {why}" if why else how


def is_own_run(
    tag_run_id: str | None, run_id: str | None, waited_seconds: float, timing: Timing
) -> bool:
    """Return whether the run in ``run.json`` is this instance's; if not yet, the host goes
    on asking.

    The instance's tag ``terradask:run:id`` may lag behind its launch: None while it is not there,
    as the run.
    """
    if tag_run_id is None:
        return run_id is not None and waited_seconds >= timing.run_tag_grace_seconds
    return run_id == tag_run_id


def after_worker_exit(end: Exit, *, crashes: int, scheduler_answers: bool, timing: Timing) -> Next:
    """Decide what a worker's host does when its Dask process has ended by itself."""
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
    """Decide what a scheduler's host does when its Dask process has ended by itself."""
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
    """Decide what a worker without a scheduler does.

    A ``scheduler.json`` of another run is ignored. `lost_boot` is the one that it was joined to, if
    any; it may answer again.
    """
    if has_ended(scheduler, run_id):
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


def has_ended(scheduler: SchedulerAddress | None, run_id: str) -> bool:
    """Return whether ``scheduler.json`` says that this run has ended by itself."""
    return scheduler is not None and scheduler.run_id == run_id and scheduler.ended is not None


def seek_pause_seconds(waited_seconds: float) -> float:
    """Return how long to wait before ``scheduler.json`` is read again: eager at first, patient
    later.
    """
    if waited_seconds < 10:
        return 0.25
    return 1.0 if waited_seconds < 120 else 5.0


def next_boot(previous: SchedulerAddress | None, run_id: str) -> int:
    """Return the boot number of a scheduler that comes up now."""
    return (
        previous.boot + 1
        if previous is not None and previous.run_id == run_id and isinstance(previous.boot, int)
        else 1
    )


def version_differences(
    own: Mapping[str, Any], scheduler: Mapping[str, Any]
) -> dict[str, tuple[str | None, str | None]]:
    """Return what differs between worker and scheduler: name -> (worker's, scheduler's).

    Of both: ``python`` (``3.11``) and ``packages`` (with ``dask`` and ``distributed``).
    """
    pairs = {"python": (_minor(own.get("python")), _minor(scheduler.get("python")))}
    for name in ("dask", "distributed"):
        pairs[name] = (own.get("packages", {}).get(name), scheduler.get("packages", {}).get(name))
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def worker_memory_limit_bytes(machine_bytes: int) -> int:
    """Return what a worker may use of the machine's memory.

    The host program and the operating system keep 3 %, at least 256 MiB; a worker always gets half.
    """
    reserve = max(256 * MIB, machine_bytes * 3 // 100)
    return max(machine_bytes - reserve, machine_bytes // 2)


def _minor(version: Any) -> str | None:
    return ".".join(version.split(".")[:2]) if isinstance(version, str) else None


def is_too_old(version: str | None) -> bool:
    """Say whether a version of distributed is below `LEAST_DISTRIBUTED`; one that can't
    be read is.
    """
    return _release(version or "") < _release(LEAST_DISTRIBUTED)


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
