"""What others wrote, in documents, locks, tags, names and AWS's answers, carries terminals' control
characters: none reaches a terminal, whichever way it takes, and none an error's text.
"""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

import terradask
from terradask import errors
from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    ResourceChanged,
    Warned,
)
from terradask._dask.widgets import TerminalWidget
from terradask._observe.documents import check_format
from terradask._observe.live_view import LiveView
from terradask._plans.render_terminal import to_terminal, to_text
from terradask._plans.summary import summarise
from terradask._terraform.state.lock import LockInfo
from terradask.cli import _progress, _run
from terradask.cli._invocation import Invocation, confirm
from terradask.cli._output import message, result, result_json, styled
from terradask.errors import DocumentFormat, HostFailed, PolicyViolation, TerradaskError

from ..unit.damaged_documents import small_plan

ESCAPE = "\x1b]0;title\x07\x1b[2J\x9b1A\u202e"
MARK = "planted"
TEXT = f"{MARK}{ESCAPE}"
#: What this program's own colours are made of.
OWN = ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m")


def strange(text: str) -> set[str]:
    """Return the control characters in a text, but for lines and colours of our own."""
    for own in OWN:
        text = text.replace(own, "")
    return {letter for letter in text if not letter.isprintable()} - {"\n", "\t"}


def everywhere(value: Any) -> Any:
    """Return a document with escape sequences in each text, also in keys."""
    if isinstance(value, dict):
        return {key: everywhere(each) for key, each in value.items()}
    if isinstance(value, list):
        return [everywhere(each) for each in value]
    return f"{value}{ESCAPE}" if isinstance(value, str) else value


def test_a_lock_that_others_wrote_is_lines_of_text() -> None:
    info = {"ID": TEXT, "Who": f"me\n  to do: {TEXT}", "Created": TEXT, "Operation": TEXT}
    lock = LockInfo.from_json(json.dumps({**info, "Path": TEXT}).encode())
    for text in (lock.describe(), *map(str, vars(lock).values())):
        assert not strange(text)
        assert "\n" not in text
    assert MARK in lock.describe()
    in_words = f"Lock Info:\n  ID:        {TEXT}\n  Who:       {TEXT}\n  Created:   {TEXT}\n"
    assert not strange(LockInfo.from_text(in_words).describe())


@pytest.mark.parametrize("name", ["format", "terradask_version"])
def test_a_document_of_another_format_is_refused_in_plain_words(name: str) -> None:
    forged = {"format": 99, name: f"{TEXT}\n  to do: run this"}
    with pytest.raises(DocumentFormat) as refused:
        check_format(forged, f"{TEXT} of cluster", f"advice {TEXT}")
    assert not strange(str(refused.value))
    assert "\n  to do: run this" not in str(refused.value)
    assert MARK in str(refused.value)


ALL_ERRORS = [
    each
    for each in (getattr(errors, name) for name in dir(errors))
    if isinstance(each, type) and issubclass(each, TerradaskError)
]


def test_no_errors_text_has_control_characters() -> None:
    """Also of those that say more than the base: they say it in `_text`."""
    assert [one for one in ALL_ERRORS if "__str__" in vars(one) and one is not TerradaskError] == []
    host = HostFailed(TEXT, reason=TEXT, log_tail=[TEXT], advice=TEXT)
    plain_one = TerradaskError(TEXT, given={TEXT: TEXT}, allowed=TEXT, advice=TEXT)
    listed = TerradaskError(TEXT, given=TEXT)
    for error in (host, plain_one, listed, pickle.loads(pickle.dumps(host))):
        assert MARK in str(error)
        assert not strange(str(error))
        assert not strange(error.problem)
        assert not strange(repr(error))


class Finding:
    """A finding of policy about what others wrote."""

    check, address, message = TEXT, TEXT, TEXT

    def as_dict(self) -> dict[str, str]:
        return {}


def test_findings_of_policy_are_plain() -> None:
    assert not strange(str(PolicyViolation([Finding()], stack=TEXT)))  # type: ignore[list-item]


def test_a_command_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    result(TEXT)
    message(TEXT)
    result(styled(TEXT, fg="red"), TEXT)
    result_json({TEXT: TEXT})
    _run._failed(Invocation(), TerradaskError(TEXT, given=TEXT))
    # An answer of AWS's that nothing explains.
    _run._failed(Invocation(debug=True), RuntimeError(TEXT))
    error = TerradaskError("x")
    error.add_note(TEXT)
    _run._failed(Invocation(), error)
    story = _progress.ProgressLines()
    for event in (
        Message(TEXT),
        Warned(TEXT),
        PhaseStarted("plan", TEXT),
        PhaseFinished("plan", TEXT, 1.0),
        ResourceChanged(TEXT, TEXT, "create", "failed", 1, 2),
    ):
        story(event)
    shown = capsys.readouterr()
    assert shown.out.count(MARK) > 4
    assert shown.err.count(MARK) > 8
    assert not strange(shown.out)
    assert not strange(shown.err)


def test_a_question_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text) or True)
    with click.Context(click.Command("sweep")):
        confirm(f"Remove {TEXT}?")
    assert not strange(asked[0])


def test_a_live_line_has_none_and_no_markup() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, color_system=None)
    story = _progress.ProgressLines()
    with console.status("") as status:
        story._status = status
        story(Message(TEXT))
        story(ResourceChanged("etl", f'aws_x.y["{MARK}"]{ESCAPE}', "create", "started", 1, 2))
        assert not strange(str(status.status))
        assert f'["{MARK}"]' in str(status.status)
    view = LiveView(TEXT, "making", step=TEXT, notes=(TEXT,))
    widget = TerminalWidget(console)
    widget.update(view)
    widget.close()
    assert MARK in out.getvalue()
    for planted in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e"):
        assert planted not in out.getvalue()


def test_a_plan_shows_none_of_the_states_values(tmp_path: Path) -> None:
    summary = summarise(everywhere(small_plan()), stack="etl", plan_hash="0")
    console = Console(file=io.StringIO(), color_system=None, width=200)
    console.print(to_terminal(summary))
    for text in (to_text(summary), console.file.getvalue()):  # type: ignore[attr-defined]
        assert not strange(text)
        assert "\N{REPLACEMENT CHARACTER}" in text


def test_only_these_places_print() -> None:
    """What prints goes by `message`, `result` and `styled`, or is one of these, which take control
    characters out themselves or print nothing of others.
    """
    calls = ("click.echo(", "click.secho(", "Console(", "print(")
    found = {
        file.name
        for file in Path(_run.__file__).parent.glob("*.py")
        if re.search("|".join(rf"(?<!\w){re.escape(call)}" for call in calls), file.read_text())
    }
    assert found == {
        "_completion.py",  # click's script
        "_demo.py",  # the demo's own words
        "_deployments.py",  # a `Drawing`
        "_output.py",
        "_plan.py",  # what `to_terminal` and `to_text` return
        "_run.py",  # JSON in ASCII
        "_progress.py",
    }


def test_a_pull_requests_text_has_none() -> None:
    from terradask._plans.markdown import code, escaped, fenced

    for text in (escaped(TEXT), code(TEXT), fenced(TEXT)):
        assert MARK in text
        assert not strange(text)
    # Its own, by which nothing in it is a mention or a link.
    assert escaped("@team") == "@\u200bteam"


def test_no_log_line_has_any(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("terradask")
    logger.warning("a host says %s of %d", TEXT, 3)
    logger.warning("two\nlines of %s", "ours")
    first, second = caplog.records
    assert MARK in first.getMessage()
    assert not strange(first.getMessage())
    # What needs no change keeps its arguments, for handlers that read them.
    assert second.args == ("ours",)
    try:
        raise ValueError(TEXT)
    except ValueError:
        logger.warning("failed", exc_info=True)
    shown = logging.Formatter().format(caplog.records[-1])
    assert "Traceback" in shown
    assert MARK in shown
    assert not strange(shown)


def test_all_is_logged_by_the_one_logger_that_takes_them_out() -> None:
    """A logger below it has no filter of its own, and handlers get what it logs."""
    folder = Path(terradask.__file__).parent
    names = {
        name
        for file in folder.rglob("*.py")
        for name in re.findall(r"getLogger\(([^)]*)\)", file.read_text())
    }
    assert names == {'"terradask"'}
