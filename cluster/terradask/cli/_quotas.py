"""``terradask quotas``: AWS's quotas against what the settings can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terradask._common.text_table import table
from terradask.cli._invocation import json_option, load_workspace, yes_option
from terradask.cli._output import result, result_json, say
from terradask.cli._question import check_answerable, confirm

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._quotas.check import QuotaCheck


@click.command(short_help="Compare AWS's quotas with what the settings can reach")
@click.option(
    "--request",
    is_flag=True,
    help="Show the quotas that are too small, and request increases from AWS.",
)
@yes_option
@json_option
def quotas(request: bool, yes: bool, as_json: bool) -> None:
    """Compare AWS's quotas with what the settings can reach: every declared cluster at max_workers,
    and the network.

    Other use in the account counts too. Exits with 8 if a quota is too small; with --request, only
    if no increase was requested. AWS takes minutes or days to decide about requests.
    """
    if request:
        check_answerable(yes, "quotas --request")
    workspace = load_workspace()
    checks = workspace.quotas()
    short = [check for check in checks if check.verdict == "short"]
    if not as_json:
        result(_table(checks))
        for check in short:
            others = f"; {check.others} used by others" if check.others else ""
            say(f"{check.code}: {check.why}{others}")
    if request:
        asked = {check.code: check for check in _request(workspace.aws, short, yes=yes)}
        checks = [asked.get(check.code, check) for check in checks]
        short = [one for one in short if (asked.get(one.code, one).requested or 0) < one.needed]
    if as_json:
        result_json([check.as_dict() for check in checks])
    if short:
        from terradask._quotas.check import too_small

        raise too_small(short)


def _table(checks: list[QuotaCheck]) -> str:
    def whole(value: float | None) -> int | None:
        return None if value is None else int(value)

    rows = [
        [c.code, whole(c.limit), c.others, c.reach, c.verdict, whole(c.requested), c.name]
        for c in checks
    ]
    return table(["code", "limit", "others", "reach", "verdict", "requested", "quota"], rows)


def _request(aws: Aws, short: list[QuotaCheck], *, yes: bool) -> list[QuotaCheck]:
    """Request more, after a question, where no request is open."""
    from terradask._quotas.check import request_more

    wanted = [check for check in short if check.requested is None]
    for check in short:
        if check.requested is not None:
            say(
                f"{check.code}: {int(check.requested)} are requested already; AWS takes one "
                "request at a time"
            )
    if not wanted:
        say("nothing to request")
        return []
    listing = ", ".join(f"{check.code} to {check.needed}" for check in wanted)
    confirm(f"Ask AWS in {aws.region} to raise {listing}?", yes=yes)
    asked = request_more(aws, wanted)
    for check in asked:
        say(f"{check.code}: requested {check.needed}")
    return asked
