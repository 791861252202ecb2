"""What the tests of records share: `test_<service>.py` is `cases = of("service*.json")` and a call
of `check`.
"""

from __future__ import annotations

import pytest

from .record import Case, files, read
from .replay import Replayer
from .verdict import Replayed


def of(pattern: str) -> pytest.MarkDecorator:
    """Parametrise a test over the cases of the files of a pattern."""
    found = [
        pytest.param(case, id=f"{path.stem}: {case.name}")
        for path in files(pattern)
        for case in read(path).cases
    ]
    assert found, f"no file {pattern} in tests/records/data"
    return pytest.mark.parametrize("case", found)


def check(replayer: Replayer, case: Case) -> None:
    """Fail unless a case is as its file tells."""
    untrue = Replayed(case, replayer.differences(case)).untrue
    assert not untrue, "\n".join([f"{case.name} ({case.at})", *untrue])
