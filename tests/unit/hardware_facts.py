"""A whole catalog for the tests of hardware: what AWS answered for us-east-1, as moto carries it,
with prices that are made up.
"""

from __future__ import annotations

import functools
import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import moto

from terradask._catalog.instance_types.model import Catalog, InstanceType, read_types

_DATA = Path(moto.__file__).parent / "ec2/resources"


def _load(name: str) -> Any:
    return json.loads(gzip.decompress((_DATA / name).read_bytes()))


@functools.cache
def described() -> dict[str, dict[str, Any]]:
    """AWS's description of each type, by name."""
    return _load("instance_types.json.gz")


@functools.cache
def catalog() -> Catalog:
    zones: dict[str, set[str]] = {}
    for offer in _load("instance_type_offerings/availability-zone/us-east-1.json.gz"):
        zones.setdefault(offer["Location"], set()).add(offer["InstanceType"])
    return Catalog(
        region="us-east-1",
        types=read_types(described().values()),
        zones={zone: frozenset(names) for zone, names in zones.items()},
        fetched_at=datetime(2026, 11, 20, tzinfo=UTC),
    )


@functools.cache
def prices() -> dict[str, Decimal]:
    """Made up, and alike to AWS's in what matters: by size, AMD's and Graviton's below Intel's, a
    little more for what is newer, extras for disks, network and GPUs.
    """
    return {name: _price(one) for name, one in catalog().types.items()}


def _price(one: InstanceType) -> Decimal:
    usd = 0.0337 * one.vcpus + 0.0036 * one.memory_mib / 1024
    usd *= (
        {"a": 0.9, "g": 0.8}.get(one.attributes[:1], 1)
        * (1.15 if one.local_disk_gb else 1)
        * (1.2 if "n" in one.attributes else 1)
    )
    usd *= 1 + one.generation / 50
    if one.gpus is not None:
        usd += 0.4 * one.gpus.count * one.gpus.memory_mib / 16384
    return Decimal(f"{usd * (0.8 if one.burstable else 1):.4f}")
