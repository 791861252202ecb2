"""The client whose scheduler's metrics are measured: makes the cluster ``wide``; prints JSON."""

from __future__ import annotations

import contextlib
import json
import ssl
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from distributed import Client

from benchmarks._wide_client import MOST, NAME
from terradask import Cluster, Workspace
from terradask._clusters.attach import Attachment

_TASKS, _READINGS, _SCRAPES, _IDLE_SECONDS = 10_000, 50, 300, 20.0
_PATIENCE_SECONDS = 400.0


def reading_seconds(dask_scheduler: Any) -> float:
    """Return the time of one reading, in the scheduler's process."""
    import time

    from terradask_host.preload.gauges import read_gauges

    began = time.perf_counter()
    for _ in range(_READINGS):
        read_gauges(dask_scheduler, 0.0)
    return (time.perf_counter() - began) / _READINGS


def processor_seconds(dask_scheduler: Any) -> float:
    """Return the processor time of the scheduler's process so far."""
    import time

    return time.process_time()


class Page:
    """The page with metrics, as Prometheus gets it."""

    def __init__(self, attachment: Attachment) -> None:
        host = attachment.address(public=True).partition("://")[2].rpartition(":")[0]
        self._url = f"https://{host}:{attachment.scheduler.dashboard_port}/metrics"
        metrics = attachment.keys.metrics
        assert metrics is not None
        self._context = ssl.create_default_context(cadata=attachment.keys.ca)
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._context.check_hostname = False
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "cert"), Path(folder, "key")
            cert.write_text(metrics.cert)
            key.write_text(metrics.key)
            self._context.load_cert_chain(cert, key)

    def scrape(self) -> bytes:
        """Return the page, over a new connection."""
        with urllib.request.urlopen(self._url, context=self._context) as answer:
            content: bytes = answer.read()
            return content


def main(runs: int) -> dict[str, Any]:
    """Return the figures."""
    with (
        contextlib.redirect_stdout(sys.stderr),
        Cluster(NAME, n_workers=MOST, max_workers=MOST, wait_for_workers=False) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(MOST, timeout=_PATIENCE_SECONDS)
        kept = client.map(abs, range(_TASKS))
        client.gather(kept)
        page = Page(Workspace.load().deployment(NAME).attach(timeout_seconds=60.0))
        content = page.scrape().decode()
        assert f"terradask_workers_running {float(MOST)}" in content
        assert f"terradask_tasks_in_memory {float(_TASKS)}" in content

        def used() -> float:
            seconds: float = client.run_on_scheduler(processor_seconds)
            return seconds

        before = used()
        time.sleep(_IDLE_SECONDS)
        idle = (used() - before) / _IDLE_SECONDS
        scrapes = []
        for _ in range(runs):
            began, before = time.monotonic(), used()
            for _ in range(_SCRAPES):
                page.scrape()
            scrapes.append((used() - before - idle * (time.monotonic() - began)) / _SCRAPES)
        return {
            "readings": [client.run_on_scheduler(reading_seconds) for _ in range(runs)],
            "scrapes": scrapes,
            "idle": idle,
            "bytes": len(content),
        }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
