"""The log methods of `Deployment`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from terradask._observe.logs.lines import ClusterLogs, LogLine
    from terradask._observe.logs.query import Moment
    from terradask._observe.record import ClusterRecord


@dataclass(frozen=True)
class ReadableLogs:
    """Read a cluster's logs."""

    record: ClusterRecord

    def logs(
        self,
        *hosts: str,
        since: Moment | None = None,
        until: Moment | None = None,
        pattern: str | None = None,
        level: str | None = None,
        tail: int | None = 10_000,
        run: str | None = None,
    ) -> ClusterLogs:
        """Return lines of the hosts' logs, oldest first: the boot's, Dask's and tasks' output.
        They are kept for ``network.log_retention_days``, also when the cluster is stopped
        or destroyed.

        Parameters
        ----------
        *hosts
            ``"scheduler"``, ``"workers"`` (those of all groups), the name of a group, an instance
            id or its end. By default all hosts.
        since, until
            Bounds of the period, as a time (UTC if it has no zone), a `timedelta` ago, or text:
            ``"10m"``, ``"2h"``, ``"2026-11-24T08:00"``. By default all of the run.
        pattern
            Regular expression that matches anywhere in a line's text. By default every line.
        level
            Least serious level: ``"debug"``, ``"info"``, ``"warning"``, ``"error"`` or
            ``"critical"``. Further lines of a message, such as a traceback, have its level. By
            default every line, also without a level.
        tail
            Most lines to return, the newest. By default 10,000; None for all.
        run
            Id of an earlier run, or ``"all"``. By default the last run.

        Returns
        -------
        ClusterLogs
            A sequence of `LogLine`, each with ``at``, ``host``, ``group``, ``run``, ``level`` and
            ``text``. ``str`` gives a line without the control characters that tasks may print.

        Raises
        ------
        ClusterNotFound
            When there are no logs of such a cluster; with the names of those that have some.
        InvalidInput
            For a host, group or run without logs, with those that have some; and for an invalid
            time, level or pattern.
        AccessDenied
            When AWS doesn't allow the caller to read logs.
        EndpointUnreachable
            When CloudWatch doesn't answer for a minute, because of its limits.

        Notes
        -----
        Permissions needed: ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents`` on the
        workspace's log group; ``s3:GetObject`` and ``s3:ListBucket`` as for `status`.
        """
        from terradask._observe.logs.lines import ClusterLogs

        lines = self.iter_logs(
            *hosts, since=since, until=until, pattern=pattern, level=level, tail=tail, run=run
        )
        return ClusterLogs(self.record.name, lines)

    def iter_logs(
        self,
        *hosts: str,
        since: Moment | None = None,
        until: Moment | None = None,
        pattern: str | None = None,
        level: str | None = None,
        tail: int | None = None,
        run: str | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """Yield lines of the hosts' logs as they are read, oldest first.

        Parameters
        ----------
        *hosts, since, until, pattern, level, tail, run
            As for `logs`; without `tail`, all lines.
        follow
            Whether to also yield new lines of the last run, within seconds, until it is over. Lines
            that arrive more than 30 s late are left out. By default False.

        Raises
        ------
        ClusterNotFound, InvalidInput, AccessDenied, EndpointUnreachable
            As for `logs`.
        """
        from terradask._observe.logs.query import LogQuery
        from terradask._observe.logs.reader import cluster_lines

        query = LogQuery.of(
            hosts, since=since, until=until, pattern=pattern, level=level, tail=tail, run=run
        )
        return cluster_lines(self.record, query, follow=follow)

    def log_hosts(self, run: str | None = None) -> dict[str, str]:
        """Return the hosts that have logs.

        Parameters
        ----------
        run
            Id of a run. By default the last one.

        Returns
        -------
        dict
            Instance id -> group.

        Raises
        ------
        ClusterNotFound, InvalidInput, AccessDenied, EndpointUnreachable
            As for `logs`.
        """
        from terradask._observe.logs.query import LogQuery
        from terradask._observe.logs.reader import hosts_with_logs

        return hosts_with_logs(self.record, LogQuery.of(run=run))
