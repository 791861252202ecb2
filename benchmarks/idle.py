"""AWS calls of an adapting cluster in ten minutes without work or client."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Mapping

from benchmarks._measure import Row, Verdict
from benchmarks._wide_client import NAME
from benchmarks.scaling import deploy
from terradask_simulator import Simulator

_SIZES = (1, 20)
_IDLE_SECONDS = 600.0
_SETTLE_SECONDS = 30.0
_START = f"""
import sys
from terradask import Cluster
n = int(sys.argv[1])
with Cluster(
    {NAME!r}, n_workers=[n, 30], wait_for_workers=True, idle_timeout=False, shutdown_on_close=False
) as cluster:
    assert len(cluster.observed) == n and cluster.adapting
"""


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Leave two clusters alone once."""
    del runs
    with contextlib.ExitStack() as stack:
        simulators = {n: stack.enter_context(Simulator.start(baseline=True)) for n in _SIZES}
        for n, simulator in simulators.items():
            deploy(simulator)
            subprocess.run(
                [sys.executable, "-c", _START, str(n)],
                check=True,
                env=simulator.environ,
                stdout=sys.stderr,
            )
        time.sleep(_SETTLE_SECONDS)
        for simulator in simulators.values():
            simulator.reset_calls()
        time.sleep(_IDLE_SECONDS)
        found = {n: simulator.calls(by="role") for n, simulator in simulators.items()}
    for n, calls in found.items():
        print(f"  {n} workers: {calls}", file=sys.stderr, flush=True)
    rows = [
        Row(f"{n} worker{'s' if n > 1 else ''}: calls of {whose}", [_of(calls, role)], "calls")
        for n, calls in found.items()
        for role, whose in (("scheduler", "the scheduler's host"), ("worker", "workers' hosts"))
    ]
    one, twenty = (_of(calls, "scheduler") for calls in found.values())
    # One look more or less is a matter of when the ten minutes begin.
    return rows, [
        Verdict("the scheduler's calls with 20 workers beyond those with 1", twenty - one, 2)
    ]


def _of(calls: Mapping[str, Mapping[str, int]], role: str) -> int:
    return sum(calls.get(f"terradask-default-{role}", {}).values())
