"""A plan's summary for a terminal, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from terradask._plan import Change, PlanSummary
from terradask._plan_values import UNKNOWN, AttributeChange

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

#: Longest comment that GitHub takes.
MARKDOWN_LIMIT = 65_536

_SIGNS = {"create": "+", "import": "=", "update": "~", "replace": "±", "delete": "-", "forget": "·", "read": "<"}
_WORDS = {
    "create": "create", "import": "import", "update": "update", "replace": "replace", "delete": "destroy", "forget": "forget",
    "read": "read",
}  # fmt: skip
_STYLES = {"create": "green", "import": "cyan", "update": "yellow", "replace": "magenta", "delete": "red", "forget": "dim", "read": "cyan"}
_VALUE_LIMIT = 120


def to_json(summary: PlanSummary) -> str:
    """Return the summary as JSON, format 1; `PlanSummary.as_dict` describes it."""
    return json.dumps(summary.as_dict(), indent=2, sort_keys=False, ensure_ascii=False) + "\n"


# ---- terminal -------------------------------------------------------------------------------------------------------


def to_terminal(summary: PlanSummary, *, details: bool = True) -> RenderableType:
    """Return the summary for rich to print.

    Parameters
    ----------
    summary
        The plan.
    details
        Whether to show the values of what is created, too; those of updates and replacements are always shown.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(summary.headline, style="bold")]
    if summary.dangers:
        parts.append(Text())
        for danger in summary.dangers:
            line = Text("! ", style="bold red")
            line.append(danger.address, style="bold")
            line.append(f" {danger.text}")
            parts.append(line)
    if summary.changes:
        parts.append(Text())
        for change in summary.changes:
            parts.extend(_terminal_change(change, details=details))
    if summary.drift:
        parts += [Text(), Text("changed beside Terraform since it last looked:", style="bold")]
        for change in summary.drift:
            parts.extend(_terminal_change(change, details=True))
    parts += [Text(), Text(_origin(summary), style="dim")]
    return Group(*parts)


def to_text(summary: PlanSummary, *, details: bool = True, width: int = 120) -> str:
    """Return what `to_terminal` shows as plain text."""
    from rich.console import Console

    console = Console(width=width, color_system=None, force_terminal=False, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(to_terminal(summary, details=details), soft_wrap=True)
    return captured.get()


def _terminal_change(change: Change, *, details: bool) -> list[Text]:
    from rich.text import Text

    style = _STYLES.get(change.action, "")
    line = Text("  ")
    line.append(_SIGNS.get(change.action, "?"), style=f"bold {style}")
    line.append(f" {change.address}", style=style)
    if change.reason:
        line.append(f"  ({change.reason})", style="dim")
    lines = [line]
    if details or change.action != "create":
        lines.extend(Text(f"      {_assignment(attribute)}") for attribute in change.attributes)
    return lines


def _assignment(attribute: AttributeChange) -> str:
    after = value_text(attribute.after)
    value = after if attribute.before is None else f"{value_text(attribute.before)} -> {after}"
    note = "  # forces replacement" if attribute.forces_replacement else ""
    return f"{attribute.path} = {value}{note}"


def value_text(value: Any, limit: int = _VALUE_LIMIT) -> str:
    """Return a value on one line, shortened in its middle."""
    if value is None:
        return "none"
    text = value if value == UNKNOWN else json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) > limit:
        half = (limit - 3) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text


def _origin(summary: PlanSummary) -> str:
    made_with = [f"Terraform {summary.terraform_version}", *(f"{n} {v}" for n, v in sorted(summary.providers.items()))]
    return f"plan {summary.plan_hash[:12]} of {summary.created_at}, {', '.join(made_with)}"


# ---- Markdown -------------------------------------------------------------------------------------------------------


def to_markdown(summary: PlanSummary, *, limit: int = MARKDOWN_LIMIT) -> str:
    """Return the summary as Markdown for a comment on a pull request.

    Parameters
    ----------
    summary
        The plan.
    limit
        Fewer characters than this. What doesn't fit is left out from the end, and counted: first details, then resources.

    Notes
    -----
    The first line is a marker by which a job finds its own comment and updates it in place.
    """
    header = _header(summary)
    footer = (
        f"\n<sub>{_escaped(_origin(summary))}, sha256 <code>{_escaped(summary.plan_hash)}</code>. "
        "Apply exactly this plan with <code>terradask apply PLAN</code>.</sub>\n"
    )
    room = limit - 1 - len(header) - len(footer)
    dangers = _fitting("", [_danger_line(d.address, d.text) for d in summary.dangers], "", room // 2, "dangers")
    room -= len(dangers)
    table = _fitting("\n| | resource | why |\n|---|---|---|\n", [_row(change) for change in summary.changes], "", room // 2, "resources")
    room -= len(table)
    drift = _fitting("\n### Changed beside Terraform\n\n", [_drift_lines(change) for change in summary.drift], "", room // 2, "resources")
    room -= len(drift)
    details = _fitting(
        "\n<details><summary>Values</summary>\n\n",
        [block for change in summary.changes if (block := _details(change))],
        "\n</details>\n",
        room,
        "resources",
    )
    return header + dangers + table + drift + details + footer


def _header(summary: PlanSummary) -> str:
    marker = f"<!-- terradask plan {_escaped(summary.stack)} -->"
    if summary.dangers:
        verdict = "needs a look"
    elif summary.changed:
        verdict = "changes"
    else:
        verdict = "no changes"
    danger = "\n> [!CAUTION]\n" if summary.dangers else ""
    return f"{marker}\n## {_escaped(summary.headline)} ({verdict})\n{danger}"


def _danger_line(address: str, text: str) -> str:
    return f"> - {_code(address)} {_escaped(text)}\n"


def _row(change: Change) -> str:
    why = [change.reason or "", *(f"{_code(path)} forces replacement" for path in change.replaced_because_of)]
    sign, word = _SIGNS.get(change.action, "?"), _WORDS.get(change.action, change.action)
    return f"| {sign} {word} | {_code(change.address)} | {'; '.join(filter(None, why))} |\n"


def _drift_lines(change: Change) -> str:
    values = "".join(f"  - {_code(_assignment(a))}\n" for a in change.attributes)
    gone = " is gone" if change.action == "delete" else ""
    return f"- {_code(change.address)}{gone}\n{values}"


def _details(change: Change) -> str:
    if not change.attributes:
        return ""
    lines = "".join(f"{_diff_lines(attribute)}" for attribute in change.attributes)
    return f"{_code(change.address)}\n\n```diff\n{lines}```\n\n"


def _diff_lines(attribute: AttributeChange) -> str:
    note = "  # forces replacement" if attribute.forces_replacement else ""
    lines = ""
    if attribute.before is not None:
        lines += f"- {attribute.path} = {_fenced(value_text(attribute.before))}\n"
    return f"{lines}+ {attribute.path} = {_fenced(value_text(attribute.after))}{note}\n"


def _fitting(head: str, blocks: Sequence[str], tail: str, room: int, what: str) -> str:
    """Return as many blocks as there is room for, and how many are missing."""
    if not blocks:
        return ""

    def missing(number: int) -> str:
        return f"\n… and {number} more {what}: see the job's log.\n"

    reserve = len(head) + len(tail) + len(missing(len(blocks)))
    kept, used = 0, reserve
    for block in blocks:
        if used + len(block) > room:
            break
        used += len(block)
        kept += 1
    if kept == 0 and used > room:
        return ""
    rest = missing(len(blocks) - kept) if kept < len(blocks) else ""
    return head + "".join(blocks[:kept]) + rest + tail


_ESCAPES: tuple[tuple[str, str], ...] = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("\n", " "), ("@", "@\u200b"))


def _escaped(text: str) -> str:
    """Return text that Markdown leaves as it is: no tag, table cell or mention comes of it."""
    for old, new in _ESCAPES:
        text = text.replace(old, new)
    return text


def _code(text: str) -> str:
    """Return text as inline code: as HTML, where backticks in it do no harm."""
    return f"<code>{_escaped(text)}</code>"


def _fenced(text: str) -> str:
    """Return text that can't end a fenced block."""
    return text.replace("```", "``\u200b`")


RENDERERS: dict[str, Callable[[PlanSummary], str]] = {"text": to_text, "markdown": to_markdown, "json": to_json}
