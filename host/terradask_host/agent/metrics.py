"""Writes a cluster's gauges to CloudWatch Logs, which extracts metrics from them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from terradask_host.agent.aws import error_code
from terradask_host.agent.host import Host
from terradask_host.agent.logs import StreamWriter
from terradask_host.gauges import embedded_metrics, known_values
from terradask_host.log_streams import metrics_stream


class MetricsLog:
    """Writes a line for each report of the scheduler's process, if the cluster has metrics.

    A line that can't be written is lost; the first failure is logged. At most one line is written
    per half interval, whatever the process sends.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._is_wanted = host.cluster.scheduler.metrics == "cloudwatch"
        self._least_seconds = host.config.timing.gauge_seconds / 2
        stream = metrics_stream(host.identity.cluster, host.run_id)
        self._stream = StreamWriter(host.aws, host.config.log_group, stream)
        self._writing: threading.Thread | None = None
        self._written_at: float | None = None
        self._warned = False

    def take(self, facts: Mapping[str, Any]) -> None:
        """Write gauges on a thread."""
        now = time.monotonic()
        is_early = self._written_at is not None and now - self._written_at < self._least_seconds
        is_writing = self._writing is not None and self._writing.is_alive()
        values = known_values(facts.get("values"))
        if not self._is_wanted or is_early or is_writing or not values:
            return
        self._written_at = now
        at_ms = int(time.time() * 1000)
        line = embedded_metrics(
            values,
            workspace=self._host.config.workspace,
            cluster=self._host.identity.cluster,
            run_id=self._host.run_id,
            at_ms=at_ms,
        )
        # A daemon thread: a silent CloudWatch must not keep the host alive.
        self._writing = threading.Thread(
            target=self._write, args=(at_ms, line), name="metrics", daemon=True
        )
        self._writing.start()

    def _write(self, at_ms: int, line: str) -> None:
        try:
            why = ", ".join(self._stream.put([(at_ms, line)]))
        except Exception as error:  # noqa: BLE001 - metrics must not end a host
            why = f"{error_code(error)}: {error}"
        if why and not self._warned:
            self._host.log.info(f"CloudWatch takes no metrics: {why}")
        self._warned = bool(why)
