from __future__ import annotations

from .record import Case
from .replay import Replayer
from .replaying import check, of


@of("kms*.json")
def test_as_recorded(replayer: Replayer, case: Case):
    check(replayer, case)
