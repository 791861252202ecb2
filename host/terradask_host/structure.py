"""A cluster's structure, as far as its hosts need it: groups, and what each role runs.

Terraform writes it to ``cluster.json``. A start takes it into ``run.json``, and hosts read it there
alone: what is applied while a run goes on holds from the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from terradask_host.document_fields import Record

#: Classes that make one worker, with the name that they get.
_SINGLE_WORKER_CLASSES = frozenset(
    {
        "distributed.Nanny",
        "distributed.nanny.Nanny",
        "distributed.Worker",
        "distributed.worker.Worker",
    }
)

#: The group of workers that every cluster has.
WORKER_GROUP = "workers"


def worker_names(instance_id: str, workers_per_host: int) -> list[str]:
    """Return the names of a host's workers: the instance id, with a number behind it from the
    second on.
    """
    return [instance_id, *(f"{instance_id}-{number}" for number in range(1, workers_per_host))]


@dataclass(frozen=True, kw_only=True)
class GroupEntry(Record):
    """One Auto Scaling group of a cluster."""

    autoscaling_group: str
    role: str
    max_size: int
    market: str = "on-demand"
    worker_group: str = WORKER_GROUP
    #: Where its hosts may be. Empty, as an older terradask wrote it: in the cluster's zone.
    zones: tuple[str, ...] = ()
    #: Dask's resources of each worker.
    resources: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the entry."""
        return super().read({**document, "resources": document.get("resources") or {}})


@dataclass(frozen=True, kw_only=True)
class SchedulerEntry(Record):
    """What the scheduler's host runs, and where it listens."""

    class_name: str = "distributed.Scheduler"
    options: Mapping[str, Any] = field(default_factory=dict)
    port: int = 8786
    dashboard_port: int = 8787
    #: Where browsers find the dashboard over HTTPS; None: nowhere.
    dashboard_https_port: int | None = None
    #: Whether a worker runs beside the scheduler.
    extra_worker: bool = False
    #: Whether a notebook server runs beside the scheduler.
    jupyter: bool = False
    #: Whether a performance report is kept: ``off``, ``without_source`` or ``with_source``.
    performance_report: str = "without_source"
    #: Where metrics go: ``off`` or ``cloudwatch``.
    metrics: str = "off"

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the entry."""
        return super().read({**document, "class_name": document.get("class", cls.class_name)})


@dataclass(frozen=True, kw_only=True)
class WorkerEntry(Record):
    """What hosts of workers run."""

    class_name: str = "distributed.Nanny"
    options: Mapping[str, Any] = field(default_factory=dict)
    workers_per_host: int = 1

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the entry."""
        return super().read({**document, "class_name": document.get("class", cls.class_name)})

    @property
    def may_make_several(self) -> bool:
        """Whether the class may make several workers of one, and number their names from 0 on, as
        ``dask_cuda.CUDAWorker`` does.

        Where a host has several of the class, numbers are the host's.
        """
        return self.workers_per_host == 1 and self.class_name not in _SINGLE_WORKER_CLASSES


@dataclass(frozen=True, kw_only=True)
class Structure(Record):
    """The groups of a cluster, and what its hosts run."""

    groups: Mapping[str, GroupEntry]
    worker: WorkerEntry = field(default_factory=WorkerEntry)
    scheduler: SchedulerEntry = field(default_factory=SchedulerEntry)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read it from ``cluster.json``, or from ``structure`` of ``run.json``."""
        scheduler = document.get("scheduler") or {}
        return super().read({"worker": document["worker"], **document, "scheduler": scheduler})

    def to_document(self) -> dict[str, Any]:
        """Return what `read` reads."""
        return {
            "groups": {key: asdict(entry) for key, entry in self.groups.items()},
            "worker": _runs(self.worker),
            "scheduler": _runs(self.scheduler),
        }


def _runs(entry: SchedulerEntry | WorkerEntry) -> dict[str, Any]:
    document = asdict(entry)
    return {"class": document.pop("class_name"), **document}
