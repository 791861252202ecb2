"""The client whose queued work lets the cluster ``wide`` launch: for each line of its input, a
candidate, it prints the seconds from submitting work to the first call that launches.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from distributed import Client
from distributed.deploy.adaptive import Adaptive

from benchmarks._wide_client import MOST, NAME, asked, until
from terradask import Cluster

#: Scales a cluster inside a block, whose value names the calling role.
Scaled = Callable[[Cluster], AbstractContextManager[str]]

_LAUNCH = "autoscaling:SetDesiredCapacity"
_HOST = "terradask-default-scheduler"
_WORKERS, _TASKS = 8, 100
_BETWEEN: dict[str, Any] = {"minimum": 0, "maximum": _WORKERS}
#: All that a look may find.
_LONGEST_INTERVAL_SECONDS = 5.0


def _scaled_by_host(interval: str) -> Scaled:
    @contextmanager
    def scaled(cluster: Cluster) -> Iterator[str]:
        cluster.adapt(**_BETWEEN, interval=interval)
        yield _HOST
        cluster.stop_adapting()

    return scaled


@contextmanager
def _scaled_by_client(cluster: Cluster) -> Iterator[str]:
    adaptive = Adaptive(cluster, **_BETWEEN)
    yield ""
    adaptive.stop()


#: Each says whose call it is, by the role.
CANDIDATES: dict[str, Scaled] = {
    "host": _scaled_by_host("1s"),
    "default": _scaled_by_host("5s"),
    "client": _scaled_by_client,
}


def _seconds(cluster: Cluster, client: Client, candidate: str) -> float:
    with CANDIDATES[candidate](cluster) as role:
        time.sleep(random.uniform(1.0, 1.0 + _LONGEST_INTERVAL_SECONDS))
        began = time.monotonic()
        futures = client.map(abs, range(_TASKS), pure=False)

        def launches() -> list[float]:
            return [
                call["seconds"]
                for call in asked(f"calls/log?role={role}")
                if call["action"] == _LAUNCH and call["seconds"] > began
            ]

        until(lambda: bool(launches()), "a launch")
        seconds = launches()[0] - began
        client.cancel(futures)
    cluster.scale(0)
    until(lambda: not cluster.requested and not cluster.observed, "no workers are left")
    return seconds


def main() -> None:
    """Measure until the input ends."""
    with (
        Cluster(
            NAME, n_workers=0, max_workers=MOST, wait_for_workers=False, show_widget=False
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        for line in sys.stdin:
            print(json.dumps({"seconds": _seconds(cluster, client, line.strip())}), flush=True)


if __name__ == "__main__":
    main()
