"""Render a report or drift as Markdown for a pull request's comment, within GitHub's limit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from terradask._catalog.prices.prices import HOURS_PER_MONTH, CostEstimate, CostItem
from terradask._common.naming import counted
from terradask._plans.policy.values import AttributeChange
from terradask._plans.render_terminal import (
    VERDICTS,
    WORDS,
    assignment,
    cost_origin,
    gone,
    made_with,
    price,
    sign_of,
    software,
    to_text,
    value_text,
)
from terradask._plans.summary import Change, Counts, PlanSummary
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from terradask._plans.policy.findings import PolicyFinding
    from terradask._plans.report import PlanReport, ReportContext, WorkspaceReport


#: A job finds and updates its own drift message by this line.
DRIFT_MARKER = "<!-- terradask drift -->"

#: GitHub's limit for comments, in characters.
MARKDOWN_LIMIT = 65_536

#: Priorities of sections: the highest number is left out first.
_STACKS, _NOTES, _DANGERS, _POLICY, _PLANS, _COST, _HARDWARE, _CHANGES, _DRIFT, _FULL = range(10)
#: Longest reason shown for a stack that could not be planned, in characters.
_REASON_LIMIT = 500


def to_markdown(
    report: WorkspaceReport, *, limit: int = MARKDOWN_LIMIT, can_be_applied: bool = True
) -> str:
    """Return a report as Markdown.

    The first line is a marker, by which a job finds and updates its own comment.

    Parameters
    ----------
    can_be_applied
        Whether the plans are saved in a folder, which the report then names.
    """
    header, footer = _header(report), _footer(report, can_be_applied=can_be_applied)
    sections = [
        *_overview(report),
        *(() if report.verdict == "no changes" else _details(report)),
        *_plans(report),
    ]
    return header + fitted(sections, limit - 1 - len(header) - len(footer)) + footer


def marker(context: ReportContext, stack: str | None = None) -> str:
    """Return the first line of every report of one workspace, or of one stack of it."""
    about = f"{stack} of " if stack else ""
    return (
        f"<!-- terradask plan {escaped(about)}{escaped(context.workspace)} "
        f"{escaped(context.account)} {escaped(context.region)} -->"
    )


def _header(report: WorkspaceReport) -> str:
    context = report.context
    name = report.stack or f"workspace {context.workspace}"
    counts, verdict = report.counts.text, VERDICTS[report.verdict]
    outcome = counts if verdict == counts else f"{counts} ({verdict})"
    where = f"workspace {context.workspace}, account {context.account}, {context.region}"
    return f"{marker(context, report.stack)}\n## {escaped(name)}: {outcome}\n{escaped(where)}\n"


def _footer(report: WorkspaceReport, *, can_be_applied: bool) -> str:
    context = report.context
    facts = [f"terradask {context.terradask_version}"]
    if report.plans:
        facts.append(made_with(report.plans[0].summary))
    if context.commit:
        facts.append(f"commit {context.commit}")
    how = (
        " Apply exactly this with <code>terradask apply DIR</code>, on the folder of this report."
        if report.counts.total and can_be_applied
        else ""
    )
    made = escaped(", ".join(facts))
    return f"\n{small(f'{made}.{how}')}\n"


# ---- sections ------------------------------------------------------------------------------------


def _overview(report: WorkspaceReport) -> Iterator[Section]:
    if report.stack is None:
        heads = ("stack", "verdict", "create", "update", "replace", "destroy", "import")
        rows = [
            row([code(plan.stack), VERDICTS[plan.verdict], *_numbers(plan.summary.counts)])
            for plan in report.plans
        ]
        yield Section("stacks", _STACKS, f"\n{table(heads)}", rows, "stacks")
    notes = [
        *(
            (stack, f"could not be planned: {escaped(reason[:_REASON_LIMIT])}")
            for stack, reason in report.failed.items()
        ),
        *((stack, "waits for the apply of the network") for stack in report.waiting),
        *(
            (stack, "is unchanged since it was applied, and wasn't planned")
            for stack in report.unchanged
        ),
    ]
    lines = [f"- {code(stack)} {note}\n" for stack, note in notes]
    yield Section("other stacks", _NOTES, "\n", lines, "stacks")


def _numbers(counts: Counts) -> list[str]:
    return [str(number or "") for number in asdict(counts).values()]


def _plans(report: WorkspaceReport) -> Iterator[Section]:
    lines = []
    for plan in report.plans:
        made = f" of {escaped(plan.summary.created_at)}" if plan.summary.created_at else ""
        expiry = f", expires {escaped(plan.expires_at)}" if plan.expires_at else ""
        hashed = f"sha256 {code(plan.summary.plan_hash)}"
        lines.append(f"{small(f'plan of {code(plan.stack)}{made}{expiry}, {hashed}')}<br>\n")
    yield Section("plans", _PLANS, "\n", lines, "plans")


def _details(report: WorkspaceReport) -> Iterator[Section]:
    several = report.stack is None
    plans = [(plan, f"{code(plan.stack)} " if several else "") for plan in report.plans]
    dangers = [
        f"> - {of_stack}{code(danger.address)} {escaped(danger.text)}\n"
        for plan, of_stack in plans
        for danger in plan.dangers
    ]
    yield Section("dangers", _DANGERS, "\n> [!CAUTION]\n", dangers, "dangers")
    findings = [_finding(plan, finding) for plan in report.plans for finding in plan.findings]
    head = f"\n### Policy\n\n{table(('rule', '', 'resource', 'finding'))}"
    yield Section("policy", _POLICY, head, findings, "findings")
    yield from _cost(report)
    hardware = [
        f"- {of_stack}{escaped(group)}: {escaped(reason)}\n"
        for plan, of_stack in plans
        for group, reason in plan.hardware.items()
    ]
    for what, shown in (("container", code), ("environment", escaped)):
        hardware += [
            f"- {of_stack}{what}: {shown(name)}\n"
            for plan, of_stack in plans
            for kind, name in software(plan)
            if kind == what
        ]
    yield Section("hardware", _HARDWARE, "\n### Hardware\n\n", hardware, "groups")
    for plan in report.plans:
        stack, summary = plan.stack, plan.summary
        title = f"\n### {escaped(stack) if several else 'Resources'}\n\n"
        blocks = [_resource(change) for change in summary.changes]
        if summary.outputs:
            blocks.append(f"Outputs\n\n{_values(summary.outputs)}\n")
        yield Section(stack, _CHANGES, title, blocks, "resources")
        title = f"\n### Changed outside Terraform{f': {escaped(stack)}' if several else ''}\n\n"
        drift = [_drift(change) for change in summary.drift]
        yield Section(f"drift of {stack}", _DRIFT, title, drift, "resources")
    head = "\n<details><summary>Full text</summary>\n\n```text\n"
    full = [f"{fenced(line)}\n" for plan in report.plans for line in to_text(plan).splitlines()]
    yield Section("full text", _FULL, head, full, "lines", tail="```\n\n</details>\n")


def _finding(plan: PlanReport, finding: PolicyFinding) -> str:
    word, more = str(finding.severity), finding.advice
    if finding.waived:
        word, more = f"waived until {escaped(finding.waived.expires)}", finding.waived.reason
    resource = code(finding.address or plan.stack)
    return row([code(finding.check), word, resource, _noted(finding.message, more)])


def _noted(text: str, note: str | None) -> str:
    return escaped(text) + (f"<br>{small(escaped(note))}" if note else "")


def _cost(report: WorkspaceReport) -> Iterator[Section]:
    costs = [(plan.stack, plan.cost) for plan in report.plans if plan.cost is not None]
    whole = report.cost
    # First: blocks that don't fit are left out from the end.
    rows = list(_cost_totals("these stacks together", whole)) if whole is not None else []
    tail = ""
    for stack, cost in costs:
        if cost.has_no_price:
            note = f"no prices for {code(stack)}: {escaped(cost.problem or '')}"
        else:
            rows += [*map(_cost_item, cost.items), *_cost_totals(stack, cost)]
            number = len(cost.unpriced)
            missing = f", {number} without a price and not in the total" if number else ""
            note = f"{code(stack)}: {escaped(cost_origin(cost))}{missing}"
        tail += f"\n{small(note)}\n"
    per_size = ("desired", "USD a month", "at most", "USD a month")
    head = table(("resource", "what", "USD an hour", *per_size)) if rows else ""
    blocks = rows or ["\n"] * bool(costs)
    yield Section("cost", _COST, f"\n### Cost\n\n{head}", blocks, "items", tail)


def _cost_item(item: CostItem) -> str:
    desired, most = (
        None if hourly is None else hourly * HOURS_PER_MONTH
        for hourly in (item.desired_hourly_usd, item.maximum_hourly_usd)
    )
    what, each = _noted(item.what, item.note), price(item.unit_hourly_usd, digits=4)
    sizes = [str(item.desired), price(desired), str(item.maximum), price(most)]
    return row([code(item.address), what, each, *sizes])


def _cost_totals(stack: str, cost: CostEstimate) -> Iterator[str]:
    hourly = (cost.stopped_hourly_usd, cost.desired_hourly_usd, cost.maximum_hourly_usd)
    stopped, desired, most = (price(amount * HOURS_PER_MONTH) for amount in hourly)
    yield row([f"**{escaped(stack)}**", "**total**", "", "", f"**{desired}**", "", f"**{most}**"])
    if cost.stopped_hourly_usd != cost.desired_hourly_usd:
        yield row([f"**{escaped(stack)}**", "while stopped", "", "", stopped, "", stopped])


# ---- resources -----------------------------------------------------------------------------------


def _resource(change: Change) -> str:
    """Return one resource, folded if it is new: its values, and its documents' diffs."""
    reasons = [
        escaped(change.reason or ""),
        *(f"{code(path)} forces replacement" for path in change.replaced_because_of),
    ]
    why = "; ".join(filter(None, reasons))
    summary = (
        f"{sign_of(change.action)[0]} {WORDS.get(change.action, change.action)} "
        f"{code(change.address)}{f' ({why})' if why else ''}"
    )
    known = [a for a in change.values_beside_documents if a.known]
    later = [code(a.path) for a in change.attributes if not a.known]
    body = _values(known) if known else ""
    if later:
        body += f"\nknown after apply: {', '.join(later)}\n"
    for document in change.documents:
        diff = "".join(f"{fenced(line)}\n" for line in document.lines)
        body += f"\n{code(document.path)}\n\n```diff\n{diff}```\n"
    if not body:
        return f"{summary}\n\n"
    opened = "" if change.action == "create" else " open"
    return f"<details{opened}><summary>{summary}</summary>\n\n{body}\n</details>\n\n"


def _values(attributes: Sequence[AttributeChange]) -> str:
    rows = []
    for attribute in attributes:
        before = "" if attribute.before is None else code(value_text(attribute.before))
        note = " **forces replacement**" if attribute.forces_replacement else ""
        rows.append(row([code(attribute.path), before, code(value_text(attribute.after)) + note]))
    return table(("", "before", "after"), rows)


def _drift(change: Change) -> str:
    values = "".join(f"  - {code(assignment(a))}\n" for a in change.attributes)
    return f"- {code(change.address)}{gone(change)}\n{values}"


def drift_markdown(summaries: Sequence[PlanSummary]) -> str:
    """Return the drift of several stacks, or a note that there is none."""
    drifted = [summary for summary in summaries if summary.drift]
    parts = [DRIFT_MARKER, f"## {'Changed outside Terraform' if drifted else 'No drift'}", ""]
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


# ---- Markdown with escaped content, cut to a limit -----------------------------------------------


_ESCAPES = (
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ("#", "#\u200b"),
    ("|", "\\|"),
    ("\n", " "),
    ("@", "@\u200b"),
    ("`", "&#96;"),
    ("*", "&#42;"),
    ("](", "]\u200b("),
    ("~~", "~\u200b~"),
    ("://", ":\u200b//"),
)


@dataclass(frozen=True)
class Section:
    """A part of a page that may be shortened."""

    name: str
    #: Its priority: the lowest number is kept longest.
    rank: int
    #: `head`, `tail`: the text around the blocks; without blocks there is no section.
    head: str
    #: Its content in blocks, each kept or left out entirely.
    blocks: Sequence[str]
    #: The noun for the blocks, in the line about missing ones.
    what: str
    tail: str = ""


def fitted(sections: Sequence[Section], room: int) -> str:
    """Return sections in order, the least important ones cut to fit a number of characters."""
    sections = [section for section in sections if section.blocks]
    # First a line for every section, in case it is left out.
    texts = [_missing(section, len(section.blocks), whole=True) for section in sections]
    left = room - sum(map(len, texts))
    for at in sorted(range(len(sections)), key=lambda at: sections[at].rank):
        note = texts[at]
        texts[at] = _cut(sections[at], left + len(note)) or note
        left += len(note) - len(texts[at])
    page = "".join(texts)
    return page if len(page) <= room else ""


def _cut(section: Section, room: int) -> str:
    """Return a section with as many blocks as fit; empty if none fits."""
    around = len(section.head) + len(section.tail)
    ends = list(accumulate(map(len, section.blocks)))
    kept, note = len(ends), ""
    if around + ends[-1] > room:
        kept = bisect_right(ends, room - around - len(_missing(section, len(ends))))
        note = _missing(section, len(ends) - kept)
    return section.head + "".join(section.blocks[:kept]) + section.tail + note if kept else ""


def _missing(section: Section, number: int, *, whole: bool = False) -> str:
    more = "" if whole else "more "
    return (
        f"\n… left out for length: {section.name}, {number} {more}{section.what}; report.json "
        "has them.\n"
    )


def table(heads: Sequence[str], rows: Sequence[str] = ()) -> str:
    """Return a table, or the start of one, from rows and column names that are Markdown already."""
    named = row(heads).replace("  ", " ")
    return f"{named}|{'---|' * len(heads)}\n{''.join(rows)}"


def row(cells: Sequence[str]) -> str:
    """Return a row of a table, from cells that are Markdown already."""
    return f"| {' | '.join(cells)} |\n"


def small(text: str) -> str:
    """Return Markdown in small letters."""
    return f"<sub>{text}</sub>"


def escaped(text: str) -> str:
    """Return text escaped for Markdown: it creates no tag, table cell, link or mention."""
    text = plain_text(text.replace("\r", " "))
    for old, new in _ESCAPES:
        text = text.replace(old, new)
    return text


def code(text: str) -> str:
    """Return text as inline code, written in HTML so that backticks are harmless."""
    return f"<code>{escaped(text)}</code>"


def fenced(text: str) -> str:
    """Return text that can't end a fenced block."""
    return plain_text(text).replace("```", "``\u200b`")
