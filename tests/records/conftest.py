"""One embedded AWS for each file of tests, so that files don't meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from terradask_simulator import Simulator

from .replay import Replayer


@pytest.fixture(scope="module")
def replayer() -> Iterator[Replayer]:
    with Simulator.start(boot_hosts=False) as simulator:
        replayer = Replayer(simulator)
        yield replayer
        replayer.close()
