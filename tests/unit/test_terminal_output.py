"""Tables that fit a terminal, and colours that a user may not want."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from terradask._common.clock import age_text
from terradask._common.colour import painted
from terradask._common.progress import PhaseFinished
from terradask._common.text_table import labelled, table
from terradask.cli._progress import ProgressLines

HEADS = ("name", "state", "region", "owner", "reason")
ROWS = [
    (
        "nightly-etl",
        "running",
        "us-east-1",
        "research/ada@example.com",
        "no capacity in us-east-1a",
    ),
    ("bi", "stopped", "eu-central-1", "bi", None),
]


def test_without_a_width_a_table_is_whole() -> None:
    assert table(HEADS, ROWS).splitlines()[0].split() == [head.upper() for head in HEADS]
    assert "no capacity in us-east-1a" in table(HEADS, ROWS)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_in_a_terminal_columns_are_left_out_and_no_word_is_broken(width: int) -> None:
    lines = table(HEADS, ROWS, width=width).splitlines()
    assert max(map(len, lines)) <= width
    words = {word for row in (HEADS, *ROWS) for cell in row for word in str(cell).lower().split()}
    of_note = {"too", "narrow", "for", "--json", "has", "them", "-"}
    shown = {word.strip(",:") for line in lines for word in line.lower().split()}
    assert shown <= words | of_note


def test_what_is_left_out_is_named_and_the_reason_stays() -> None:
    shown = table(HEADS, ROWS, width=60)
    assert "too narrow for OWNER: --json has them" in shown
    assert "REASON" in shown
    assert table(HEADS, ROWS, width=200) == table(HEADS, ROWS)
    assert table(("a",), [("x" * 50,)], width=20).splitlines()[1] == "x" * 50


def test_facts_fit_a_terminal_and_are_a_line_each_without_one() -> None:
    text = "AWS launches 1 of 3 workers, and no more now: InsufficientInstanceCapacity"
    facts = [("problem", text), ("owner", None), ("state", "running")]
    assert labelled(facts) == f"problem    {text}\nstate      running"
    lines = labelled(facts, width=50).splitlines()
    assert max(map(len, lines)) <= 50
    assert [line[:11].strip() for line in lines] == ["problem", "", "state"]
    assert " ".join(line[11:] for line in lines[:-1]) == text


@pytest.mark.parametrize(
    ("seconds", "text", "with_tenths"),
    [
        (0, "0 s", "0.0 s"),
        (8.25, "8 s", "8.2 s"),
        (59.4, "59 s", "59.4 s"),
        (59.6, "1 min 00 s", "1 min 00 s"),
        (256, "4 min 16 s", "4 min 16 s"),
        (3599.6, "1 h 00 min", "1 h 00 min"),
        (90_060, "25 h 01 min", "25 h 01 min"),
    ],
)
def test_a_duration_has_no_more_than_sixty_seconds(
    seconds: float, text: str, with_tenths: str
) -> None:
    assert age_text(seconds) == text
    assert age_text(seconds, tenths=True) == with_tenths


def test_a_long_phase_has_its_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds in (8.3, 123.4):
        ProgressLines()(PhaseFinished("apply", "etl", seconds))
    ends = [line.partition("done")[2] for line in capsys.readouterr().err.splitlines()]
    assert ends == ["    8.3 s", "  2 min 03 s"]


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert painted("ok", fg="green") == "\x1b[32mok\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("ok", fg="green") == "ok"


SCRIPT = """
from terradask.cli._output import message, styled, table, result
from terradask.cli._plan import show
from tests.unit.report_data import report
message(styled("done", fg="green"))
result(table(("name", "owner", "reason"), [("etl", "o" * 60, "no capacity for a long time now")]))
show(report())
"""


def in_a_terminal(script: str, no_color: str = "") -> str:
    """Return what a script prints to a terminal of 80 columns."""
    master, slave = pty.openpty()
    environ = {**os.environ, "NO_COLOR": no_color, "COLUMNS": "80", "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=slave, stderr=slave, env=environ
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65_536)
            except OSError:
                # Linux's end of a terminal.
                break
            if not part:
                break
            shown += part
    os.close(master)
    assert process.returncode == 0, shown.decode()
    return shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_of_eighty_columns(no_color: str) -> None:
    """Through a pseudo-terminal, as a person has it."""
    text = in_a_terminal(SCRIPT, no_color).replace("\r\n", "\n")
    coloured = re.search(r"\x1b\[[0-9;]*3[0-7]m", text) is not None
    assert coloured != bool(no_color)
    if no_color:
        # Bold is no colour.
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert max(map(len, text.splitlines())) <= 80
        assert "too narrow for OWNER" in text
        assert "needs review" in text.rstrip().splitlines()[-1]


WAITS = """
import time
from terradask.cli import _output
_output._WAITING_SECONDS = 0.05
with _output.waiting("reading the clusters"):
    time.sleep(0.4)
    _output.message("a message")
    time.sleep(0.2)
_output._WAITING_SECONDS = 60
with _output.waiting("so quick"):
    _output.result("a result")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_shows_what_is_waited_for_until_something_is_printed() -> None:
    shown = in_a_terminal(WAITS)
    line = "reading the clusters ... 0 s"
    assert shown.count("reading") == 1
    assert f"\r{line}\r{' ' * len(line)}\ra message" in shown
    assert "so quick" not in shown
    assert shown.endswith("a result\r\n")
    alone = subprocess.run(
        [sys.executable, "-c", WAITS], check=True, capture_output=True, text=True
    )
    assert (alone.stdout, alone.stderr) == ("a result\n", "a message\n")
