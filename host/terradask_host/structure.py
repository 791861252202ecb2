"""The part of a cluster's structure that its hosts need: groups, and each role's settings.

Terraform writes it to ``cluster.json``. A start copies it to ``run.json``, and hosts read it only
there: changes that are applied during a run take effect at the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from terradask_host.document_fields import Record

#: Classes that make one worker, with their `name` argument.
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
    """Return the names of a host's workers: the instance id, with a number from the second on."""
    return [instance_id, *(f"{instance_id}-{number}" for number in range(1, workers_per_host))]


@dataclass(frozen=True, kw_only=True)
class GroupEntry(Record):
    """One Auto Scaling group of a cluster."""

    autoscaling_group: str
    role: str
    max_size: int
    market: str = "on-demand"
    worker_group: str = WORKER_GROUP
    #: Allowed zones of its hosts. Empty, as an older terradask wrote it: the cluster's zone.
    zones: tuple[str, ...] = ()
    #: Dask's resources of each worker.
    resources: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the entry."""
        return super().read({**document, "resources": document.get("resources") or {}})


def worker_chains(groups: Mapping[str, GroupEntry]) -> dict[str, tuple[str, ...]]:
    """Return for each group of workers the keys of its Auto Scaling groups, in the order in which
    they are tried: spot before on demand.

    The group ``workers``, which every cluster has, comes first.
    """
    workers = [(key, group) for key, group in groups.items() if group.role == "worker"]
    workers.sort(
        key=lambda each: (
            each[1].worker_group != WORKER_GROUP,
            each[1].worker_group,
            each[1].market != "spot",
        )
    )
    found: dict[str, tuple[str, ...]] = {}
    for key, group in workers:
        found[group.worker_group] = (*found.get(group.worker_group, ()), key)
    return found


@dataclass(frozen=True, kw_only=True)
class SchedulerEntry(Record):
    """The settings of the scheduler's host, and its listening addresses."""

    class_name: str = "distributed.Scheduler"
    options: Mapping[str, Any] = field(default_factory=dict)
    port: int = 8786
    dashboard_port: int = 8787
    #: Address of the dashboard over HTTPS for browsers, or None.
    dashboard_https_port: int | None = None
    #: Whether a worker runs beside the scheduler.
    extra_worker: bool = False
    #: Whether a notebook server runs beside the scheduler.
    jupyter: bool = False
    #: Performance report: ``off``, ``without_source`` or ``with_source``.
    performance_report: str = "without_source"
    #: Destination of metrics: ``off`` or ``cloudwatch``.
    metrics: str = "off"

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the entry."""
        return super().read({**document, "class_name": document.get("class", cls.class_name)})


@dataclass(frozen=True, kw_only=True)
class WorkerEntry(Record):
    """The settings of workers' hosts."""

    class_name: str = "distributed.Nanny"
    options: Mapping[str, Any] = field(default_factory=dict)
    workers_per_host: int = 1

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the entry."""
        return super().read({**document, "class_name": document.get("class", cls.class_name)})

    @property
    def may_make_several(self) -> bool:
        """Whether the class may make several workers of one, and number their names from 0 on.

        ``dask_cuda.CUDAWorker`` does. If a host has several of the class, numbers are the host's.
        """
        return self.workers_per_host == 1 and self.class_name not in _SINGLE_WORKER_CLASSES


@dataclass(frozen=True, kw_only=True)
class Structure(Record):
    """The groups of a cluster, and the settings of its hosts."""

    groups: Mapping[str, GroupEntry]
    worker: WorkerEntry = field(default_factory=WorkerEntry)
    scheduler: SchedulerEntry = field(default_factory=SchedulerEntry)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read it from ``cluster.json``, or from ``structure`` of ``run.json``."""
        scheduler = document.get("scheduler") or {}
        return super().read({"worker": document["worker"], **document, "scheduler": scheduler})

    def to_document(self) -> dict[str, Any]:
        """Return the document that `read` reads."""
        return {
            "groups": {key: asdict(entry) for key, entry in self.groups.items()},
            "worker": _runs(self.worker),
            "scheduler": _runs(self.scheduler),
        }


def _runs(entry: SchedulerEntry | WorkerEntry) -> dict[str, Any]:
    document = asdict(entry)
    return {"class": document.pop("class_name"), **document}
