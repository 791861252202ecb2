"""AWS calls that scaling from 10 to 1,000 workers takes, counted at the embedded AWS, with hosts not booted."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks._measure import Row, Verdict
from terradask_simulator import Simulator

_CODE = """
import asyncio, json, sys
from concurrent.futures import ThreadPoolExecutor
from terradask import Workspace
from terradask._runtime.workers import Workers
from terradask_simulator import Simulator

workspace = Workspace.load()
deployment = workspace.apply(workspace.plan_cluster("wide", max_workers=1000))
calls = {}

class NoScheduler:
    async def workers_to_close(self, **kwargs):
        return []

async def main(mark):
    pool = ThreadPoolExecutor(1)
    call = lambda f, *a: asyncio.get_running_loop().run_in_executor(pool, f, *a)
    workers = Workers(deployment.groups, call)
    for n in (10, 20, 10, 1000, 10):
        before = mark()
        await workers.resize(n, NoScheduler(), [])
        looks = 0
        while len(workers.members) != n:
            await asyncio.sleep(1)
            await workers.mirror()
            looks += 1
        calls.setdefault(str(n), []).append((mark() - before, looks))
    print(json.dumps(calls))

import urllib.request, os
def mark():
    with urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL"] + "/terradask-sim/calls") as answer:
        return sum(json.load(answer).values())
asyncio.run(main(mark))
workspace.destroy_cluster("wide")
"""


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Count the calls; they don't vary, so one run tells."""
    del runs
    with Simulator.start(baseline=True, boot_hosts=False) as simulator:
        done = subprocess.run([sys.executable, "-c", _CODE], check=False, env=simulator.environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the benchmark's process failed:\n{done.stderr}")
    calls = json.loads(done.stdout.strip().splitlines()[-1])
    few, many, fewer = (total - looks for total, looks in (calls["20"][0], calls["1000"][0], calls["10"][-1]))
    rows = [
        Row("AWS calls to scale 10 -> 20", [few], "calls"),
        Row("AWS calls to scale 10 -> 1,000", [many], "calls"),
        Row("AWS calls to scale 1,000 -> 10, exactly those chosen", [fewer], "calls"),
        Row("looks at the group, a second apart, until it showed all 1,000", [calls["1000"][0][1]], "calls"),
    ]
    return rows, [
        Verdict("calls for 10 -> 1,000 beyond those for 10 -> 20", many - few, 0),
        Verdict("calls for 1,000 -> 10", fewer, 10),
    ]
