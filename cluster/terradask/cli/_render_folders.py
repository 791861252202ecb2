"""Render the plans of several workspaces: one table, and what changes in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from terradask._common.text_table import shortened
from terradask._common.text_table import table as text_table
from terradask._plans.folder import Plans
from terradask._plans.markdown import code, escaped, row, small, table
from terradask._plans.render_markdown import MARKDOWN_LIMIT, to_markdown
from terradask._plans.render_terminal import VERDICTS
from terradask._plans.summary import Counts
from terradask._workspace.folders import InFolder

#: The first line of the Markdown, by which a job finds and updates its own comment.
ALL_MARKER = "<!-- terradask plan --all -->"
#: Least length of one workspace's own part, in characters.
_LEAST = 2_000
_REASON_LIMIT = 500
_HEADS = ("folder", "account", "region", "workspace", "stack", "verdict")


#: One folder's plans, or why there are none.
PlannedFolder = InFolder[Plans]


def several_markdown(planned: Sequence[PlannedFolder], *, limit: int = MARKDOWN_LIMIT) -> str:
    """Return the plans as Markdown for one comment: a table of all stacks, then the report of each
    workspace with changes, each with an equal share of the length that is left.
    """
    changing = [one for one in planned if _changes(one)]
    failed = sum(1 for one in planned if one.found is None or one.found.report.failed)
    outcome = f"{len(changing)} of {len(planned)} workspaces change"
    if failed:
        outcome += f", {failed} could not be planned"
    page = f"{ALL_MARKER}\n## {outcome}\n\n{table(('folder', 'stack', ''), _short_rows(planned))}"
    reasons = [
        f"- {code(one.folder)} {escaped((one.reason or '')[:_REASON_LIMIT])}\n"
        for one in planned
        if one.reason
    ]
    page += "\n" + "".join(reasons) if reasons else ""
    if len(page) > limit:
        return f"{page[: limit - 40].rpartition(chr(10))[0]}\n\n… more workspaces in the JSON.\n"
    for number, one in enumerate(changing):
        assert one.found is not None
        head = f"\n---\n\n{code(one.folder)}\n\n"
        left = (limit - len(page)) // (len(changing) - number) - len(head)
        if left < _LEAST:
            note = f"\n… left out for length: {code(one.folder)}; the JSON has it.\n"
            page += note if len(page) + len(note) <= limit else ""
            continue
        inner = to_markdown(one.found.report, limit=left, can_be_applied=False)
        # Without the marker of its own comment.
        page += head + inner.partition("\n")[2]
    return page


def several_text(planned: Sequence[PlannedFolder]) -> str:
    """Return the table of all stacks as text."""
    heads = (*_HEADS, "create", "update", "replace", "destroy", "import")
    return text_table(heads, _rows(planned))


def several_document(planned: Sequence[PlannedFolder]) -> list[dict[str, Any]]:
    """Return the plans as JSON data: each folder's place, error and report."""
    return [
        {
            **one.as_dict(),
            "error": one.reason,
            "report": None if one.found is None else one.found.report.as_dict(),
        }
        for one in planned
    ]


def _short_rows(planned: Sequence[PlannedFolder]) -> list[str]:
    """Return rows of few columns, for a phone."""
    rows = []
    for folder, account, region, _, stack, verdict, *numbers in _rows(planned):
        where = ", ".join(str(part) for part in (account, region) if part)
        counts = Counts(*(int(str(number or 0)) for number in numbers))
        what = f"{verdict}: {counts.text}" if counts.total else str(verdict)
        if verdict == VERDICTS["changes"] and counts.total:
            what = counts.text
        place = f"{code(str(folder))}{f'<br>{small(escaped(where))}' if where else ''}"
        rows.append(row([place, escaped(str(stack or "-")), escaped(what)]))
    return rows


def _changes(one: PlannedFolder) -> bool:
    return one.found is not None and one.found.report.verdict != "no changes"


def _rows(planned: Sequence[PlannedFolder]) -> list[list[object]]:
    rows: list[list[object]] = []
    for one in planned:
        place = [one.folder, one.account, one.region, one.workspace]
        if one.found is None:
            why = f"{VERDICTS['failed']}: {shortened(one.reason or '')}"
            rows.append([*place, None, why, *[None] * 5])
            continue
        report = one.found.report
        rows += [
            [
                *place,
                plan.stack,
                VERDICTS[plan.verdict],
                *(number or None for number in asdict(plan.summary.counts).values()),
            ]
            for plan in report.plans
        ]
        others = {
            **dict.fromkeys(report.failed, VERDICTS["failed"]),
            **dict.fromkeys(report.waiting, "waits for the network"),
            **dict.fromkeys(report.unchanged, "unchanged, not planned"),
        }
        rows += [[*place, stack, what, *[None] * 5] for stack, what in others.items()]
    return rows
