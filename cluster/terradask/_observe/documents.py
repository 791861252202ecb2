"""Read a cluster's documents, with advice in errors; derive its facts, its state, and the reason of
its end from them and from its groups.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from terradask._observe.shortfall import Pool
from terradask.errors import ClusterStopped, DocumentFormat, TerradaskError
from terradask_host.documents import (
    FORMAT,
    UNREADABLE,
    ClusterDocument,
    Ended,
    HostReport,
    Run,
    SchedulerAddress,
    plain_lines,
)
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.structure import GroupEntry, worker_chains
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings


logger = logging.getLogger("terradask")

_Document = TypeVar("_Document")


class Descriptor(ClusterDocument):
    """A deployed cluster's structure from ``cluster.json``, and derived facts."""

    @cached_property
    def cluster_settings(self) -> ClusterSettings:
        """The settings of the deployed cluster, written by any version. Raises `DocumentFormat`."""
        # pydantic is slow to import
        from terradask_stacks.settings import ClusterSettings

        with reading(f"Cluster {self.cluster!r}", _apply_again(self.cluster)):
            found = ClusterSettings.read(self.settings)
        if found.arm is not None:
            return found
        # If not set, the instance types have determined it.
        return found.model_copy(update={"arm": self.architecture == "arm64"})

    @property
    def architecture(self) -> str:
        """Processor architecture of all hosts."""
        return str(self.lock.get("architecture", "x86_64"))

    @property
    def workers_per_host(self) -> int:
        """Dask workers on each host."""
        return self.worker.workers_per_host

    @property
    def worker_groups(self) -> dict[str, tuple[str, ...]]:
        """Group of workers -> the keys of its Auto Scaling groups, in the order in which they are
        tried.
        """
        return worker_chains(self.groups)

    @property
    def pools(self) -> dict[str, Pool]:
        """Zones, market and instance types of each Auto Scaling group."""
        return {key: self._pool(group) for key, group in self.groups.items()}

    def _pool(self, group: GroupEntry) -> Pool:
        if group.role == "worker" and group.worker_group != WORKER_GROUP:
            types = self.lock["group_instance_types"][group.worker_group]
            settings = f"worker_groups.{group.worker_group}."
        else:
            types, settings = self.lock[f"{group.role}_instance_types"], f"{group.role}_"
        zones = group.zones or (self.zone,)
        return Pool(
            zones,
            group.market,
            tuple(types),
            settings,
            zone_named=self.cluster_settings.zone_name is not None,
        )

    @property
    def hardware(self) -> dict[str, dict[str, Any]]:
        """Each group's locked instance types, the request, and the reasons of the choice."""
        requests, reasons = self.lock.get("asked") or {}, self.lock.get("reasons") or {}
        types = {
            WORKER_GROUP: self.lock["worker_instance_types"],
            SCHEDULER_GROUP: self.lock["scheduler_instance_types"],
            **(self.lock.get("group_instance_types") or {}),
        }
        return {
            group: {
                "types": names,
                "asked": requests.get(group, {}),
                "reason": reasons.get(group, ""),
            }
            for group, names in types.items()
        }

    def most_workers(self, group: str) -> int:
        """Return the largest number of workers of a group; one Auto Scaling group can hold all."""
        return max(self.groups[key].max_size for key in self.worker_groups[group])

    @property
    def max_workers(self) -> int:
        """Most workers that the cluster may have, all groups together."""
        return sum(map(self.most_workers, self.worker_groups))


def _apply_again(cluster: str) -> str:
    return f"terradask apply {cluster}, with the newer of the two versions"


def read_descriptor(document: Mapping[str, Any], cluster: str | None = None) -> Descriptor:
    """Read ``cluster.json``; errors use the cluster's name, if known."""
    name = cluster or document.get("cluster", "NAME")
    return _read(Descriptor.read, document, f"Cluster {name!r}", _apply_again(name))


def read_run(document: Mapping[str, Any]) -> Run:
    """Read ``run.json``."""
    advice = "stop the cluster with the version that started it"
    return _read(Run.read, document, "The cluster's run", advice)


def read_address(document: Mapping[str, Any]) -> SchedulerAddress:
    """Read ``scheduler.json``."""
    advice = "stop the cluster and start it again"
    return _read(SchedulerAddress.read, document, "The scheduler's address", advice)


def _read(
    read: Callable[[Mapping[str, Any]], _Document],
    document: Mapping[str, Any],
    subject: str,
    advice: str,
) -> _Document:
    check_format(document, subject, advice)
    with reading(subject, advice):
        return read(document)


def read_report(document: Mapping[str, Any]) -> HostReport:
    """Read ``hosts/<instance id>.json``."""
    with reading("A host's report", "nothing: the report is ignored"):
        return HostReport.read(document)


def read_host_reports(documents: Iterable[Mapping[str, Any]]) -> list[HostReport]:
    """Read the reports of hosts; warn of unreadable ones and drop them."""
    reports = []
    for document in documents:
        try:
            reports.append(read_report(document))
        except DocumentFormat as error:
            logger.warning("a host's report is ignored: %s", error.problem)
    return reports


@contextlib.contextmanager
def reading(subject: str, advice: str) -> Iterator[None]:
    """Translate errors of reading a document to `DocumentFormat`."""
    try:
        yield
    except TerradaskError:
        raise
    except UNREADABLE as error:
        raise DocumentFormat(
            f"{subject} doesn't match its format.",
            given=type(error).__name__,
            allowed=f"format {FORMAT}",
            advice=advice,
        ) from None


def check_format(document: Mapping[str, Any], subject: str, advice: str) -> None:
    """Refuse a document of another format. Raises `DocumentFormat`."""
    if document.get("format") != FORMAT:
        raise DocumentFormat(
            f"{subject} has a format that this terradask can't read.",
            given=(
                f"format {document.get('format')!r}, written by terradask "
                f"{plain_lines(str(document.get('terradask_version', '?')))}"
            ),
            allowed=f"format {FORMAT}",
            advice=advice,
        )


# ---- a cluster's state, and the reason of its end ------------------------------------------------


State = Literal["stopped", "starting", "running", "stopping", "closing", "failed", "ended"]

#: A start that raised no group within this time was interrupted: another may take over.
CLAIM_SECONDS = 60

#: Reason of an end that the hosts couldn't report.
SILENT = (
    "its groups went to 0 without a report from its scheduler's host: they were set by hand, "
    "or by the watchdog schedule"
)


def derive_state(
    groups: Mapping[str, Group],
    run: Run | None,
    scheduler: SchedulerAddress | None,
    hosts: Iterable[HostReport],
    *,
    closing: bool,
) -> State:
    """Return the state of a deployed cluster."""
    scheduler = of_run(scheduler, run)
    raised, ended = is_raised(groups), ended_by_itself(run, scheduler) is not None
    if closing and not ended:
        return "closing"
    if any(host.role == "scheduler" and host.state == "failed" for host in hosts):
        return "failed"
    if raised and scheduler is not None and not ended:
        return "running"
    if scheduler is None and (raised or (run is not None and is_young(run))):
        return "starting"
    if raised or any(group.members for group in groups.values()):
        return "stopping"
    return "stopped" if run is None else "ended"


def state_by_numbers(desired: int, instances: int) -> State:
    """Derive a state from the groups' numbers alone, for callers who can't read reports."""
    if desired:
        return "running" if instances else "starting"
    return "stopping" if instances else "stopped"


def of_run(scheduler: SchedulerAddress | None, run: Run | None) -> SchedulerAddress | None:
    """Return the scheduler's address if it belongs to this run, else None."""
    is_own = scheduler is not None and run is not None and scheduler.run_id == run.run_id
    return scheduler if is_own else None


def ended_by_itself(run: Run | None, scheduler: SchedulerAddress | None) -> Ended | None:
    """Return the reported end of a run that ended by itself, or None."""
    own = of_run(scheduler, run)
    return None if own is None else own.ended


def is_young(run: Run) -> bool:
    """Return whether a run is so recent that its groups may not be raised yet."""
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(run.started_at)
    return age.total_seconds() < CLAIM_SECONDS


def is_raised(groups: Mapping[str, Group]) -> bool:
    """Return whether any group's desired number is above zero."""
    return any(group.desired for group in groups.values())


def stopped_error(
    cluster: str, run_id: str | None, run: Run | None, scheduler: SchedulerAddress | None
) -> ClusterStopped:
    """Return the error for a cluster that is stopped or has ended."""
    advice = f"terradask start {cluster}, or Cluster(name={cluster!r}) from Python"
    if run is None or (run_id is not None and run.run_id != run_id):
        return ClusterStopped(f"Cluster {cluster!r} is stopped.", cluster=cluster, advice=advice)
    ended = ended_by_itself(run, scheduler)
    return ClusterStopped(
        f"Cluster {cluster!r} has ended by itself{f' at {ended.at}' if ended else ''}.",
        cluster=cluster,
        reason=ended.reason if ended else SILENT,
        at=ended.at if ended else None,
        advice=advice,
    )
