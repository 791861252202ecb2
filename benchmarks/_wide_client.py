"""The client whose scaling is measured: scales the cluster ``wide`` to each size of its arguments
and back to zero, and prints JSON.

It is a separate process, so that its memory is only the client's.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from tests.call_counts import most_within

from terradask import Cluster
from terradask_simulator.lifecycle import of_this_environment
from terradask_simulator.process import request_control

NAME, MOST = "wide", 1000

#: Size of the cluster -> how many workers are removed by name, one removal after the other.
_REMOVED = {10: (3,), 100: (3, 47), 1000: (10, 490)}
_READING = ("Describe", "Get", "List", "Head")
_IDLE_SECONDS = 10.0
_PATIENCE_SECONDS = 400.0


class Calls:
    """Calls of the client, counted by the embedded AWS."""

    def __init__(self, counts: Counter[str] | None = None) -> None:
        self.counts = counts or Counter()

    @property
    def total(self) -> int:
        """How many calls there were."""
        return self.counts.total()

    @property
    def reading(self) -> int:
        """How many calls only read."""
        return sum(
            count
            for action, count in self.counts.items()
            if action.partition(":")[2].startswith(_READING)
        )

    @property
    def writing(self) -> int:
        """How many calls change something."""
        return self.total - self.reading


def _now() -> Counter[str]:
    # Hosts call with their roles' credentials; calls without a role are this client's.
    return Counter(asked("calls?by=role").get("", {}))


def asked(path: str) -> Any:
    """Return what the embedded AWS tells of itself."""
    info = of_this_environment()
    if info is None:
        raise SystemExit("the environment names no embedded AWS")
    return request_control(info, "GET", path)


@contextlib.contextmanager
def counting() -> Iterator[Calls]:
    """Count the calls of a block."""
    calls, before = Calls(), _now()
    yield calls
    calls.counts = _now() - before


class Log:
    """The client's calls from here on, with their times, as the embedded AWS records them."""

    def __init__(self) -> None:
        self._begin = max((call["seconds"] for call in self._read()), default=0.0)

    @staticmethod
    def _read() -> list[dict[str, Any]]:
        log: list[dict[str, Any]] = asked("calls/log")
        return log

    def polling(self) -> list[float]:
        """Return when the client polled, after it had first set a desired capacity."""
        calls = [call for call in self._read() if call["seconds"] > self._begin]
        asked_at = min(
            call["seconds"] for call in calls if call["action"] == "autoscaling:SetDesiredCapacity"
        )
        polls = (
            "DescribeAutoScalingGroups",
            "DescribeScalingActivities",
            f"{NAME}/hosts/",
        )
        polling = (
            call
            for call in calls
            if any(poll in call["action"] + call["resource"] for poll in polls)
        )
        return [call["seconds"] for call in polling if call["seconds"] > asked_at]


def _fullest(times: list[float]) -> dict[str, int]:
    return {f"polls_in_{seconds}_s": most_within(times, seconds) for seconds in (1, 5)}


def _attach() -> tuple[Cluster, dict[str, int]]:
    log = Log()
    cluster = Cluster(
        NAME, n_workers=0, max_workers=MOST, wait_for_workers=False, show_widget=False
    )
    # The one read of the groups after it has attached is left out.
    return cluster, _fullest(log.polling()[:-1])


def until(condition: Callable[[], bool], what: str) -> float:
    """Wait until a condition is true; return the time of `time.perf_counter` then."""
    end = time.perf_counter() + _PATIENCE_SECONDS
    while not condition():
        if time.perf_counter() > end:
            raise SystemExit(f"not within {_PATIENCE_SECONDS:.0f} s: {what}")
        time.sleep(0.02)
    return time.perf_counter()


def _timed_ms(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - started)


def _request(cluster: Cluster, n: int) -> dict[str, Any]:
    started = time.perf_counter()
    with counting() as calls:
        scale_ms = _timed_ms(lambda: cluster.scale(n))
        requested = until(lambda: len(cluster.requested) == n, f"{n} instances") - started
    return {"scale_ms": scale_ms, "requested_seconds": requested, "calls": calls.total}


def _grow(cluster: Cluster, n: int) -> dict[str, Any]:
    started, log = time.perf_counter(), Log()
    with counting() as calls:
        scale_ms = _timed_ms(lambda: cluster.scale(n))
        cluster.wait_for_workers(n, timeout=_PATIENCE_SECONDS)
        joined = time.perf_counter() - started
        with cluster.get_client() as client:
            assert client.gather(client.map(lambda i: i + 1, range(2 * n), pure=False)) == list(
                range(1, 2 * n + 1)
            )
        time.sleep(_IDLE_SECONDS)
    return {
        "scale_ms": scale_ms,
        "joined_seconds": joined,
        "writing": calls.writing,
        "calls": calls.total,
        "memory_mib": psutil.Process().memory_info().rss / 2**20,
        # Scaling itself reads the groups once before its request and once after; both are left out.
        **_fullest(log.polling()[1:]),
    }


def _remove(cluster: Cluster, k: int) -> dict[str, int]:
    chosen, n = sorted(cluster.observed)[:k], len(cluster.observed)
    with counting() as calls:
        cluster.sync(cluster.scale_down, chosen)
    until(
        lambda: len(cluster.requested) == n - k == len(cluster.observed),
        f"{n - k} workers are left",
    )
    assert not cluster.observed & set(chosen)
    return {"k": k, "n": n, "writing": calls.writing, "reading": calls.reading}


def _empty(cluster: Cluster) -> dict[str, Any]:
    n = len(cluster.requested)
    with counting() as calls:
        scale_ms = _timed_ms(lambda: cluster.scale(0))
        until(lambda: not cluster.requested and not cluster.observed, "no workers are left")
    return {"n": n, "scale_ms": scale_ms, "writing": calls.writing}


def main(arguments: list[str]) -> None:
    """Scale to each size; with ``--requested``, only wait until all instances exist."""
    join = "--requested" not in arguments
    cluster, attached = _attach()
    with cluster:
        print(json.dumps({"attached": attached}), flush=True)
        for n in (int(size) for size in arguments if size.isdigit()):
            grown = _grow(cluster, n) if join else _request(cluster, n)
            removed = [_remove(cluster, k) for k in _REMOVED.get(n, ()) if join]
            print(
                json.dumps(
                    {"n": n, "grown": grown, "removed": removed, "emptied": _empty(cluster)}
                ),
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
