"""A cluster's live view: what its widget is told while the cluster is made, and who draws."""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from rich.console import Console

from terradask._common.progress import (
    LaunchPlanned,
    Message,
    PhaseFinished,
    PhaseStarted,
    PlannedHosts,
    ProgressEvent,
    ResourceChanged,
    Warned,
)
from terradask._dask.arguments import ClusterArguments
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.live import LiveCluster, live_cluster
from terradask._dask.widgets import (
    LinesWidget,
    NotebookWidget,
    OwnWidget,
    TerminalWidget,
    default_widget,
)
from terradask._observe.live_view import LiveView, Price
from terradask._observe.making import Making

from ..waiting import eventually


class Frames:
    """A widget of a user's, which keeps what it is told."""

    def __init__(self) -> None:
        self.views: list[LiveView] = []
        self.closed = 0

    def update(self, view: LiveView) -> None:
        self.views.append(view)

    def close(self) -> None:
        self.closed += 1


def live(widget: Any, *, lasts: bool = True) -> LiveCluster:
    health = Health("etl")
    return LiveCluster("etl", widget, health, JoinedWorkers(), is_lasting=lasts)


def test_a_widget_is_told_each_step_and_what_is_to_stay() -> None:
    frames = Frames()
    cluster = live(frames)
    with cluster.drawn_during_creation():
        cluster(PhaseStarted("plan", "etl"))
        cluster(PhaseFinished("plan", "etl", 1.0))
        cluster(Message("hosts get 2 packages", kept=True))
        cluster(Warned("etl: one of them is older"))
        cluster(PhaseStarted("apply", "etl"))
    kept = ("hosts get 2 packages", "warning: etl: one of them is older")
    assert [(view.state, view.step, view.notes) for view in frames.views[:4]] == [
        ("making", "etl: planning", ()),
        ("making", "etl: planning", kept[:1]),
        ("making", "etl: planning", kept),
        ("making", "etl: applying the plan", kept),
    ]
    names = ["plan", "apply", "start", "scheduler", "workers"]
    states = ["done", "now", "next", "next", "next"]
    assert [(step.name, step.state) for step in frames.views[3].steps] == list(
        zip(names, states, strict=True)
    )
    assert frames.views[-1].steps == ()
    assert (frames.closed, cluster.view().step) == (0, None)
    cluster.close("closed")
    cluster.close("closed")
    assert (frames.views[-1].state, frames.closed) == ("closed", 1)


def test_a_widget_is_closed_when_making_fails_or_is_over() -> None:
    frames, brief = Frames(), Frames()
    with pytest.raises(ValueError, match="no"), live(frames).drawn_during_creation():
        raise ValueError("no")
    assert (frames.views[-1].state, frames.closed) == ("failed", 1)
    with live(brief, lasts=False).drawn_during_creation():
        pass
    assert (brief.views, brief.closed) == ([], 1)


def test_a_widget_that_fails_is_given_up_and_the_cluster_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Frames):
        def update(self, view: LiveView) -> None:
            super().update(view)
            raise ValueError("no screen")

    broken = Broken()
    cluster = live(broken)
    with caplog.at_level(logging.WARNING), cluster.drawn_during_creation():
        cluster(Message("one"))
        cluster(Message("two"))
    assert len(broken.views) == 1
    assert [record.message for record in caplog.records] == ["cluster etl: its widget failed"]
    assert "no screen" in caplog.text


def test_a_notebook_draws_what_changes_below_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ipywidgets, which rich would ask for in a warning."""
    published: list[tuple[str, bool]] = []

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, metadata: Any = None, **more: Any) -> None:
            assert more.get("update") is None or "starting</span>" in data["text/html"]
            published.append((data["text/plain"], bool(more.get("update"))))

    shell = InteractiveShell.instance()
    monkeypatch.setattr(shell, "display_pub", Publisher(parent=shell))
    try:
        widget = NotebookWidget()
        for step in ("planning", "planning", "applying [/x]"):
            widget.update(LiveView("etl", "making", step=step, notes=("a note",)))
    finally:
        InteractiveShell.clear_instance()
    assert published == [
        ("terradask", False),
        ("a note\netl  ▪ starting\nplanning", True),
        ("a note\netl  ▪ starting\napplying [/x]", True),
    ]


def test_a_terminal_draws_and_other_output_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    widget = default_widget()
    assert isinstance(widget, TerminalWidget)
    widget.update(LiveView("etl", "making", step="etl: no disk [/x]here"))
    # rich draws in a thread of its own.
    eventually(lambda: "[/x]here" in terminal.getvalue())
    widget.close()
    monkeypatch.setattr("sys.stderr", None)
    assert default_widget() is None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_script_gets_a_line_for_each_step_and_a_sign_of_life_in_a_long_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(default_widget(), LinesWidget)
    out, clock = io.StringIO(), Clock()
    widget, making = LinesWidget(out, clock), Making(clock)

    def take(*events: ProgressEvent, after: float = 0.0) -> None:
        for event in events:
            clock.now += after
            making(event)
            view = LiveView("etl", making.state or "connecting", steps=making.steps)
            widget.update(replace(view, notes=("2 packages",), step="etl: aws_x.y"))

    take(PhaseStarted("resolve", "etl"))
    take(PhaseStarted("plan", "etl"), PhaseStarted("show", "etl"), after=4)
    take(PhaseStarted("apply", "etl"), after=8)
    take(*(ResourceChanged("etl", "aws_x.y", "create", "finished", n, 9) for n in (1, 9)), after=31)
    take(PhaseStarted("attach", "etl"))
    making.fail()
    take(PhaseFinished("attach", "etl", 1.0))
    widget.close()
    assert out.getvalue().splitlines() == [
        "2 packages",
        "etl: hardware done, 4 s",
        "etl: plan done, 12 s",
        "etl: starting; step 3 of 6: apply, 1 of 9, 47 s; aws_x.y",
        "etl: starting; step 3 of 6: apply, 9 of 9, 1 min 18 s; aws_x.y",
        "etl: apply done, 9 of 9, 1 min 02 s",
        "etl: scheduler failed, 0 s",
    ]


def test_a_script_that_only_attaches_gets_one_line() -> None:
    out, clock = io.StringIO(), Clock()
    widget, making = LinesWidget(out, clock), Making(clock)
    for event in (PhaseStarted("attach", "etl"), PhaseFinished("attach", "etl", 2.0)):
        making(event)
        clock.now += 2
        widget.update(LiveView("etl", making.state or "", steps=making.steps))
    making.begin("workers")
    making.finish()
    widget.update(LiveView("etl", making.state or "", steps=making.steps))
    widget.close()
    assert out.getvalue() == "etl: running; attached in 2 s\n"


def test_what_the_log_shows_is_not_printed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    logger = logging.getLogger("terradask")
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    assert default_widget() is None
    monkeypatch.undo()
    logger.manager._clear_cache()  # type: ignore[attr-defined]


def test_a_widget_of_our_own_draws_the_time_that_passes() -> None:
    class Ticking(Frames, OwnWidget):
        """Drawn each second."""

    ticking, frames = Ticking(), Frames()
    for widget in (ticking, frames):
        cluster = live(widget)
        with cluster.drawn_during_creation():
            cluster(PhaseStarted("plan", "etl"))
            if widget is ticking:
                eventually(lambda: len(ticking.views) > 2)
    assert len(frames.views) <= 3
    assert [view.steps[0].seconds is not None for view in ticking.views[:2]] == [True, True]


def test_planned_hosts_and_their_price_are_shown_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = Frames()
    cluster = live(frames)
    monkeypatch.setattr("terradask._dask.live.planned_hourly_usd", lambda aws, hosts: Decimal(3))
    cluster.find(SimpleNamespace(aws=object()))  # type: ignore[arg-type]
    hosts = PlannedHosts("workers", 3, "spot", ("us-east-1a",), ("m6i.xlarge", "m5.xlarge"))
    cluster(LaunchPlanned("etl", (hosts,)))
    eventually(lambda: cluster.view().price == Price(planned_hourly_usd=Decimal(3)))
    (group,) = frames.views[-1].groups
    assert (group.desired, group.instances, group.states) == (3, 0, {"planned": 3})
    assert group.hardware == "m6i.xlarge or m5.xlarge"


def test_notes_are_printed_once_above_a_terminals_view() -> None:
    out = io.StringIO()
    widget = TerminalWidget(Console(file=out, force_terminal=True, width=80))
    for step in ("one", "two"):
        widget.update(LiveView("etl", "making", step=step, notes=("hosts get 2 packages",)))
    widget.close()
    assert out.getvalue().count("hosts get 2 packages") == 1


def test_a_screen_that_can_not_be_had_does_not_end_a_creation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class HalfImported:
        """IPython, while it is being imported elsewhere."""

    monkeypatch.setitem(sys.modules, "IPython", HalfImported())  # type: ignore[arg-type]
    cluster = live_cluster(ClusterArguments(), "etl", Health("etl"), JoinedWorkers())
    assert not cluster.is_drawn
    assert [record.message for record in caplog.records] == ["cluster etl: can't show a live view"]


def test_true_draws_the_terminals_view_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", screen := io.StringIO())
    given = ClusterArguments(custom_widget=True)
    cluster = live_cluster(given, "etl", Health("etl"), JoinedWorkers())
    with cluster.drawn_during_creation():
        cluster(Warned("etl: a warning"))
    assert "warning: etl: a warning" in screen.getvalue()
    assert not cluster.is_drawn
    off = live_cluster(ClusterArguments(show_widget=False), "etl", Health("etl"), JoinedWorkers())
    assert not off.is_drawn
