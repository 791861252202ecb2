"""Reports of missing workers' hosts, a few at a time, so that a poll takes few calls."""

from __future__ import annotations

from collections.abc import Sequence, Set

from terradask._deployments.documents import HostReport, read_host_reports
from terradask._deployments.store import HOSTS, ClusterObjects


class MissingHosts:
    """Reports of the hosts of a run whose workers have not joined."""

    def __init__(self, objects: ClusterObjects, run_id: str) -> None:
        self._objects = objects
        self._run_id = run_id
        self._listed: dict[str, str] = {}
        self._read: dict[str, tuple[str, HostReport]] = {}

    def list_changed(self, joined: Set[str]) -> list[str]:
        """List the hosts with new reports, then those with changed ones: 1,000 for each call."""
        self._listed = self._objects.host_versions()
        changed = [
            host
            for host, version in self._listed.items()
            if host not in joined and self._version_read(host) != version
        ]
        return sorted(changed, key=lambda host: host in self._read)

    def read(self, hosts: Sequence[str]) -> None:
        """Read the reports of hosts that were listed, one call each."""
        documents = self._objects.read_all([f"{HOSTS}{host}.json" for host in hosts])
        for host, document in zip(hosts, documents, strict=True):
            for report in read_host_reports([] if document is None else [document]):
                self._read[host] = self._listed[host], report

    @property
    def reports(self) -> list[HostReport]:
        """The reports read so far of the run's hosts that were listed last."""
        return [
            report
            for host, (_, report) in self._read.items()
            if host in self._listed and report.run_id == self._run_id
        ]

    def _version_read(self, host: str) -> str | None:
        return self._read[host][0] if host in self._read else None
