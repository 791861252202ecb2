"""What gp3 volumes cost: storage, and throughput and IOPS above what is free. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from terradask._pricing.prices import PriceKey, Product

#: What gp3 has without a further charge: https://aws.amazon.com/ebs/pricing
_FREE_IOPS, _FREE_MIBPS = 3000, 125
_MIBPS_OF_A_GIBPS = 1024


@dataclass(frozen=True)
class Volumes:
    """gp3 volumes, together."""

    gib: int = 0
    #: Throughput above what is free.
    mibps: int = 0
    #: IOPS above what is free.
    iops: int = 0

    def parts(self, region: str) -> tuple[tuple[PriceKey, Decimal], ...]:
        """Return what they are made of."""
        amounts: dict[Product, Decimal] = {
            "gp3-storage": Decimal(self.gib),
            "gp3-throughput": Decimal(self.mibps) / _MIBPS_OF_A_GIBPS,
            "gp3-iops": Decimal(self.iops),
        }
        return tuple(
            (PriceKey(product, region), amount) for product, amount in amounts.items() if amount
        )


def gp3_volume(gib: int, described: Mapping[str, Any]) -> Volumes:
    """Return one volume, as EC2 describes its throughput and IOPS or leaves them out."""
    return Volumes(
        int(gib),
        max((described.get("Throughput") or 0) - _FREE_MIBPS, 0),
        max((described.get("Iops") or 0) - _FREE_IOPS, 0),
    )


def sum_of(volumes: Iterable[Volumes]) -> Volumes:
    """Return volumes together."""
    found = list(volumes)
    return Volumes(
        sum(each.gib for each in found),
        sum(each.mibps for each in found),
        sum(each.iops for each in found),
    )
