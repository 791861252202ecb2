"""A cluster's status again and again, by two calls a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from terradask._deployments.documents import read_host_reports
from terradask._deployments.record import ClusterRecord
from terradask._deployments.status import (
    RUN_AT,
    DeploymentStatus,
    lacking_groups,
    reads_of,
    recent_failures,
    status_of,
    watchdog_of,
)
from terradask._deployments.store import HOSTS
from terradask_host.documents import HostReport, Run
from terradask_host.rules.launch_problem import LaunchProblem


@dataclass(eq=False, repr=False)
class StatusWatch:
    """Reads a cluster's status; of hosts' reports, those alone that have changed."""

    record: ClusterRecord
    #: The run that was read last.
    run: Run | None = field(default=None, init=False)
    _versions: dict[str, str] = field(default_factory=dict, init=False)
    _reports: dict[str, HostReport] = field(default_factory=dict, init=False)

    def read(self) -> DeploymentStatus:
        """Return the status now; it takes some seconds, because calls wait for their turn.

        Raises `ClusterNotFound`. The permissions needed are those of `Deployment.status`.
        """
        found: list[Any] = []
        for read in reads_of(self.record, self._read_reports):
            with self.record.limiter.slot():
                found.append(read())
        self.run = found[RUN_AT]
        failures: dict[str, tuple[LaunchProblem, ...]] = {}
        for name in lacking_groups(found):
            with self.record.limiter.slot():
                failures[name] = recent_failures(self.record, name, found[RUN_AT])
        with self.record.limiter.slot():
            fires_at = watchdog_of(self.record, found)
        return status_of(self.record, found, failures, fires_at)

    def _read_reports(self) -> list[HostReport]:
        objects, before = self.record.objects, self._versions
        self._versions = objects.host_versions()
        changed = [i for i, version in self._versions.items() if before.get(i) != version]
        documents = objects.read_all([f"{HOSTS}{each}.json" for each in changed])
        fresh = read_host_reports(document for document in documents if document is not None)
        known = {**self._reports, **{report.instance_id: report for report in fresh}}
        self._reports = {i: known[i] for i in sorted(self._versions) if i in known}
        return list(self._reports.values())
