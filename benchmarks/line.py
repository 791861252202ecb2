"""The delay that 100 ms between client and AWS adds to starting, attaching to and closing a
cluster. A proxy delays each call, and the first one of a connection twice. *Added* is the
difference of the medians. A round is a set of calls that don't wait for each other; those of a
start count until the first launch. The connection to the scheduler and the hosts have no delay.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.line import Line

from benchmarks import _line_client
from benchmarks._measure import Row, Verdict, in_turn
from terradask_simulator import Simulator
from terradask_simulator.process import deploy_baseline

_ROUND_TRIP_SECONDS = 0.1
_DEPLOY = f"""
from terradask import Workspace
workspace = Workspace.load()
workspace.apply(workspace.plan_cluster({_line_client.NAME!r}, max_workers=10))
"""
_DESTROY = f"""
from terradask import Workspace
Workspace.load().destroy_cluster({_line_client.NAME!r})
"""
_SET = "autoscaling:SetDesiredCapacity"

#: What the line may add, in seconds.
_LIMITS = {
    "start until the first host is asked for": 0.7,
    "attach": 0.5,
    "close": 0.5,
    "close until all groups are at zero": 0.5,
}


class _Client:
    """A client's process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _line_client.__name__],
            env=environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def do(self, step: str) -> dict[str, float]:
        """Return when a step began and was done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(step, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("{"):
                done: dict[str, float] = json.loads(line)
                return done
        raise SystemExit(f"a benchmark's process ended with {self._process.wait()}")

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


class _Life:
    """A cluster's start, a second client's attachment, and its end; each figure by its name."""

    def __init__(self, simulator: Simulator, line: Line) -> None:
        self._simulator = simulator
        self._line = line
        self.figures: dict[str, list[float]] = {}

    def run(self) -> float:
        """Run it once, and return the seconds of all steps."""
        environ = self._line.environ({**os.environ, **self._simulator.environ})
        with _client(environ) as owner:
            start = self._step(owner, "start")
            self._note("start until the first host is asked for", self._asked(start)[0])
            with _client(environ) as guest:
                attach = self._step(guest, "attach")
                guest.do("close")
            close = self._step(owner, "close")
            self._note("close until all groups are at zero", self._asked(close)[-1])
        return sum(step["done"] - step["began"] for step in (start, attach, close))

    def _step(self, client: _Client, name: str) -> dict[str, float]:
        self._simulator.reset_calls()
        self._line.calls()
        done = client.do(name)
        self._note(name, done["done"] - done["began"])
        calls = self._line.calls()
        # How often a start looks for its scheduler is a matter of the host.
        first = min((call.round for call in calls if call.action in _SET), default=0)
        last = first if name == "start" else max(call.round for call in calls)
        self._note(f"{name}: calls", sum(call.round <= last for call in calls))
        self._note(f"{name}: rounds", last)
        return done

    def _asked(self, step: Mapping[str, float]) -> list[float]:
        log = self._simulator.call_log()
        return [call["seconds"] - step["began"] for call in log if call["action"] == _SET]

    def _note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


@contextlib.contextmanager
def _client(environ: Mapping[str, str]) -> Iterator[_Client]:
    client = _Client(environ)
    try:
        yield client
    finally:
        client.close()


def _python(simulator: Simulator, code: str) -> None:
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **simulator.environ}, check=True
    )


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Measure with and without the line in turn, on one deployed cluster."""
    with (
        Simulator.start() as simulator,
        Line(simulator.endpoint_url, 0.0) as short,
        Line(simulator.endpoint_url, _ROUND_TRIP_SECONDS) as line,
    ):
        with simulator.skew_clock(-3600, refusing=False):
            deploy_baseline(simulator.environ)
            _python(simulator, _DEPLOY)
        near, far = _Life(simulator, short), _Life(simulator, line)
        in_turn(runs, near=near.run, far=far.run)
        _python(simulator, _DESTROY)
    # The first one warms up.
    rows = {
        f"{name}{words}": Row(f"{name}{words}", figures[1:], *unit)
        for life, words in ((near, ""), (far, ", with the line"))
        for name, figures in life.figures.items()
        for unit in [("",) if name.partition(": ")[2] else ()]
        # Over no distance, rounds say nothing.
        if life is far or not unit
    }
    added = [
        Verdict(
            f"added: {name}",
            rows[f"{name}, with the line"].median - rows[name].median,
            limit,
            " s",
        )
        for name, limit in _LIMITS.items()
    ]
    return list(rows.values()), added
