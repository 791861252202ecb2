"""Read a cluster's documents, with advice in errors, and derive facts from its descriptor."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from terradask._observe.shortfall import Pool
from terradask.errors import DocumentFormat, TerradaskError
from terradask_host.documents import (
    FORMAT,
    UNREADABLE,
    ClusterDocument,
    HostReport,
    Run,
    SchedulerAddress,
    plain_lines,
)
from terradask_host.structure import GroupEntry
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings

logger = logging.getLogger("terradask")

_Document = TypeVar("_Document")


class Descriptor(ClusterDocument):
    """A deployed cluster's structure from ``cluster.json``, and derived facts."""

    @cached_property
    def cluster_settings(self) -> ClusterSettings:
        """The settings of the deployed cluster, written by any version.

        Raises `DocumentFormat`.
        """
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

        The group ``workers``, which every cluster has, comes first; spot comes before on demand.
        """
        workers = [(key, group) for key, group in self.groups.items() if group.role == "worker"]
        names = sorted(
            {group.worker_group for _, group in workers},
            key=lambda name: (name != WORKER_GROUP, name),
        )
        ordered = sorted(workers, key=lambda entry: entry[1].market != "spot")
        return {
            name: tuple(key for key, group in ordered if group.worker_group == name)
            for name in names
        }

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
