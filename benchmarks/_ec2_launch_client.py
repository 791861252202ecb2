"""Let an EC2Cluster adapt, and print, for each line of the input, the seconds from submitting work
to the first call that launches; dask-cloudprovider's own Python runs it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

from _ec2_client import StandIn, asked
from dask_cloudprovider.aws import EC2Cluster
from distributed import Client

_LAUNCH = "ec2:RunInstances"
_WORKERS, _TASKS = 8, 100
_PATIENCE_SECONDS = 60.0


async def _seconds(cluster: EC2Cluster, client: Client) -> float:
    adaptive = cluster.adapt(minimum=0, maximum=_WORKERS)
    await asyncio.sleep(random.uniform(1.0, 6.0))
    began = time.monotonic()
    futures = client.map(abs, range(_TASKS), pure=False)
    found: list[float] = []
    while not found:
        if time.monotonic() > began + _PATIENCE_SECONDS:
            raise SystemExit("EC2Cluster launched nothing")
        await asyncio.sleep(0.1)
        found = [
            call["seconds"]
            for call in asked("calls/log")
            if call["action"] == _LAUNCH and call["seconds"] > began
        ]
    adaptive.stop()
    await client.cancel(futures)
    # What it began, it ends first.
    await cluster
    cluster.scale(0)
    await cluster
    return found[0] - began


async def main(given: dict[str, Any]) -> None:
    """Measure until the input ends."""
    cluster = EC2Cluster(asynchronous=True, security=False, n_workers=0, **given)
    cluster.scheduler_class = StandIn
    async with cluster, Client(cluster, asynchronous=True, set_as_default=False) as client:
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps({"seconds": await _seconds(cluster, client)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
