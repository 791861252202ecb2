"""What the hosts of missing workers say, a few at a time: a thousand hosts must not cost a thousand calls at each look."""

from __future__ import annotations

from collections.abc import Set

from terradask._runtime.documents import HostReport
from terradask._runtime.objects import HOSTS, ClusterObjects

#: With the listing, a call a second at a look every five seconds.
_READS_A_LOOK = 4


class MissingHosts:
    """Reports of the hosts of a run whose workers have not joined.

    Parameters
    ----------
    objects
        The cluster's objects.
    run_id
        The run: reports of another one are left out.
    """

    def __init__(self, objects: ClusterObjects, run_id: str) -> None:
        self._objects = objects
        self._run_id = run_id
        self._read: dict[str, tuple[str, HostReport]] = {}

    def look(self, joined: Set[str], *, everything: bool) -> list[HostReport]:
        """Read reports that are new or have changed, and return all that are known.

        Takes a call for each 1,000 hosts, and one for each report that is read.

        Parameters
        ----------
        joined
            Instance ids of hosts that nobody misses: theirs are not read.
        everything
            Whether to read all that have changed, and not only the next few.
        """
        versions = self._objects.host_versions()
        changed = [host for host, version in versions.items() if host not in joined and self._version_read(host) != version]
        # Those that have not had their turn come first.
        changed.sort(key=lambda host: host in self._read)
        turn = changed if everything else changed[:_READS_A_LOOK]
        documents = self._objects.read_all([f"{HOSTS}{host}.json" for host in turn])
        for host, document in zip(turn, documents, strict=True):
            if document is not None:
                self._read[host] = versions[host], HostReport.read(document)
        return [report for host, (_, report) in self._read.items() if host in versions and report.run_id == self._run_id]

    def _version_read(self, host: str) -> str | None:
        return self._read[host][0] if host in self._read else None
