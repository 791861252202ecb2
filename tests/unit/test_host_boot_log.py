"""The boot's output reaches the host's log stream: once, whole, and also after a restart."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from terradask_host.agent.logs import MOST_BOOT_BYTES, BootLog, HostLog, mark_line
from terradask_host.config import Paths

from ..waiting import eventually

END = "Cloud-init v. 22.2.2 finished at Tue, 24 Nov 2026 08:00:00 +0000. Up 20.5 seconds\n"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(tmp_path)
    made.boot_output.parent.mkdir(parents=True)
    made.state.mkdir(parents=True)
    return made


def shipped(log: HostLog) -> list[str]:
    return [line for _, line in log.take()]


def coming(log: HostLog, number: int) -> list[str]:
    """Wait for so many lines."""
    lines: list[str] = []

    def are_there() -> bool:
        lines.extend(shipped(log))
        return len(lines) >= number

    eventually(are_there)
    return lines


def test_lines_are_shipped_as_they_come_until_cloud_init_has_ended(paths: Paths) -> None:
    stream = io.StringIO()
    log = HostLog(stream)
    paths.boot_output.write_text("Cloud-init v. 22.2.2 running\nterradask-boot: here\nha")
    boot = BootLog(paths, log, pause_seconds=0.01)
    assert coming(log, 2) == [
        "cloud-init: Cloud-init v. 22.2.2 running",
        "terradask-boot: here",
    ]
    with paths.boot_output.open("a") as output:
        output.write(f"lf\n{END}")
    assert coming(log, 2) == ["cloud-init: half", f"cloud-init: {END.rstrip()}"]
    boot._thread.join(5.0)
    assert not boot._thread.is_alive()
    # The journal has it already, and a failure's last lines are the program's own.
    assert stream.getvalue() == ""
    assert log.tail() == []


def test_a_program_that_is_started_again_ships_what_is_new(paths: Paths) -> None:
    paths.boot_output.write_text("one\n")
    first = HostLog(io.StringIO())
    BootLog(paths, first, pause_seconds=0.01).close()
    assert shipped(first) == ["cloud-init: one"]
    paths.boot_output.write_text("one\ntwo\n")
    second = HostLog(io.StringIO())
    BootLog(paths, second, pause_seconds=0.01).close()
    assert shipped(second) == ["cloud-init: two"]


def test_an_endless_output_ends(paths: Paths) -> None:
    paths.boot_output.write_text("x" * 99 + "\n" + "y" * MOST_BOOT_BYTES + "\nend\n")
    log = HostLog(io.StringIO())
    boot = BootLog(paths, log, pause_seconds=0.01)
    boot._thread.join(5.0)
    assert not boot._thread.is_alive()
    assert shipped(log) == ["cloud-init: " + "x" * 99]
    paths.boot_output_shipped.write_text(str(MOST_BOOT_BYTES + 1))
    BootLog(paths, log, pause_seconds=0.01).close()
    assert shipped(log) == []


def test_an_output_that_cant_be_read_is_said(paths: Paths) -> None:
    log = HostLog(io.StringIO())
    BootLog(paths, log, pause_seconds=0.01).close()
    (line,) = log.tail()
    assert line.startswith("terradask-host: the boot's output can't be shipped: ")
    assert "No such file" in line


def test_each_line_says_which_program_it_is_from() -> None:
    assert mark_line("terradask-boot: x") == "terradask-boot: x"
    assert mark_line("x") == "cloud-init: x"
    assert mark_line("") == ""
