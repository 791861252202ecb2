"""Render what was changed outside Terraform: what endangers something first, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from terradask._common.naming import counted
from terradask._plans.equal_changes import gather_drift
from terradask._plans.markdown import Section, code, escaped, fence, fitted, prose
from terradask._plans.render_changes import drift_sections
from terradask._plans.render_markdown import MARKDOWN_LIMIT
from terradask._plans.render_terminal import assignment, equal_text, gone, named_in
from terradask._plans.summary import PlanSummary
from terradask_host.documents import plain_text

#: A job finds and updates its own drift message by this line.
DRIFT_MARKER = "<!-- terradask drift -->"


def drift_text(summaries: Sequence[PlanSummary]) -> str:
    """Return the drift of several stacks, equal changes once, with the next command last."""
    drifted = [summary for summary in summaries if summary.drift]
    alike: dict[tuple[str, ...], list[str]] = {}
    for summary in drifted:
        alike.setdefault(tuple(_lines(summary)), []).append(summary.stack)
    lines: list[str] = []
    for (effect, *body), stacks in alike.items():
        each = "each " if len(stacks) > 1 else ""
        lines += [f"{', '.join(stacks)}: {each}{effect}", *body, ""]
    lines += [f"next: {command}" for command in next_commands(drifted)]
    return plain_text("\n".join(lines))


def _lines(summary: PlanSummary) -> Iterator[str]:
    """Yield one stack's drift without its name: the number of resources, dangers, values."""
    weighed = " (needs review)" if summary.drift_dangers else ""
    yield f"{counted(len(summary.drift), 'resource')} changed outside Terraform{weighed}"
    for danger in summary.drift_dangers:
        yield f"! {danger.address} {danger.text}"
        if danger.command:
            yield f"    {danger.command}"
    gathered = gather_drift([summary])
    for one in gathered.equal:
        yield f"  ~ {equal_text(one)}"
        yield f"      {named_in(one)}"
    for left in gathered.rest:
        sign = "-" if left.change.action == "delete" else "~"
        yield f"  {sign} {left.change.address}{gone(left.change)}"
        yield from (f"      {assignment(attribute)}" for attribute in left.change.attributes)


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
    steps = [fence(next_commands(drifted))]
    return [
        Section("dangers", 0, "\n> [!CAUTION]\n", dangers, "dangers"),
        *drift_sections(drifted, "\n", several=True),
        Section("next commands", 1, "\nNext:\n\n", steps, "commands"),
    ]
