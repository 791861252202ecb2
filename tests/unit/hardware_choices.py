"""Choices out of the known catalog, and what is compared of them."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._catalog.instance_types.choose import Choice, choose
from terradask._catalog.instance_types.model import Supply
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_facts import catalog, prices


def chosen(*, zones: Any = None, markets: Any = ("on-demand",), **ask: Any) -> Choice:
    supply = Supply.of(catalog(), prices(), zones=zones, markets=markets)
    return choose(HardwareRequest.of(**ask), supply)


def refused(error: type[Exception], **ask: Any) -> Any:
    with pytest.raises(error) as caught:
        chosen(**ask)
    return caught.value


def shapes(choice: Choice) -> set[tuple[int, float]]:
    return {(one.type.vcpus, one.type.memory_gib) for one in choice.types}


def families(choice: Choice) -> set[str]:
    return {one.type.series for one in choice.types}
