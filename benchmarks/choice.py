"""Choosing among all instance types of us-east-1."""

from __future__ import annotations

import contextlib
import gzip
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import moto

from benchmarks._measure import Row, Verdict, in_turn
from terradask._catalog.instance_types.choose import choose
from terradask._catalog.instance_types.model import Catalog, Supply, read_types
from terradask.errors import NoMatchingType
from terradask_stacks.hardware.request import HardwareRequest

_DATA = Path(moto.__file__).parent / "ec2/resources"
_REPEATS = 20


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Choose for a usual request, for one that excludes nothing, and for one that no type meets."""
    catalog = _catalog()
    prices = {
        name: Decimal(one.vcpus) / 25 + Decimal(one.memory_mib) / 300_000
        for name, one in catalog.types.items()
    }
    supply = Supply.of(catalog, prices)

    def milliseconds(**request: Any) -> Callable[[], float]:
        def once() -> float:
            started = time.perf_counter()
            with contextlib.suppress(NoMatchingType):
                choose(HardwareRequest.of(**request), supply)
            return 1000 * (time.perf_counter() - started)

        return lambda: statistics.median(once() for _ in range(_REPEATS))

    rows = in_turn(
        runs,
        **{
            (
                f"worker_cpu=[2, 8], worker_memory='16 GiB' among {len(catalog.types)} types"
            ): milliseconds(cpu=[2, 8], memory="16 GiB"),
            "worker_cpu='*', worker_memory='*'": milliseconds(cpu="*", memory="*"),
            "worker_gpu=1": milliseconds(gpu=1),
            (
                "worker_cpu=1, worker_memory='32 GiB': nothing fits, the nearest are searched"
            ): milliseconds(cpu=1, memory="32 GiB"),
        },
    )
    for row in rows.values():
        row.unit = "ms"
    *fitting, nothing = (row.median for row in rows.values())
    return list(rows.values()), [
        Verdict("choosing instance types, the slowest request", max(fitting), 50, " ms"),
        Verdict("the same where nothing fits", nothing, 200, " ms"),
    ]


def _catalog() -> Catalog:
    described = json.loads(gzip.decompress((_DATA / "instance_types.json.gz").read_bytes()))
    types = read_types(described.values())
    return Catalog("us-east-1", types, {"us-east-1a": frozenset(types)}, datetime.now(UTC))
