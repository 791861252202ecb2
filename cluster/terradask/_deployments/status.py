"""How a cluster is: told from its groups, its run, its scheduler's address and its hosts' reports, without touching AWS."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from terradask._aws.groups import Group
from terradask._deployments.documents import Ended, HostReport, Run, SchedulerAddress
from terradask._deployments.ended import SILENT
from terradask_modules.names import SCHEDULER_GROUP

State = Literal["stopped", "starting", "running", "stopping", "closing", "failed", "ended"]

#: A start that has claimed the cluster but raised nothing after this time was interrupted, and another may take over.
CLAIM_SECONDS = 60


@dataclass(frozen=True)
class DeploymentStatus:
    """How a cluster is, from any machine that may read the account.

    Parameters
    ----------
    name
        The cluster's name.
    state
        ``stopped``, ``starting``, ``running``, ``stopping``, ``closing`` (its destruction was interrupted), ``failed``, or ``ended``
        (nobody stopped it, and it runs no more).
    run_id, owner, started_at
        The run, the ARN of who started it, and when, in UTC; None when the cluster is stopped.
    scheduler_address
        What a client dials; None before the scheduler is up.
    groups
        By the cluster's own name of each group: ``desired``, ``instances`` and ``max_size``.
    hosts
        What the run's hosts report.
    max_workers
        Most workers that the cluster may have.
    ended
        When and why the run ended by itself, or is about to; None where it goes on, or did not say.
    """

    name: str
    state: State
    run_id: str | None
    owner: str | None
    started_at: str | None
    scheduler_address: str | None
    groups: Mapping[str, Mapping[str, int]]
    hosts: tuple[HostReport, ...]
    max_workers: int
    ended: Ended | None = None

    def workers(self, what: str) -> int:
        """Return a number of all groups of workers together: ``desired`` or ``instances``."""
        return sum(group[what] for name, group in self.groups.items() if name != SCHEDULER_GROUP)

    @property
    def why_ended(self) -> str | None:
        """Why the run ended by itself; None where it goes on, or somebody stopped it."""
        if self.ended is not None:
            return self.ended.reason
        return SILENT if self.state == "ended" else None

    def as_dict(self) -> dict[str, Any]:
        """Return the status for ``--json`` output."""
        return {**asdict(self), "hosts": [asdict(h) for h in self.hosts], "ended": None if self.ended is None else asdict(self.ended)}


def dial_address(scheduler: SchedulerAddress | None, *, public: bool) -> str | None:
    """Return the address that a client dials: the public one where it is wanted and there is one, else the private one."""
    if scheduler is None:
        return None
    return (scheduler.public_address if public else None) or scheduler.private_address


def derive_state(
    groups: Mapping[str, Group],
    run: Run | None,
    scheduler: SchedulerAddress | None,
    hosts: tuple[HostReport, ...],
    *,
    closing: bool,
) -> State:
    """Tell the state of a cluster."""
    raised = any(g.desired for g in groups.values())
    has_ended = scheduler is not None and scheduler.ended is not None
    if closing and not has_ended:
        return "closing"
    if any(h.role == "scheduler" and h.state == "failed" for h in hosts):
        return "failed"
    if raised and scheduler is not None and not has_ended:
        return "running"
    if scheduler is None and (raised or (run is not None and age_seconds(run.started_at) < CLAIM_SECONDS)):
        return "starting"
    if raised or any(g.members for g in groups.values()):
        return "stopping"
    return "stopped" if run is None else "ended"


def age_seconds(at: str) -> float:
    """Return how long ago a time as documents carry it was, in seconds."""
    return (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(at)).total_seconds()
