"""Render a report as Markdown for a pull request's comment, within GitHub's limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from terradask._common.naming import counted
from terradask._common.text_table import shortened
from terradask._plans.cautions import Caution, cautions
from terradask._plans.markdown import (
    Section,
    code,
    escaped,
    fence,
    fitted,
    fold,
    html_code,
    prose,
    small,
)
from terradask._plans.render_changes import before_after, compared, drifted, outputs
from terradask._plans.render_cost import changed_cost
from terradask._plans.render_folded import addresses, costs, documents, following, values
from terradask._plans.render_terminal import VERDICTS, made_with
from terradask._plans.report_parts import NAMED_STACKS, Rank, by_type_text, in_bold, stacks_text
from terradask._plans.summary import effect_of

if TYPE_CHECKING:
    from terradask._plans.policy.findings import PolicyFinding
    from terradask._plans.report import ReportContext, WorkspaceReport


#: The longest report: GitHub's limit is 65,536 characters, and bots add their own text.
MARKDOWN_LIMIT = 64_000

#: Longest reason shown for a stack that could not be planned, in characters.
_REASON_LIMIT = 500
#: How many lines of each kind are shown before the rest folds.
_SHOWN_STACKS = 8
_SHOWN_CAUTIONS = 8
_SHOWN_FINDINGS = 8
_NAMED_RESOURCES = 4
_RUNNING = 4


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
    sections = list(_short(report) if report.verdict == "no changes" else _whole(report))
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
    effect, verdict = _effect(report), VERDICTS[report.verdict]
    if report.failed:
        verdict = f"{counted(len(report.failed), 'stack')} {verdict}"
    outcome = f"{effect} ({verdict})" if effect and verdict != "changes" else effect or verdict
    workspace = f"workspace {context.workspace}, " if report.stack else ""
    where = f"{workspace}account {context.account}, {context.region}"
    return f"{marker(context, report.stack)}\n## {escaped(name)}: {outcome}\n{escaped(where)}\n"


def _effect(report: WorkspaceReport) -> str:
    """Return what plans change, in words; empty if nothing."""
    changing = any(plan.summary.changed for plan in report.plans)
    number = sum(len(plan.summary.outputs) for plan in report.plans)
    return effect_of(report.counts, number) if changing else ""


def _footer(report: WorkspaceReport, *, can_be_applied: bool) -> str:
    if not (_effect(report) and can_be_applied):
        return ""
    how = "Apply exactly this with <code>terradask apply DIR</code>, on the folder of this report."
    # Below the report's origin: GitLab joins lines.
    return f"<br>{small(how)}\n"


def _short(report: WorkspaceReport) -> Iterator[Section]:
    yield from _others(report)
    yield from _origin(report)


def _whole(report: WorkspaceReport) -> Iterator[Section]:
    found = cautions(report.plans)
    several = report.stack is None
    yield from _failed(report)
    yield from _cautions(found, several=several)
    yield from _policy(report)
    yield from _overview(report)
    yield from compared(report)
    yield from outputs(report)
    yield from drifted(report)
    yield from _others(report)
    yield from following(found)
    yield from addresses(report)
    yield from costs(report)
    yield from values(report)
    yield from documents(report)
    yield from _origin(report)


def _cautions(found: Sequence[Caution], *, several: bool) -> Iterator[Section]:
    items = [_caution(one, several=several) for one in found]
    shown = ["".join(f"> {line}\n" for line in item) for item in items[:_SHOWN_CAUTIONS]]
    yield Section("cautions", Rank.CAUTIONS, "\n> [!CAUTION]\n", shown, "cautions")
    rest = ["".join(f"{line}\n" for line in item) for item in items[_SHOWN_CAUTIONS:]]
    summary = counted(len(rest), "more caution")
    yield fold(summary, Rank.CAUTIONS, rest, name="more cautions", what="cautions")


def _caution(one: Caution, *, several: bool) -> list[str]:
    happens = "; ".join(map(prose, one.texts))
    if one.forced_by:
        happens += f" (because of {', '.join(map(before_after, one.forced_by))})"
    parts = [happens, *([f"**{one.following}**"] if one.following else [])]
    running = [prose(text) for text in one.running[:_RUNNING]]
    if len(one.running) > _RUNNING:
        running.append(f"so are {len(one.running) - _RUNNING} more clusters")
    if len(running) == 1:
        parts += running
    of = in_bold(one.stacks) if several else ""
    lines = [f"- {of}{code(one.address)} {'; '.join(filter(None, parts))}"]
    for before, after in one.rules:
        rules = fence([f"- {before}", f"+ {after}"], "diff")
        lines += [f"  {line}" for line in rules.splitlines()]
    if len(running) > 1:
        lines += [f"  - {text}" for text in running]
    return lines


def _policy(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the findings, equal ones once; notes and waived ones are folded."""
    several = report.stack is None
    alike: dict[tuple[int, str, str], dict[str, list[str]]] = {}
    for plan in report.plans:
        for finding in plan.findings:
            rank = 0 if finding.blocking else 1 if _is_open(finding) else 2
            places = alike.setdefault((rank, *_finding(finding)), {}).setdefault(plan.stack, [])
            places += [finding.address] if finding.address else []
    lines: dict[bool, list[str]] = {True: [], False: []}
    for (rank, head, text), stacks in sorted(alike.items(), key=lambda each: each[0][0]):
        addresses = list(dict.fromkeys(one for places in stacks.values() for one in places))
        of = f"{stacks_text(list(stacks))} " if several else ""
        more = len(addresses) - _NAMED_RESOURCES
        others = f" and {more} more" if more > 0 else ""
        named = ", ".join(by_type_text(addresses[:_NAMED_RESOURCES]))
        where = f"{named}{others} " if addresses else ""
        lines[rank < 2].append(f"- {head} {of}{where}{text}\n")
    shown, rest = lines[True][:_SHOWN_FINDINGS], lines[True][_SHOWN_FINDINGS:] + lines[False]
    yield Section("policy", Rank.POLICY, "\n**Policy**\n\n", shown, "findings")
    summary = counted(len(rest), f"{'more ' if shown else ''}finding")
    yield fold(f"Policy: {summary}", Rank.POLICY, rest, name="more findings", what="findings")


def _is_open(finding: PolicyFinding) -> bool:
    return finding.waived is None and str(finding.severity) != "note"


def _finding(finding: PolicyFinding) -> tuple[str, str]:
    """Return a finding's severity with its rule, and its text."""
    word, more = str(finding.severity), finding.advice
    if finding.waived:
        word, more = f"waived until {escaped(finding.waived.expires)}", finding.waived.reason
    note = f"<br>{small(escaped(more))}" if more else ""
    return f"**{word}** {code(finding.check)}", f"{escaped(finding.message)}{note}"


def _overview(report: WorkspaceReport) -> Iterator[Section]:
    changing = [plan for plan in report.plans if plan.verdict != "no changes"]
    if report.stack is not None or len(changing) < 2:
        cost = [f"**Cost** {cost}\n" for cost in map(changed_cost, changing) if cost]
        yield Section("cost", Rank.COST, "\n", cost, "lines")
        return
    alike: dict[str, list[str]] = {}
    for plan in changing:
        verdict, summary = VERDICTS[plan.verdict], plan.summary
        noted = f" ({verdict})" if plan.verdict != "changes" else ""
        effect = effect_of(summary.counts, len(summary.outputs))
        what = f"{effect}{noted}" if summary.changed else verdict
        parts = (what, changed_cost(plan))
        alike.setdefault(" · ".join(filter(None, parts)), []).append(plan.stack)
    # A list: a table of these would be wider than a phone.
    lines = [
        f"- **{stacks_text(stacks)}**{': each' if len(stacks) > 1 else ':'} {text}\n"
        for text, stacks in alike.items()
    ]
    together = changed_cost(report)
    end = f"- **together**: {together}\n" if together else ""
    shown = [*lines[:_SHOWN_STACKS], *filter(None, [end])]
    yield Section("stacks", Rank.OVERVIEW, "\n", shown, "stacks")
    hidden = sum(map(len, list(alike.values())[_SHOWN_STACKS:]))
    rest = lines[_SHOWN_STACKS:]
    yield fold(f"{hidden} more stacks", Rank.OVERVIEW, rest, name="more stacks", what="stacks")


def _failed(report: WorkspaceReport) -> Iterator[Section]:
    lines = [
        f"- **{escaped(stack)}** could not be planned: {escaped(reason)}\n"
        for stack, whole in report.failed.items()
        for reason in [shortened(whole, _REASON_LIMIT)]
    ]
    yield Section("failed stacks", Rank.NOTES, "\n", lines, "stacks")


def _others(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the stacks without changes, in a line each."""
    same = [plan.stack for plan in report.plans if plan.verdict == "no changes"]
    notes = [
        (report.waiting, "waiting for the apply of the network"),
        (same if report.stack is None else (), "no changes"),
        (report.unchanged, "unchanged since the last apply"),
    ]
    lines = [f"{stacks_text(stacks)}: {what}" for stacks, what in notes if stacks]
    text = [f"{' · '.join(lines)}\n"] if lines else []
    yield Section("other stacks", Rank.NOTES, "\n", text, "lines")


def _origin(report: WorkspaceReport) -> Iterator[Section]:
    context = report.context
    facts = [f"terradask {context.terradask_version}"]
    if report.plans:
        facts.append(made_with(report.plans[0].summary))
    if context.commit:
        facts.append(f"commit {context.commit}")
    lines = [escaped(", ".join(facts))]
    if report.plans:
        # The digits by which `terradask history` names a plan.
        each = (f"{escaped(p.stack)} {html_code(p.summary.plan_hash[:12])}" for p in report.plans)
        made = min(plan.summary.created_at for plan in report.plans)
        expiry = min(plan.expires_at for plan in report.plans)
        until = f", to be applied until {escaped(expiry)}" if expiry else ""
        what = "plan" if len(report.plans) == 1 else "plans"
        lines.append(f"{what} of {escaped(made)}{until}: {', '.join(each)}")
    if len(report.plans) > NAMED_STACKS:
        yield fold(
            "Origin", Rank.ORIGIN, [f"- {line}\n" for line in lines], name="origin", what="plans"
        )
    else:
        yield Section("origin", Rank.ORIGIN, "\n", [f"{small('<br>'.join(lines))}\n"], "plans")
