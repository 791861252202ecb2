"""Which instance types can be in a cluster placement group. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from terradask._instance_types.model import Catalog
from terradask.errors import ArgumentCombination
from terradask_stacks.hardware.request import HardwareRequest


def placeable(catalog: Catalog, requests: Mapping[str, HardwareRequest]) -> Catalog:
    """Return a catalog without types that can't be placed so. Raises `ArgumentCombination`."""
    types = {name: one for name, one in catalog.types.items() if one.cluster_placement}
    for request in requests.values():
        wrong = [name for name in request.vm_types if name in catalog.types and name not in types]
        if wrong:
            option = request.option("vm_types")
            raise ArgumentCombination(
                ("placement_group", option),
                "AWS doesn't allow these instance types in a cluster placement group",
                given=f"placement_group = true, {option} = {', '.join(wrong)}",
                allowed="types that aren't burstable, such as m6i.xlarge",
                advice=f"name other types in {option}, or leave placement_group out",
            )
    return replace(
        catalog,
        types=types,
        zones={zone: names & types.keys() for zone, names in catalog.zones.items()},
    )
