"""The share of one processor that metrics take in the scheduler of 1,000 simulated workers with
10,000 results, with a scrape every 15 s and one line for CloudWatch a minute.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import _metrics_client, scaling
from benchmarks._measure import Row, Verdict
from terradask_host.preload.gauges import LoopLag
from terradask_simulator import Simulator

_ROOT = Path(__file__).parents[1]
_LOOKS = 20_000
_SCRAPE_SECONDS, _WRITE_SECONDS, _LOOKS_IN_A_SECOND = 15, 60, 10


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Make one cluster, and read it many times."""
    with Simulator.start(baseline=True) as simulator, simulator.hollow_hosts():
        scaling.deploy(simulator)
        found = _client(simulator, runs)
    looks = [1e6 * _look_seconds() for _ in range(runs)]
    rows = [
        Row("one reading of the gauges", [1e6 * each for each in found["readings"]], "µs"),
        Row("one scrape beyond the reading", [1e6 * each for each in found["scrapes"]], "µs"),
        Row("one check of the event loop", looks, "µs"),
        Row("the page", [found["bytes"]], "bytes"),
        Row("the scheduler's process meanwhile", [1e6 * found["idle"]], "µs each second"),
    ]
    reading, scrape, look = (row.median / 1e6 for row in rows[:3])
    share = (
        (reading + scrape) / _SCRAPE_SECONDS + reading / _WRITE_SECONDS + look * _LOOKS_IN_A_SECOND
    )
    return rows, [Verdict("the scheduler's time with 1,000 workers", 100 * share, 1, " %")]


def _client(simulator: Simulator, runs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", _metrics_client.__name__, str(runs)]
    done = subprocess.run(
        command, check=False, env=simulator.environ, cwd=_ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"a benchmark's process failed:\n{done.stdout}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _look_seconds() -> float:
    """Return the processor time of one look, with the loop's own part of waiting for it."""

    async def look() -> None:
        lag = LoopLag()
        for _ in range(_LOOKS):
            expected = time.monotonic()
            await asyncio.sleep(0)
            lag.note(time.monotonic() - expected)

    began = time.process_time()
    asyncio.run(look())
    return (time.process_time() - began) / _LOOKS
