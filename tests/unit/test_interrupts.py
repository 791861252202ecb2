"""A Ctrl-C shows two lines: what was taken back, and what is left, with the command for it."""

from __future__ import annotations

import asyncio
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from distributed.core import Status

from terradask._common.progress import (
    PhaseFinished,
    ProgressEvent,
    ResourceChanged,
    phase,
    silent,
)
from terradask._dask.ending import Ending
from terradask._dask.lifecycle import Lifecycle
from terradask._dask.live import LiveCluster
from terradask._dask.rollback import Made, Origin, note_not_begun
from terradask._terraform.events import CommandOutput, ResourceProgress
from terradask._terraform.terraform import Terraform
from terradask.cli import command, run
from terradask.cli._progress import ProgressLines
from terradask.errors import NoCapacity, TerraformCancelled
from terradask_modules.short_errors import explain_interrupt
from terradask_modules.tracebacks import short_text


class Etl:
    """A deployment and its workspace, whose ending fails with an error, if one is given."""

    name = "etl"

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.groups = SimpleNamespace(zero=lambda: None)

    def with_progress(self, _progress: object) -> Etl:
        return self

    def stop(self) -> None:
        if self.error is not None:
            raise self.error

    def destroy_cluster(self, _name: str) -> None:
        self.stop()

    def mark_closing(self) -> None:
        pass


def rolled_back(
    error: BaseException, origin: Origin, second: BaseException | None = None, **fields: Any
) -> str:
    etl = cast("Any", Etl(second))
    made = Made(etl, etl, origin, **fields)
    made.roll_back_after(error, silent)
    # Later calls change nothing.
    made.roll_back_after(error, silent)
    return short_text(type(error), error, error.__traceback__) or ""


@pytest.mark.parametrize(
    ("origin", "fields", "lines"),
    [
        (
            "created",
            {},
            ["the deployment of cluster 'etl' was rolled back", "left: nothing of it"],
        ),
        (
            "started",
            {},
            [
                "the start of cluster 'etl' was rolled back",
                "left: its deployment, stopped. To start it: terradask start etl",
            ],
        ),
        (
            "attached",
            {},
            [
                "nothing of cluster 'etl' had been made or started",
                "left: what there was before",
            ],
        ),
        (
            "attached",
            {"is_others": True},
            [
                "nothing was changed",
                "left: cluster 'etl', which runs on. To end it: terradask stop etl",
            ],
        ),
    ],
)
def test_a_creation_shows_what_was_taken_back_and_what_is_left(
    origin: Origin, fields: dict[str, Any], lines: list[str]
) -> None:
    shown = rolled_back(KeyboardInterrupt(), origin, **fields)
    assert shown == "interrupted: {}\n  {}\n".format(*lines)


@pytest.mark.parametrize(("origin", "verb"), [("created", "destroy"), ("started", "stop")])
def test_a_second_ctrl_c_names_the_command(origin: Origin, verb: str) -> None:
    shown = rolled_back(KeyboardInterrupt(), origin, KeyboardInterrupt())
    assert shown == (
        "interrupted: cluster 'etl' is rolled back only in part (interrupted)\n"
        f"  left: the rest of it. To remove it: terradask {verb} etl\n"
    )


def test_a_ctrl_c_during_a_rollback_keeps_the_first_error() -> None:
    first, second = NoCapacity("no machines"), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        rolled_back(first, "created", second)
    assert (short_text(KeyboardInterrupt, caught.value, None) or "").splitlines() == [
        "interrupted: cluster 'etl' is rolled back only in part (interrupted)",
        "  left: the rest of it. To remove it: terradask destroy etl",
        "  before that: NoCapacity: no machines",
    ]


@pytest.mark.parametrize("error", [SystemExit(143), asyncio.CancelledError()])
def test_what_a_failed_rollback_leaves_is_logged_where_the_error_may_not_be_shown(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    rolled_back(error, "created", OSError("no network"))
    (text,) = caplog.messages
    assert "etl" in text
    assert "(no network)" in text
    assert text.endswith("terradask destroy etl")


def test_a_rollback_in_order_is_logged_at_a_signal_alone(caplog: pytest.LogCaptureFixture) -> None:
    rolled_back(SystemExit(143), "created")
    assert caplog.messages == ["The deployment of cluster 'etl' was rolled back."]
    rolled_back(asyncio.CancelledError(), "created")
    rolled_back(KeyboardInterrupt(), "created", OSError("no network"))
    assert len(caplog.messages) == 1


def test_what_a_second_ctrl_c_has_shown_is_not_logged_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    etl = cast("Any", Etl())
    made = Made(etl, etl, "created")

    def interrupted_again() -> None:
        made.note_unfinished(KeyboardInterrupt())
        # The loop cancels its tasks as it ends.
        made.note_unfinished(asyncio.CancelledError())
        raise OSError("the process ends")

    etl.stop = interrupted_again
    made.roll_back_after(asyncio.CancelledError(), silent)
    assert caplog.messages == []


def explained(status: Status, **fields: Any) -> str:
    lifecycle = Lifecycle.__new__(Lifecycle)
    values = {
        "health": SimpleNamespace(name="etl", status=status),
        "provisioned": SimpleNamespace(origin="created"),
        "shutdown_on_close": True,
        "is_made": True,
        "_stops": False,
        "_is_ended": False,
        "_ending": None if fields.get("shutdown_on_close", True) else False,
        **fields,
    }
    for name, value in values.items():
        setattr(lifecycle, name, value)
    with pytest.raises(KeyboardInterrupt) as caught, lifecycle.interruptions_explained():
        raise KeyboardInterrupt
    return short_text(KeyboardInterrupt, caught.value, None) or ""


def test_calls_of_an_open_cluster_show_what_goes_on() -> None:
    assert explained(Status.running) == (
        "interrupted: nothing was taken back\n"
        "  left: cluster 'etl', until it is closed or this program ends\n"
    )
    assert "until it is stopped" in explained(Status.running, shutdown_on_close=False)
    of_etl: Any = SimpleNamespace(deployment=SimpleNamespace(name="etl"))
    under_way = Ending(of_etl, "destroy", of_etl)
    ending = explained(Status.closing, _ending=under_way)
    assert "cluster 'etl' goes on ending" in ending
    assert ending.endswith("interrupted too, what runs of it. To end it: terradask destroy etl\n")
    under_way.is_zero = True
    ending = explained(Status.closing, _ending=under_way)
    under_way.leave()
    assert "its deployment; its hosts end by themselves. To end it: terradask destroy" in ending
    assert "nothing was changed" in explained(Status.closing, shutdown_on_close=False)
    ended = explained(Status.closing, _is_ended=True, how_ended="its deployment stays")
    assert ended.endswith("left: cluster 'etl' has ended: its deployment stays\n")
    # The rollback explains these.
    assert explained(Status.running, is_made=False) == ""


def test_an_explained_ctrl_c_pickles() -> None:
    error = KeyboardInterrupt()
    note_not_begun(error, "etl")
    again = pickle.loads(pickle.dumps(error))
    assert short_text(KeyboardInterrupt, again, None) == short_text(KeyboardInterrupt, error, None)


def test_other_errors_get_no_explanation() -> None:
    error = SystemExit(143)
    explain_interrupt(error, "a", "b")
    assert short_text(SystemExit, error, None) is None


def test_a_script_ends_by_the_signal_with_two_lines() -> None:
    program = (
        "import terradask\nfrom terradask_modules.short_errors import explain_interrupt\n"
        "error = KeyboardInterrupt()\nexplain_interrupt(error, 'a\\x1b[2J', 'b')\nraise error"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr == "interrupted: a\N{REPLACEMENT CHARACTER}[2J\n  left: b\n"


def test_a_third_ctrl_c_that_python_ignores_shows_the_lines_once() -> None:
    program = (
        "import terradask\nfrom terradask_modules.short_errors import explain_interrupt\n"
        "class Owner:\n    def __del__(self):\n        raise KeyboardInterrupt\n"
        "try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt as error:\n"
        "    explain_interrupt(error, 'a', 'b')\n    Owner()\n    raise"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr == "interrupted: a\n  left: b\n"


@pytest.mark.parametrize(
    ("error", "is_interrupted"),
    [
        (KeyboardInterrupt(), True),
        (SystemExit(143), True),
        (InterruptedError("cancelled"), True),
        (TerraformCancelled("cancelled"), True),
        (NoCapacity("none"), False),
    ],
)
def test_interrupted_is_not_failed(error: BaseException, *, is_interrupted: bool) -> None:
    events: list[ProgressEvent] = []
    with pytest.raises(type(error)), phase(events.append, "plan", "etl"):
        raise error
    ended = events[-1]
    assert isinstance(ended, PhaseFinished)
    assert (ended.failed, ended.interrupted) == (True, is_interrupted)
    states: list[str] = []
    widget = SimpleNamespace(update=lambda view: states.append(view.state))
    live = LiveCluster("etl", cast("Any", widget), cast("Any", None), cast("Any", None), True)
    with pytest.raises(type(error)), live.drawn_during_creation():
        raise error
    assert states == ["interrupted" if is_interrupted else "failed"]


def test_a_resource_that_terraform_drops_when_it_stops_is_interrupted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events: list[ProgressEvent] = []
    lines = [
        {"type": kind, "hook": {"resource": {"addr": "aws_x.y"}, "action": "create"}}
        for kind in ("apply_start", "apply_errored")
    ]
    runner: Any = SimpleNamespace(
        program=SimpleNamespace(name="Terraform"),
        on_wait=lambda _text: None,
        on_event=ResourceProgress(events.append, "etl"),
    )
    for stops in (False, True):
        output = CommandOutput(1.0)
        Terraform._take_line(runner, json.dumps(lines[0]), output)
        if stops:
            Terraform._note_stop(runner, output)
        Terraform._take_line(runner, json.dumps(lines[1]), output)
        assert output.creating == {}
    states = [each.state for each in events if isinstance(each, ResourceChanged)]
    assert states == ["started", "failed", "started", "interrupted"]
    ProgressLines()(events[-1])
    assert capsys.readouterr().err == "  etl: create aws_x.y interrupted\n"


def interrupting(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    found = command.get_command(click.Context(command), "completion")
    monkeypatch.setattr(found, "callback", lambda **_: act())


def test_the_command_line_shows_the_same_two_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        error = KeyboardInterrupt()
        note_not_begun(error, "etl")
        raise error

    interrupting(monkeypatch, act)
    assert run(["completion", "bash"]) == 130
    assert capsys.readouterr().err.strip().splitlines() == [
        "interrupted: nothing of cluster 'etl' had been made or started",
        "  left: what there was before",
    ]


def test_a_cancelled_terraform_is_interrupted_with_its_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        raise TerraformCancelled("apply has stopped cleanly", advice="run it again")

    interrupting(monkeypatch, act)
    assert run(["completion", "bash"]) == 130
    shown = capsys.readouterr().err
    assert shown == "interrupted: apply has stopped cleanly\n  to do: run it again\n"


def test_json_has_both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def act() -> None:
        error = KeyboardInterrupt()
        explain_interrupt(error, "a", "b")
        raise error

    found = command.get_command(click.Context(command), "list")
    monkeypatch.setattr(found, "callback", lambda **_: act())
    assert run(["list", "--json"]) == 130
    document = json.loads(capsys.readouterr().err.strip().splitlines()[-1])
    assert document == {
        "error": "Interrupted",
        "problem": "interrupted: a\nleft: b",
        "advice": None,
    }
