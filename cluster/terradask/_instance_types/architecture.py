"""One processor architecture for all hosts of a cluster: they share one environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from terradask.errors import ArgumentCombination

if TYPE_CHECKING:
    from terradask._instance_types.model import Catalog
    from terradask_stacks.hardware.request import HardwareRequest


def with_one_architecture(
    requests: Mapping[str, HardwareRequest], catalog: Catalog
) -> dict[str, HardwareRequest]:
    """Let all groups ask for ARM if one names such types. Raises `ArgumentCombination`."""
    named: dict[str, list[str]] = {"arm64": [], "x86_64": []}
    options: dict[str, None] = {}
    for request in requests.values():
        for one in (catalog.types[name] for name in request.vm_types if name in catalog.types):
            named[one.architecture].append(f"{one.name} ({request.option('vm_types')})")
            options[request.option("vm_types")] = None
    if all(named.values()):
        raise ArgumentCombination(
            [*options],
            (
                "types for ARM and for x86-64 are named: all hosts of a cluster have one "
                "architecture, since they share one environment"
            ),
            given=f"ARM: {', '.join(named['arm64'])}; x86-64: {', '.join(named['x86_64'])}",
            allowed="types for one architecture, of the scheduler and of all workers",
            advice="name other types, or make a cluster for each architecture",
        )
    implied = bool(named["arm64"])
    return {
        group: replace(request, arm=True) if implied and request.arm is None else request
        for group, request in requests.items()
    }
