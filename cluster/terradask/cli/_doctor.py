"""``terradask doctor``: what is missing here, and the fix for each."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from terradask.cli._invocation import json_option, yes_option
from terradask.cli._live import run_live
from terradask.cli._output import result, result_json, styled

if TYPE_CHECKING:
    from terradask._doctor.finding import Finding

#: The network makes them: shown, but no failure.
_NO_FAILURE = {"service-roles"}

_MISSING = 3


def _mark(finding: Finding) -> str:
    if not finding.checked:
        return styled("-      ", dim=True)
    if finding.ok:
        return styled("ok     ", fg="green")
    return styled("missing", fg="red", bold=True)


@click.command(short_help="Check this machine and this account")
@click.option(
    "--fix",
    is_flag=True,
    help="Fix what can be fixed from here: find the provider on this machine, put packages that "
    "hosts lack into the workspace's bucket.",
)
@click.option(
    "--toolchain",
    is_flag=True,
    help="Check only this machine: Python, Node, Terraform, the provider.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Check the account: run a small cluster in a workspace of its own, and remove everything.",
)
@yes_option
@json_option
@click.pass_context
def doctor(
    ctx: click.Context, *, fix: bool, toolchain: bool, live: bool, yes: bool, as_json: bool
) -> None:
    """Check Python, Node, Terraform, the provider, credentials and region, and print the fix for
    each problem. What depends on something that is missing isn't checked.

    Changes nothing on AWS, without --fix or --live. Exits with 3 if something is missing. With
    --live it shows what the check costs, asks, writes a report, and exits with the code of the
    first step that failed.
    """
    if live:
        if toolchain or fix:
            raise click.UsageError("--live checks everything: leave out --fix and --toolchain")
        ctx.exit(run_live(yes=yes, as_json=as_json))

    from terradask._doctor.doctor import CHECKS, TOOLCHAIN, examine

    findings = examine(TOOLCHAIN if toolchain else CHECKS, fix=fix)
    if as_json:
        result_json([asdict(finding) for finding in findings])
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            result(_mark(finding), f"  {finding.check:<{width}} {finding.found}")
            if finding.fix:
                result(f"{'':<9}{'':<{width}} to do: {finding.fix}")
    if any(not finding.ok and finding.check not in _NO_FAILURE for finding in findings):
        ctx.exit(_MISSING)
