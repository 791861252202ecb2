"""``terradask doctor --live``: the account check, at a terminal and in scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from terradask.cli._invocation import interruption, load_workspace
from terradask.cli._output import result, result_json, say, styled
from terradask.cli._question import check_answerable, confirm
from terradask.cli._story import Story

if TYPE_CHECKING:
    from terradask._live_check.check import LiveCheck, Offer
    from terradask._live_check.steps import Step, StepResult

_WIDTH = 15


def run_live(*, yes: bool, as_json: bool) -> int:
    """Run the account check, and return the exit code."""
    from terradask._common.progress import PhaseStarted
    from terradask._live_check.check import LiveCheck
    from terradask._live_check.steps import Runner

    check_answerable(yes, "doctor --live")
    story = Story()

    def started(step: Step) -> None:
        story(PhaseStarted(step.name, "check"))

    def ended(one: StepResult) -> None:
        if not as_json:
            _show(one)

    def ask(offer: Offer) -> None:
        say(_terms(offer))
        confirm("Make it, and remove it again?", yes=yes)

    check = LiveCheck(load_workspace(), Runner(started, ended), progress=story)
    try:
        with interruption("terradask doctor --live removes what is left, first"):
            check.run(ask)
    finally:
        _report(check, as_json=as_json)
    failed = check.runner.failed
    if failed is None:
        return 0
    say(f"failed at {failed.name}: {failed.what}")
    return failed.exit_code


def _terms(offer: Offer) -> str:
    most = "an unknown price" if offer.most_usd is None else f"at most ${offer.most_usd}"
    return (
        f"The check makes a network and a cluster of up to four hosts in account {offer.account}, "
        f"{offer.region}, in a workspace of its own, and removes both. It costs {most}, and takes "
        f"at most {offer.limit_seconds / 60:.0f} minutes before the removal begins."
    )


def _show(one: StepResult) -> None:
    marks = {"passed": ("ok      ", "green"), "failed": ("failed  ", "red")}
    text, colour = marks.get(one.outcome, ("left out", "yellow"))
    about = f"  {one.name:<{_WIDTH}} {one.seconds:6.1f} s  {one.what}"
    result(styled(text, fg=colour), about)
    indent = " " * (len(text) + 2 + _WIDTH + 1)
    if one.why_left_out:
        result(f"{indent}{one.why_left_out}")
    if one.error:
        for key, before in (("problem", ""), ("given", "given: "), ("advice", "to do: ")):
            if one.error.get(key):
                result(f"{indent}{before}{one.error[key]}")
        for words in one.texts:
            result(f"{indent}AWS: {words}")


def _report(check: LiveCheck, *, as_json: bool) -> None:
    path = check.write_report(Path.cwd())
    if as_json:
        result_json(check.report())
    say(f"report: {path}, without the account's number")
