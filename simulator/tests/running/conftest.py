"""Fixtures of the tests that start the simulator."""

from __future__ import annotations

from typing import Any

import pytest
from tests.small_network import network

from .own_groups import own_groups

__all__ = ["network"]


@pytest.fixture(scope="module")
def template(network: Any) -> str:
    return network.template()


@pytest.fixture
def make(network: Any, template: str, request: pytest.FixtureRequest):
    with own_groups(network, template, request.node.name) as make:
        yield make
