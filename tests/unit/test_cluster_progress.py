"""Progress of making a cluster: what is logged of it, and that a warning is seen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    ProgressEvent,
    ResourceChanged,
    Warned,
    silent,
    warnings_logged,
)
from terradask._dask.progress import ClusterProgress, log_line

EVENTS: list[tuple[ProgressEvent, str]] = [
    (PhaseStarted("plan", "etl"), "etl: planning"),
    (PhaseFinished("plan", "etl", 3.25), "etl: planning took 3.2 s"),
    (PhaseFinished("apply", "etl", 135.25), "etl: applying the plan took 2 min 15 s"),
    (PhaseFinished("plan", "etl", 3.25, failed=True), "etl: plan failed"),
    (
        ResourceChanged("etl", "aws_vpc.main", "create", "finished", 3, 10),
        "etl: create of aws_vpc.main finished, 3 of 10 done",
    ),
    (Message("etl: waiting"), "etl: waiting"),
    (Warned("etl: no price is known"), "etl: no price is known"),
]


@pytest.mark.parametrize(("event", "line"), EVENTS)
def test_a_log_has_events_as_sentences(event: ProgressEvent, line: str) -> None:
    assert log_line(event) == line


_SCRIPT = """
from terradask._common.progress import Message, Warned, silent
from terradask._dask.progress import ClusterProgress
progress = ClusterProgress({function}, silent, lambda: {is_drawn})
progress(Message("etl: waiting"))
progress(Warned("etl: no price is known"))
"""


@pytest.mark.parametrize(
    ("function", "is_drawn", "printed"),
    [("None", False, True), ("None", True, False), ("silent", False, False)],
)
def test_a_script_sees_a_warning_that_nothing_else_shows(
    function: str, is_drawn: bool, printed: bool
) -> None:
    script = _SCRIPT.format(function=function, is_drawn=is_drawn)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == ("etl: no price is known\n" if printed else "")


def test_a_configured_log_has_every_warning(caplog: pytest.LogCaptureFixture) -> None:
    ClusterProgress(silent, silent, lambda: True)(Warned("etl: no price is known"))
    warnings_logged(Warned("network: likely wrong"))
    warnings_logged(Message("passing"))
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "etl: no price is known"),
        ("WARNING", "network: likely wrong"),
    ]
