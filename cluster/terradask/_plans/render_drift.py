"""Render drift for a terminal, and as Markdown for an issue or a message."""

from __future__ import annotations

from collections.abc import Sequence

from terradask._common.naming import counted
from terradask._plans.render_values import assignment, gone
from terradask._plans.summary import PlanSummary

#: A job finds its own message by this line and updates it in place.
MARKER = "<!-- terradask drift -->"


def drift_text(summary: PlanSummary) -> str:
    """Return what was changed outside Terraform in one stack, a line for each value."""
    lines = [
        f"{summary.stack}: {counted(len(summary.drift), 'resource')} changed outside Terraform"
    ]
    for change in summary.drift:
        lines.append(
            f"  {'-' if change.action == 'delete' else '~'} {change.address}{gone(change)}"
        )
        lines.extend(f"      {assignment(attribute)}" for attribute in change.attributes)
    return "\n".join(lines)


def drift_markdown(summaries: Sequence[PlanSummary]) -> str:
    """Return what was changed outside Terraform in several stacks, or that nothing was."""
    drifted = [summary for summary in summaries if summary.drift]
    parts = [MARKER, f"## {'Changed outside Terraform' if drifted else 'No drift'}", ""]
    if not drifted:
        parts.append(f"Checked {', '.join(f'`{summary.stack}`' for summary in summaries)}.")
    for summary in drifted:
        parts += [f"### `{summary.stack}`: {counted(len(summary.drift), 'resource')}", ""]
        for change in summary.drift:
            parts.append(f"- `{change.address}`{gone(change)}")
            if change.attributes:
                # Four backticks: a value may contain three.
                lines = [f"  {assignment(a).replace('````', '` ` ` `')}" for a in change.attributes]
                parts += ["", "  ````", *lines, "  ````", ""]
    return "\n".join(parts).rstrip() + "\n"
