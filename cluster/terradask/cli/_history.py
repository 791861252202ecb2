"""``terradask history``: what was applied, destroyed and started, when, and who says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terradask._common.text_table import table
from terradask.cli._invocation import json_option, load_workspace
from terradask.cli._output import caller_name, result, result_json, say, shortened

if TYPE_CHECKING:
    from terradask._plans.history import HistoryEntry

_HASH_CHARACTERS = 12


@click.command(short_help="Show who has applied, destroyed and started what")
@click.option("--since", metavar="TIME", help="From then on: 12h, 7d ago, or 2026-11-01 (UTC).")
@json_option
def history(since: str | None, as_json: bool) -> None:
    """Show what was done to the workspace, the oldest first: applies of the network and of
    clusters, from which plan and with how many changes; what was destroyed; and when runs started
    and ended, and why.

    The commands themselves write it, each with its caller's name. Every user of the workspace could
    write an entry by hand, under any name, but change none: what proves who called is AWS
    CloudTrail.
    """
    found = load_workspace().history(since)
    if as_json:
        result_json([entry.as_dict() for entry in found])
    elif found:
        heads = ["at", "what", "stack", "by", "changes", "plan or run", "why"]
        result(table(heads, [_row(entry) for entry in found]))
    else:
        say("nothing was noted then")


def _row(entry: HistoryEntry) -> list[object]:
    counts = entry.changes
    changes = (
        f"+{counts.get('add', 0)} ~{counts.get('change', 0)} -{counts.get('remove', 0)}"
        if counts
        else None
    )
    plan = None if entry.plan_sha256 is None else entry.plan_sha256[:_HASH_CHARACTERS]
    return [
        entry.at,
        entry.what,
        entry.stack,
        caller_name(entry.by),
        changes,
        entry.run_id or plan,
        None if entry.reason is None else shortened(" ".join(entry.reason.split())),
    ]
