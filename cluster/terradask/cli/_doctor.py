"""``terradask doctor``: show missing parts and their fixes, or check the account (``--live``)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask._common.clock import age_text
from terradask.cli._invocation import (
    answer,
    asking_options,
    check_answerable,
    confirm,
    current,
    flag,
    interruption,
    load_workspace,
)
from terradask.cli._output import SafeText, message, plain, result, styled, waiting
from terradask.cli._progress import ProgressLines

if TYPE_CHECKING:
    from terradask._doctor.account_check.check import Offer
    from terradask._doctor.account_check.steps import Step, StepResult
    from terradask._doctor.finding import Finding


_WIDTH = 15


def run_live() -> int:
    """Run the account check, and return the exit code."""
    from terradask._common.progress import PhaseStarted
    from terradask._doctor.account_check.assumptions import summary
    from terradask._doctor.account_check.check import LiveCheck
    from terradask._doctor.account_check.steps import Runner

    check_answerable("doctor --live")
    progress = ProgressLines()

    def started(step: Step) -> None:
        progress(PhaseStarted(step.name, "check"))

    def ended(one: StepResult) -> None:
        if not current().as_json:
            _show(one)

    def ask(offer: Offer) -> None:
        message(_terms(offer))
        confirm("Create it, and remove it again?")

    check = LiveCheck(load_workspace(), Runner(started, ended), progress=progress)
    try:
        with interruption("the next terradask doctor --live removes remaining resources first"):
            check.run(ask)
    finally:
        path = check.write_report(Path.cwd())
        answer(check.report())
        message(f"report: {path}, without the account's number")
        message(f"record of AWS's answers: {path.with_name(check.record_name)}, without ids")
    message(summary(check.runner.results))
    failed = check.runner.failed
    if failed is None:
        return 0
    message(f"failed at {failed.name}: {failed.what}")
    return failed.exit_code


def _terms(offer: Offer) -> str:
    most = "an unknown price" if offer.most_usd is None else f"at most ${offer.most_usd}"
    return (
        f"The check creates a network and a cluster of up to four hosts in account {offer.account},"
        f" {offer.region}, in a separate workspace, and removes both. It costs {most}, and takes "
        f"at most {offer.limit_seconds / 60:.0f} minutes before the removal begins."
    )


def _show(one: StepResult) -> None:
    marks = {"passed": ("ok      ", "green"), "failed": ("failed  ", "red")}
    text, colour = marks.get(one.outcome, ("left out", "yellow"))
    about = f"  {one.name:<{_WIDTH}} {age_text(one.seconds, tenths=True):>11}  {one.what}"
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


#: Created with the network: shown, but not a failure.
_NO_FAILURE = {"service-roles"}

_MISSING = 3


def _mark(finding: Finding) -> str:
    if not finding.checked:
        return styled("-      ", dim=True)
    if finding.ok:
        return styled("ok     ", fg="green")
    return styled("missing", fg="red", bold=True)


@click.command(short_help="Check this machine and this account")
@flag(
    "--fix",
    help="Make the environment for synthesis, find the provider on this machine, and upload "
    "missing packages for hosts.",
)
@flag("--toolchain", help="Check only Python, synthesis, Terraform and the provider.")
@flag(
    "--live",
    help="Check the account: run a small cluster in its own workspace, then remove everything.",
)
@asking_options
@click.pass_context
def doctor(ctx: click.Context, *, fix: bool, toolchain: bool, live: bool) -> None:
    """Check Python, synthesis, Terraform, the provider, credentials and region, and print the fix
    for each problem. A check that depends on a missing part is left out.

    Without --fix or --live nothing changes on AWS. Exits with 3 if something is missing. --live
    shows its cost, asks, writes a report, and exits with the code of the first failed step.
    """
    if live:
        if toolchain or fix:
            raise click.UsageError("--live checks everything: leave out --fix and --toolchain")
        ctx.exit(run_live())

    from terradask._doctor.doctor import CHECKS, TOOLCHAIN, examine

    with waiting("checking"):
        findings = examine(TOOLCHAIN if toolchain else CHECKS, fix=fix)
    width = max(len(finding.check) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(plain(_mark(finding), f"  {finding.check:<{width}} {finding.found}"))
        if finding.fix:
            lines.append(plain(f"{'':<9}{'':<{width}} to do: {finding.fix}"))
    answer([asdict(finding) for finding in findings], SafeText("\n".join(lines)))
    if any(not finding.ok and finding.check not in _NO_FAILURE for finding in findings):
        ctx.exit(_MISSING)
