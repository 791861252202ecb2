"""An embedded AWS whose instances are machines that boot, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .booted_aws import BootedAws, booted_aws
from .system import why_not
from .wires import own_network


@pytest.fixture(scope="session")
def _own_network() -> Iterator[None]:
    """Everything from here on in a network that reaches nothing else."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with own_network():
        yield


@pytest.fixture(scope="session")
def aws(
    _own_network: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BootedAws]:
    """The embedded AWS with the network deployed."""
    # Only now: its relay has to be in the same network.
    provider = request.getfixturevalue("quick_provider")
    with booted_aws(provider, tmp_path_factory.mktemp("boot")) as made:
        yield made
