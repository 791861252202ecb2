"""Synthesis of the network and one cluster, compared with importing the provider package in the
ordinary way. Each run is a fresh process; times include imports.
"""

from __future__ import annotations

import os
import tempfile

from benchmarks._measure import Row, Verdict, in_turn, seconds_of

_CODE = """
import json, sys, tempfile, time
from pathlib import Path
started = time.perf_counter()
if {ordinary}:
    import cdktf_cdktf_provider_aws
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize
zones = {{f"us-east-1{{zone}}": slot for slot, zone in enumerate("abcdef")}}
types = ["m6i.xlarge"]
lock = LockFile(
    network=NetworkLock(
        account="123456789012", zones=zones, image_ids={{"x86_64": "ami-0123456789abcdef0"}}
    ),
    clusters={{
        "etl": ClusterLock(
            account="123456789012",
            zone="us-east-1a",
            scheduler_instance_types=types,
            worker_instance_types=types,
        )
    }},
)
cache = Path({cache!r}) if {cache!r} else None
with tempfile.TemporaryDirectory() as folder:
    clusters = {{"etl": ClusterSettings()}}
    synthesize(Settings(), lock, out_dir=Path(folder), clusters=clusters, cache_dir=cache)
    print(json.dumps(time.perf_counter() - started), flush=True)
"""


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time synthesis with terradask's import of the bindings, with the ordinary one, and from the
    cache.
    """
    with tempfile.TemporaryDirectory() as cache:

        def run(*, ordinary: bool = False, cached: bool = False) -> float:
            return seconds_of(
                _CODE.format(ordinary=ordinary, cache=cache if cached else ""), dict(os.environ)
            )

        rows = in_turn(
            runs,
            **{
                "synthesis of network and one cluster": run,
                "the same, provider package imported the ordinary way": lambda: run(ordinary=True),
                "the same, synthesised before": lambda: run(cached=True),
            },
        )
    ours, ordinary, _ = (row.median for row in rows.values())
    return list(rows.values()), [
        Verdict("synthesis / synthesis with the ordinary import", ours / ordinary, 0.3, " x")
    ]
