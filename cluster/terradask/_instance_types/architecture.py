"""One processor architecture for all hosts of a cluster: they share one environment, and one image for each role. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from terradask.errors import ArgumentCombination

if TYPE_CHECKING:
    from terradask._instance_types.model import Catalog
    from terradask_stacks.hardware.ask import HardwareRequest


def with_one_architecture(asks: Mapping[str, HardwareRequest], catalog: Catalog) -> dict[str, HardwareRequest]:
    """Let all groups of a cluster ask for ARM where one of them names types for it.

    Raises
    ------
    ArgumentCombination
        If types of both architectures are named.
    """
    named: dict[str, list[str]] = {"arm64": [], "x86_64": []}
    options: dict[str, None] = {}
    for ask in asks.values():
        for one in (catalog.types[name] for name in ask.vm_types if name in catalog.types):
            named[one.architecture].append(f"{one.name} ({ask.option('vm_types')})")
            options[ask.option("vm_types")] = None
    if all(named.values()):
        raise ArgumentCombination(
            [*options],
            "types for ARM and for x86-64 are named: all hosts of a cluster have one architecture, since they share one environment",
            given=f"ARM: {', '.join(named['arm64'])}; x86-64: {', '.join(named['x86_64'])}",
            allowed="types for one architecture, of the scheduler and of all workers",
            advice="name other types, or make a cluster for each architecture",
        )
    implied = bool(named["arm64"])
    return {group: replace(ask, arm=True) if implied and ask.arm is None else ask for group, ask in asks.items()}
