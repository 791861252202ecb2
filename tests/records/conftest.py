"""One embedded AWS for each file of tests, so that files don't meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from terradask_simulator import Simulator

from ..shape_report import ShapeReport
from .replay import Replayer


@pytest.fixture(scope="module")
def replayer() -> Iterator[Replayer]:
    with Simulator.start(boot_hosts=False) as simulator:
        replayer = Replayer(simulator)
        yield replayer
        replayer.close()


@pytest.fixture(autouse=True)
def shapes_hold(shape_report: ShapeReport) -> Iterator[None]:
    """Let records ask what AWS refuses; answers are checked as in all tests."""
    yield
    found = [each for each in shape_report.take() if each["call"].startswith("answer")]
    if found:
        pytest.fail("\n".join(" ".join(each.values()) for each in found), pytrace=False)
