"""A cluster of 1 to 1,000 workers that join one real scheduler, on the embedded AWS with hollow hosts.

Workers are real (mutual TLS, the instance's own address and name), a hundred in a process; their machines are not there, and
scheduler, workers, AWS and client share this machine: the seconds say what they cost together, not how fast EC2 is. Calls are the
client's, as the embedded AWS counted them. One run; the client is one process, which goes from zero to each size and back.

Looks: the watch of the groups keeps to two calls a second, and who waits for workers reads reports besides, five calls every five
seconds. They don't know of each other: where AWS still owes instances when reports are read, the busiest five seconds may have up to
three calls a second.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import _wide_client
from benchmarks._measure import Row, Verdict
from terradask_simulator import Simulator

_SIZES = (1, 10, 100, 1000)
_ROOT = Path(__file__).parents[1]
_DEPLOY = f"""
from terradask import Workspace
workspace = Workspace.load()
workspace.apply(workspace.plan_cluster({_wide_client.NAME!r}, max_workers={_wide_client.MOST}))
"""


def deploy(simulator: Simulator) -> None:
    """Deploy the cluster in another process, so that what Terraform takes is not the client's."""
    _run([sys.executable, "-c", _DEPLOY], simulator)


def scale(simulator: Simulator, *arguments: str) -> list[dict[str, Any]]:
    """Run the client and return its figures, one dictionary for each size."""
    printed = _run([sys.executable, "-m", "benchmarks._wide_client", *arguments], simulator)
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Scale up and down once; counts don't vary."""
    del runs
    with Simulator.start(baseline=True) as simulator, simulator.hollow_hosts():
        deploy(simulator)
        sizes = scale(simulator, *map(str, _SIZES))
    rows, removals = [], []
    for one in sizes:
        n, grown = one["n"], one["grown"]
        rows += [
            Row(f"0 -> {n:,} workers, until all have joined", [grown["joined_seconds"]]),
            Row(f"0 -> {n:,} workers, AWS calls until 10 s later", [grown["calls"]], "calls"),
            Row(f"scale({n}) itself", [grown["scale_ms"]], "ms"),
            Row(f"looks in the busiest 5 s with {n:,} workers", [5 * grown["looks_a_second"]], "calls"),
            Row(f"the client's memory with {n:,} workers", [grown["memory_mib"]], "MiB"),
        ]
        for gone in one["removed"]:
            what = f"removing {gone['k']:,} of {gone['n']:,} by name"
            rows.append(Row(f"{what}, writing calls", [gone["writing"]], "calls"))
            rows.append(Row(f"{what}, looks meanwhile", [gone["reading"]], "calls"))
            removals.append(gone["writing"] + 2 - _most_calls(gone["k"], gone["n"]))
        rows.append(Row(f"{one['emptied']['n']:,} -> 0 workers, writing calls", [one["emptied"]["writing"]], "calls"))
    return rows, [
        Verdict("scale() itself, the slowest", max(max(one["grown"]["scale_ms"], one["emptied"]["scale_ms"]) for one in sizes), 100, " ms"),
        Verdict("the client's memory, the most", max(one["grown"]["memory_mib"] for one in sizes), 300, " MiB"),
        Verdict("writing calls up, the most", max(one["grown"]["writing"] for one in sizes), 3),
        Verdict("writing calls to zero, the most", max(one["emptied"]["writing"] for one in sizes), 3),
        Verdict("calls that remove k of N, with two looks, beyond min(k, 2 ceil((N-k)/50) + 1) + 2", max(removals), 0),
        Verdict(
            "looks a second, in the busiest 5 s, scaling's own two left out",
            max(one["grown"]["looks_a_second"] for one in sizes),
            2,
        ),
    ]


def _most_calls(k: int, n: int) -> int:
    return min(k, 2 * math.ceil((n - k) / 50) + 1) + 2


def _run(command: list[str], simulator: Simulator) -> str:
    done = subprocess.run(command, check=False, env=simulator.environ, cwd=_ROOT, capture_output=True, text=True)
    print(done.stderr, file=sys.stderr)
    if done.returncode:
        raise SystemExit(f"a benchmark's process failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
