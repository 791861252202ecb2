"""Render what was changed outside Terraform: what endangers something first, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from terradask._common.naming import counted
from terradask._plans.markdown import Section, code, escaped, fence, fitted, prose
from terradask._plans.render_changes import before_after
from terradask._plans.render_markdown import MARKDOWN_LIMIT
from terradask._plans.render_terminal import assignment, gone
from terradask._plans.summary import PlanSummary
from terradask_host.documents import plain_text

#: A job finds and updates its own drift message by this line.
DRIFT_MARKER = "<!-- terradask drift -->"


def drift_text(summaries: Sequence[PlanSummary]) -> str:
    """Return the drift of several stacks, a line for each value, with the next command last."""
    lines: list[str] = []
    drifted = [summary for summary in summaries if summary.drift]
    for summary in drifted:
        lines.append(_headline(summary))
        for danger in summary.drift_dangers:
            lines.append(f"! {danger.address} {danger.text}")
            lines += [f"    {danger.command}"] if danger.command else []
        for change in summary.drift:
            sign = "-" if change.action == "delete" else "~"
            lines.append(f"  {sign} {change.address}{gone(change)}")
            lines.extend(f"      {assignment(attribute)}" for attribute in change.attributes)
        lines.append("")
    lines += [f"next: {command}" for command in next_commands(drifted)]
    return plain_text("\n".join(lines))


def _headline(summary: PlanSummary) -> str:
    weighed = " (needs review)" if summary.drift_dangers else ""
    number = counted(len(summary.drift), "resource")
    return f"{summary.stack}: {number} changed outside Terraform{weighed}"


def next_commands(summaries: Iterable[PlanSummary]) -> list[str]:
    """Return what to do about drift, the most urgent first."""
    drifted = [summary for summary in summaries if summary.drift]
    closing = [d.command for summary in drifted for d in summary.drift_dangers if d.command]
    names = " ".join(summary.stack for summary in drifted)
    plan = [f"terradask plan {names}, which shows what terradask apply {names} would set back"]
    return [*dict.fromkeys(closing), *(plan if drifted else [])]


def drift_document(summaries: Iterable[PlanSummary]) -> list[dict[str, Any]]:
    """Return the drift of several stacks as JSON data."""
    return [
        {
            "stack": summary.stack,
            "drift": [change.as_dict() for change in summary.drift],
            "dangers": list(map(asdict, summary.drift_dangers)),
            "next": next_commands([summary]),
        }
        for summary in summaries
    ]


def drift_markdown(summaries: Sequence[PlanSummary], *, limit: int = MARKDOWN_LIMIT) -> str:
    """Return the drift of several stacks, or a note that there is none."""
    drifted = [summary for summary in summaries if summary.drift]
    if not drifted:
        checked = ", ".join(escaped(summary.stack) for summary in summaries)
        return f"{DRIFT_MARKER}\n## No drift\nChecked {checked}.\n"
    needs = any(summary.drift_dangers for summary in drifted)
    number = counted(sum(len(summary.drift) for summary in drifted), "resource")
    weighed = " (needs review)" if needs else ""
    head = f"{DRIFT_MARKER}\n## {number} changed outside Terraform{weighed}\n"
    return head + fitted(_sections(drifted), limit - len(head))


def _sections(drifted: Sequence[PlanSummary]) -> list[Section]:
    dangers = [
        f"> - **{escaped(summary.stack)}** {code(danger.address)} {prose(danger.text)}\n"
        for summary in drifted
        for danger in summary.drift_dangers
    ]
    found = [Section("dangers", 0, "\n> [!CAUTION]\n", dangers, "dangers")]
    for summary in drifted:
        blocks = [
            f"- {code(change.address)}{gone(change)}\n"
            + "".join(f"  - {before_after(a)}\n" for a in change.attributes)
            for change in summary.drift
        ]
        head = f"\n**{escaped(summary.stack)}**: {counted(len(summary.drift), 'resource')}\n\n"
        found.append(Section(f"drift of {summary.stack}", 2, head, blocks, "resources"))
    steps = [fence(next_commands(drifted))]
    found.append(Section("next commands", 1, "\nNext:\n\n", steps, "commands"))
    return found
