"""The time from `submit` to the first launch call: `adapt()` of a cluster without workers, compared
with Dask's `Adaptive`, which runs in the client's process and ends with it. Work arrives at a
random time within the candidate's interval, so the median includes half of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _launch_client, peer
from benchmarks._measure import Row, Verdict, in_turn
from benchmarks.scaling import deploy
from terradask_simulator import Simulator

_ROOT = Path(__file__).parents[1]
_EC2_CLIENT = Path(__file__).with_name("_ec2_launch_client.py")

#: A median of few runs says more of when work came than of who launches.
_RUNS_EACH = 3

_NAMES = {
    "host": "terradask, on the scheduler's host, every 1 s",
    "default": "terradask, on the scheduler's host, every 5 s (default)",
    "client": "Dask's Adaptive in the client of the same cluster, every 1 s (default)",
    "ec2": "EC2Cluster.adapt(), every 1 s (default)",
}


class _Process:
    """A client's process, which measures once for each line that it gets."""

    def __init__(self, command: Sequence[str | Path], environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def seconds(self, candidate: str) -> float:
        """Return the seconds of one run of a candidate."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(candidate, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("{"):
                return float(json.loads(line)["seconds"])
        raise SystemExit(f"a benchmark's process ended with {self._process.wait()}")

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Measure each candidate in turn, on one embedded AWS.

    Raises
    ------
    NotMeasured
        dask-cloudprovider can't be installed here.
    """
    python = peer.environment()
    with Simulator.start(baseline=True) as simulator, simulator.hollow_hosts():
        deploy(simulator)
        environ = {**os.environ, **simulator.environ}
        ec2: list[str | Path] = [python, _EC2_CLIENT, json.dumps(peer.given(simulator))]
        with (
            contextlib.closing(
                _Process([sys.executable, "-m", _launch_client.__name__], environ)
            ) as ours,
            contextlib.closing(_Process(ec2, environ)) as theirs,
        ):
            found = in_turn(
                _RUNS_EACH * runs,
                **{name: _candidate(ours, name) for name in _launch_client.CANDIDATES},
                ec2=_candidate(theirs, "ec2"),
            )
    rows = [Row(_NAMES[name], row.runs) for name, row in found.items()]
    return rows, [
        Verdict(
            "terradask / Dask's Adaptive, both every 1 s",
            found["host"].median / found["client"].median,
            1.5,
            " x",
        ),
        Verdict("terradask's default, the slowest", max(found["default"].runs), 7, " s"),
    ]


def _candidate(process: _Process, name: str) -> Any:
    return lambda: process.seconds(name)
