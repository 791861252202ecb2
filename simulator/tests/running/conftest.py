"""Fixtures of the tests that start the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.small_network import network

from .own_groups import maker

__all__ = ["network"]


@pytest.fixture(scope="module")
def template(network: Any) -> str:
    return network.template()


@pytest.fixture(autouse=True)
def _groups_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the groups that a test made."""
    if "network" not in request.fixturenames:
        yield
        return
    network = request.getfixturevalue("network")
    before = network.groups()
    yield
    for name in network.groups() - before:
        network.delete_group(name)


@pytest.fixture
def make(network: Any, template: str, request: pytest.FixtureRequest):
    yield maker(network, template, request.node.name)
    network.sim.allow_capacity()
