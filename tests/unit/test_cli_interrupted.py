"""The command line when it is interrupted: it says what is left, and what was taken back."""

from __future__ import annotations

import signal
from typing import Any

import click
import pytest

from terradask.cli import command, run
from terradask.errors import HostFailed


def test_ctrl_c_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from terradask.cli._invocation import interruption

    def interrupted(shell: str) -> None:
        with interruption("terradask destroy etl removes it"):
            raise KeyboardInterrupt

    monkeypatch.setattr(
        command.get_command(click.Context(command), "completion"), "callback", interrupted
    )
    assert run(["completion", "bash"]) == 130
    assert "interrupted\n  to do: terradask destroy etl removes it" in capsys.readouterr().err


def test_ctrl_c_at_a_question_is_reported_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(text: str) -> str:
        print(text, end="")
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    monkeypatch.setattr(
        command.get_command(click.Context(command), "completion"),
        "callback",
        lambda shell: click.prompt("who", err=True),
    )
    assert run(["completion", "bash"]) == 130
    assert capsys.readouterr().err == "who: \ninterrupted\n"


def test_what_became_of_a_cluster_is_said_with_an_interrupt_or_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[BaseException] = [KeyboardInterrupt(), HostFailed("The host failed.")]

    def end(shell: str) -> None:
        error = ended.pop(0)
        error.add_note("The deployment of cluster 'etl' was rolled back.")
        raise error

    monkeypatch.setattr(command.get_command(click.Context(command), "completion"), "callback", end)
    assert run(["completion", "bash"]) == 130
    said = capsys.readouterr().err
    assert said.strip() == "interrupted: The deployment of cluster 'etl' was rolled back.", said
    assert run(["completion", "bash"]) == HostFailed.exit_code
    assert "The host failed.\n  The deployment of" in capsys.readouterr().err


def test_a_second_ctrl_c_does_not_break_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(shell: str) -> None:
        raise KeyboardInterrupt

    echo = click.echo

    def interrupted(text: str, **options: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        echo(text, **options)

    monkeypatch.setattr(
        command.get_command(click.Context(command), "completion"), "callback", interrupt
    )
    monkeypatch.setattr(click, "echo", interrupted)
    assert run(["completion", "bash"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
