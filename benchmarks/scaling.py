"""Scaling to 1, 10, 100 and 1,000 simulated workers and back to zero: real Dask workers with mutual
TLS, a hundred in a process. Polling calls read the groups, their scaling activities and the hosts'
reports; the figure is the maximum in any window. The three calls that postpone polling aren't
counted.
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
    """Deploy the cluster in another process, so that the client's memory doesn't include what
    Terraform needs.
    """
    _run([sys.executable, "-c", _DEPLOY], simulator)


def scale(simulator: Simulator, *arguments: str) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Run the client and return its figures: those of attaching, and one dictionary for
    each size.
    """
    printed = _run([sys.executable, "-m", "benchmarks._wide_client", *arguments], simulator)
    attached, *sizes = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return attached["attached"], sizes


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Scale up and down once; counts don't vary."""
    del runs
    with Simulator.start(baseline=True) as simulator, simulator.hollow_hosts():
        deploy(simulator)
        attached, sizes = scale(simulator, *map(str, _SIZES))
    rows, removals = _polling("attaching: ", attached), []
    for one in sizes:
        n, grown = one["n"], one["grown"]
        rows += [
            Row("until n workers have joined", [grown["joined_seconds"]], n=n),
            Row("AWS calls until 10 s later", [grown["calls"]], "calls", n=n),
            Row("scale(n) itself", [grown["scale_ms"]], "ms", n=n),
            *_polling("", grown, n),
            Row("the client's memory", [grown["memory_mib"]], "MiB", n=n),
        ]
        for gone in one["removed"]:
            what = f"removing {gone['k']:,} of {gone['n']:,} by name"
            rows.append(Row(f"{what}, writing calls", [gone["writing"]], "calls"))
            rows.append(Row(f"{what}, polling calls meanwhile", [gone["reading"]], "calls"))
            removals.append(gone["writing"] + gone["reading"] - _most_calls(gone["k"], gone["n"]))
        rows.append(
            Row(
                f"{one['emptied']['n']:,} -> 0 workers, writing calls",
                [one["emptied"]["writing"]],
                "calls",
            )
        )
    return rows, [
        Verdict(
            "scale() itself, the slowest",
            max(max(one["grown"]["scale_ms"], one["emptied"]["scale_ms"]) for one in sizes),
            100,
            " ms",
        ),
        Verdict(
            "the client's memory, the most",
            max(one["grown"]["memory_mib"] for one in sizes),
            300,
            " MiB",
        ),
        Verdict("writing calls up, the most", max(one["grown"]["writing"] for one in sizes), 3),
        Verdict(
            "writing calls to zero, the most", max(one["emptied"]["writing"] for one in sizes), 3
        ),
        Verdict(
            "calls that remove k of N, polling included, beyond k + 2 or 2 ceil((N-k)/50) + 1 + 4",
            max(removals),
            0,
        ),
        *(
            Verdict(
                f"polling calls in any {seconds} s, the most",
                max(each[f"polls_in_{seconds}_s"] for each in (attached, *_grown(sizes))),
                most,
            )
            for seconds, most in ((1, 2), (5, 10))
        ),
    ]


def _grown(sizes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["grown"] for one in sizes]


def _polling(what: str, figures: dict[str, Any], n: int | None = None) -> list[Row]:
    return [
        Row(
            f"{what}polling calls in the busiest {seconds} s",
            [figures[f"polls_in_{seconds}_s"]],
            "calls",
            n=n,
        )
        for seconds in (1, 5)
    ]


def _most_calls(k: int, n: int) -> int:
    # AWS takes a smaller number at once and chooses its instances later: the groups are read until
    # it has chosen, before the protection of those that stay is taken back.
    return min(k + 2, 2 * math.ceil((n - k) / 50) + 1 + 4)


def _run(command: list[str], simulator: Simulator) -> str:
    done = subprocess.run(
        command, check=False, env=simulator.environ, cwd=_ROOT, capture_output=True, text=True
    )
    print(done.stderr, file=sys.stderr)
    if done.returncode:
        raise SystemExit(f"a benchmark's process failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
