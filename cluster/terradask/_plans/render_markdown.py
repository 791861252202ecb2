"""Render a report as Markdown for a pull request's comment, within GitHub's limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from terradask._common.naming import counted, some
from terradask._plans.cautions import Caution, cautions
from terradask._plans.equal_changes import (
    ChangeIn,
    EqualChange,
    Gathered,
    digest_of,
    gather,
    shared_documents,
)
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
from terradask._plans.policy.values import AttributeChange, top_level
from terradask._plans.render_cost import changed_cost, cost_details
from terradask._plans.render_terminal import (
    VERDICTS,
    WORDS,
    assignment,
    by_type,
    gone,
    made_with,
    sign_of,
    software,
    value_text,
)
from terradask._plans.report import cost_changes
from terradask._plans.summary import Change, PlanSummary, values_beside_documents

if TYPE_CHECKING:
    from terradask._plans.policy.findings import PolicyFinding
    from terradask._plans.report import ReportContext, WorkspaceReport


#: The longest report: GitHub's limit is 65,536 characters, and bots add their own text.
MARKDOWN_LIMIT = 64_000

#: Priorities of sections: the highest number is left out first.
(
    _OVERVIEW,
    _NOTES,
    _CAUTIONS,
    _POLICY,
    _COST,
    _EQUAL,
    _CHANGES,
    _DRIFT,
    _ORIGIN,
    _ADDRESSES,
    _FOLLOWING,
    _COSTS,
    _VALUES,
    _DOCUMENTS,
) = range(14)
#: Longest reason shown for a stack that could not be planned, in characters.
_REASON_LIMIT = 500
#: How many lines of each kind are shown before the rest folds.
_SHOWN_STACKS = 8
_SHOWN_CAUTIONS = 8
_SHOWN_FINDINGS = 8
_SHOWN_CHANGES = 10
_SHOWN_VALUES = 6
_NAMED_STACKS = 4
_NAMED_RESOURCES = 4
#: How many addresses a line has, so that a page can be cut between them.
_A_LINE = 100
_RUNNING = 4
#: From this number of resources on, values that are known later are one line.
_MANY = 3
#: The same for the values of what is made: fewer belong together with its others.
_MANY_MADE = 10
#: How many values of a list, and of a document, are shown one by one.
_LISTED = 4

#: Actions whose values are compared in the open.
_COMPARED = ("update", "import")
_MADE = ("create", "replace")


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
    counts, verdict = report.counts.text, VERDICTS[report.verdict]
    outcome = counts if verdict in (counts, "changes") else f"{counts} ({verdict})"
    if not report.counts.total:
        outcome = verdict
    workspace = f"workspace {context.workspace}, " if report.stack else ""
    where = f"{workspace}account {context.account}, {context.region}"
    return f"{marker(context, report.stack)}\n## {escaped(name)}: {outcome}\n{escaped(where)}\n"


def _footer(report: WorkspaceReport, *, can_be_applied: bool) -> str:
    if not (report.counts.total and can_be_applied):
        return ""
    how = "Apply exactly this with <code>terradask apply DIR</code>, on the folder of this report."
    return f"{small(how)}\n"


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
    summaries = [plan.summary for plan in report.plans]
    compared = gather(summaries, _COMPARED)
    yield from _compared(compared, several=several)
    yield from _drift(report)
    yield from _others(report)
    yield from _following(found)
    yield from _addresses(report)
    yield from _costs(report)
    yield from _values(report)
    yield from _documents(report)
    yield from _origin(report)


# ---- what matters most ---------------------------------------------------------------------------


def _cautions(found: Sequence[Caution], *, several: bool) -> Iterator[Section]:
    items = [_caution(one, several=several) for one in found]
    shown = ["".join(f"> {line}\n" for line in item) for item in items[:_SHOWN_CAUTIONS]]
    yield Section("cautions", _CAUTIONS, "\n> [!CAUTION]\n", shown, "cautions")
    rest = ["".join(f"{line}\n" for line in item) for item in items[_SHOWN_CAUTIONS:]]
    summary = counted(len(rest), "more caution")
    yield fold(summary, _CAUTIONS, rest, name="more cautions", what="cautions")


def _caution(one: Caution, *, several: bool) -> list[str]:
    happens = "; ".join(map(prose, one.texts))
    if one.forced_by:
        happens += f" (because of {', '.join(map(before_after, one.forced_by))})"
    parts = [happens, *([f"**{one.following}**"] if one.following else [])]
    parts += map(prose, one.running[:_RUNNING])
    if len(one.running) > _RUNNING:
        parts.append(f"so are {len(one.running) - _RUNNING} more clusters")
    of = f"**{_stacks(one.stacks)}** " if several else ""
    lines = [f"- {of}{code(one.address)} {'; '.join(filter(None, parts))}"]
    for before, after in one.rules:
        rules = fence([f"- {before}", f"+ {after}"], "diff")
        lines += [f"  {line}" for line in rules.splitlines()]
    return lines


def _stacks(names: Sequence[str], *, most: int = _NAMED_STACKS) -> str:
    shown = ", ".join(map(escaped, names[:most]))
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


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
        of = f"{_stacks(list(stacks))} " if several else ""
        more = len(addresses) - _NAMED_RESOURCES
        others = f" and {more} more" if more > 0 else ""
        named = ", ".join(_by_type(addresses[:_NAMED_RESOURCES]))
        where = f"{named}{others} " if addresses else ""
        lines[rank < 2].append(f"- {head} {of}{where}{text}\n")
    shown, rest = lines[True][:_SHOWN_FINDINGS], lines[True][_SHOWN_FINDINGS:] + lines[False]
    yield Section("policy", _POLICY, "\n**Policy**\n\n", shown, "findings")
    summary = counted(len(rest), f"{'more ' if shown else ''}finding")
    yield fold(f"Policy: {summary}", _POLICY, rest, name="more findings", what="findings")


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
        yield Section("cost", _COST, "\n", cost, "lines")
        return
    alike: dict[str, list[str]] = {}
    for plan in changing:
        verdict, counts = VERDICTS[plan.verdict], plan.summary.counts
        noted = f" ({verdict})" if plan.verdict != "changes" and counts.total else ""
        what = f"{counts.text if counts.total else verdict}{noted}"
        parts = (what, changed_cost(plan))
        alike.setdefault(" · ".join(filter(None, parts)), []).append(plan.stack)
    # A list: a table of these would be wider than a phone.
    lines = [
        f"- **{_stacks(stacks)}**{': each' if len(stacks) > 1 else ':'} {text}\n"
        for text, stacks in alike.items()
    ]
    together = changed_cost(report)
    end = f"- **together**: {together}\n" if together else ""
    shown = [*lines[:_SHOWN_STACKS], *filter(None, [end])]
    yield Section("stacks", _OVERVIEW, "\n", shown, "stacks")
    hidden = sum(map(len, list(alike.values())[_SHOWN_STACKS:]))
    rest = lines[_SHOWN_STACKS:]
    yield fold(f"{hidden} more stacks", _OVERVIEW, rest, name="more stacks", what="stacks")


def _failed(report: WorkspaceReport) -> Iterator[Section]:
    lines = [
        f"- **{escaped(stack)}** could not be planned: {escaped(reason[:_REASON_LIMIT])}\n"
        for stack, reason in report.failed.items()
    ]
    yield Section("failed stacks", _NOTES, "\n", lines, "stacks")


def _others(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the stacks without changes, in a line each."""
    same = [plan.stack for plan in report.plans if plan.verdict == "no changes"]
    notes = [
        (report.waiting, "waiting for the apply of the network"),
        (same if report.stack is None else (), "no changes"),
        (report.unchanged, "unchanged since the last apply"),
    ]
    lines = [f"{_stacks(stacks)}: {what}" for stacks, what in notes if stacks]
    text = [f"{' · '.join(lines)}\n"] if lines else []
    yield Section("other stacks", _NOTES, "\n", text, "lines")


# ---- changes -------------------------------------------------------------------------------------


def _compared(compared: Gathered, *, several: bool) -> Iterator[Section]:
    lines = [_equal(one, several=several) for one in compared.equal]
    shown, rest = lines[:_SHOWN_CHANGES], lines[_SHOWN_CHANGES:]
    title = "\n**Changes**\n\n"
    yield Section("equal changes", _EQUAL, title, shown, "changes")
    alike: dict[str, list[str]] = {}
    unknown = [one for one in compared.rest if not any(a.known for a in one.change.attributes)]
    together = unknown if len(unknown) >= _MANY else []
    for one in compared.rest:
        if one not in together:
            alike.setdefault(_change(one.change), []).append(one.stack)
    blocks = [
        f"- {f'**{_stacks(stacks)}** ' if several else ''}{text}" for text, stacks in alike.items()
    ]
    if together:
        paths = dict.fromkeys(code(a.path) for one in together for a in one.change.attributes)
        what = counted(len(together), "resource")
        blocks.append(f"- **{what}**: {', '.join(paths)} known after the apply\n")
    open_lines = max(_SHOWN_CHANGES - len(shown), 3)
    head = "" if shown else title
    yield Section("changes", _CHANGES, head, blocks[:open_lines], "changes")
    hidden = [*rest, *blocks[open_lines:]]
    summary = counted(len(hidden), "more change")
    yield fold(summary, _CHANGES, hidden, name="more changes", what="changes")


def _equal(one: EqualChange, *, several: bool) -> str:
    each = ", ".join(f"{escaped(stack)} {number}" for stack, number in one.resources.items())
    if len(one.resources) > _NAMED_STACKS:
        each = f"in {len(one.resources)} stacks"
    of = f" ({each})" if several else ""
    return f"- **{counted(one.number, 'resource')}**{of}: {_values_of(one)}\n"


def _values_of(one: EqualChange) -> str:
    shown = [before_after(value) for value in one.values[:_SHOWN_VALUES]]
    if len(one.values) > _SHOWN_VALUES:
        shown.append(f"and {len(one.values) - _SHOWN_VALUES} more values")
    return "; ".join(shown)


def _change(change: Change) -> str:
    """Return one resource with its values before and after, as one item of a list."""
    word = WORDS.get(change.action, change.action)
    why = f" ({escaped(change.reason)})" if change.reason else ""
    shown = list(_lines(change))
    if len(shown) > _SHOWN_VALUES + 1:
        shown[_SHOWN_VALUES:] = [f"and {len(shown) - _SHOWN_VALUES} more values"]
    if not shown:
        later = ", ".join(code(value.path) for value in change.attributes[:_SHOWN_VALUES])
        shown = [f"{later} known after the apply"]
    head = f"{word} {code(change.address)}{why}"
    if len(shown) == 1:
        return f"{head}: {shown[0]}\n"
    return f"{head}\n{''.join(f'  - {line}{chr(10)}' for line in shown)}"


def _lines(change: Change) -> Iterator[str]:
    """Yield each known value before and after; those of a document only if they are few, else its
    name.
    """
    documents = {document.path: document for document in change.documents}
    known = [value for value in change.attributes if value.known]
    inside = Counter(top_level(value.path) for value in known)
    named = set()
    for value in known:
        document = documents.get(top_level(value.path))
        if document is None or inside[document.path] <= _LISTED:
            yield before_after(value)
        elif document.path not in named:
            named.add(document.path)
            yield f"{code(document.path)} (document {code(digest_of(document))} below)"


def before_after(value: AttributeChange) -> str:
    """Return a value before and after the apply, in a line."""
    if not value.known:
        return code(value.path)
    before, after = (_plain_value(side) for side in (value.before, value.after))
    if value.before is None:
        return f"{code(value.path)} {code(after)} (new)"
    return f"{code(value.path)} {code(before)} → {code(after)}"


def _plain_value(value: object) -> str:
    """Return a value on one line; text without quotes unless it would look like another value."""
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return some([_plain_value(one) for one in value], _LISTED) if value else "none"
    written = value_text(value)
    bare = written[1:-1]
    plain = isinstance(value, str) and written == f'"{value}"' and value.strip() == value
    return bare if plain and value not in ("", "none", "true", "false") else written


def _drift(report: WorkspaceReport) -> Iterator[Section]:
    several = report.stack is None
    blocks = []
    for plan in report.plans:
        of = f"**{escaped(plan.stack)}** " if several else ""
        for change in plan.summary.drift:
            values = [f"  - {before_after(a)}\n" for a in change.attributes]
            blocks.append(f"- {of}{code(change.address)}{gone(change)}\n{''.join(values)}")
    shown, rest = blocks[:_SHOWN_CHANGES], blocks[_SHOWN_CHANGES:]
    yield Section("drift", _DRIFT, "\n**Changed outside Terraform**\n\n", shown, "resources")
    summary = f"{counted(len(rest), 'more resource')} changed outside Terraform"
    yield fold(summary, _DRIFT, rest, name="more drift", what="resources")


# ---- folded --------------------------------------------------------------------------------------


def _following(found: Sequence[Caution]) -> Iterator[Section]:
    for one in found:
        if not one.following:
            continue
        alike: dict[str, list[str]] = {}
        for danger in one.followers:
            alike.setdefault(prose(danger.text), []).append(danger.address)
        lines = [f"- {', '.join(_by_type(named))} {text}\n" for text, named in alike.items()]
        summary = f"{html_code(one.address)} and {one.following}"
        yield fold(
            summary, _FOLLOWING, lines, name=f"what follows from {one.address}", what="lines"
        )


def _addresses(report: WorkspaceReport) -> Iterator[Section]:
    several = report.stack is None
    alike: dict[str, list[str]] = {}
    for plan in report.plans:
        by_action: dict[str, list[Change]] = {}
        for change in plan.summary.changes:
            by_action.setdefault(change.action, []).append(change)
        for action, changes in by_action.items():
            for at in range(0, len(changes), _A_LINE):
                part = changes[at : at + _A_LINE]
                named = ", ".join(_by_type(change.address for change in part))
                what = f"{sign_of(action)[0]} {WORDS.get(action, action)} {len(part)}"
                alike.setdefault(f"{what}: {named}\n", []).append(plan.stack)
    blocks = [
        f"- {f'**{_stacks(stacks, most=len(stacks))}** ' if several else ''}{text}"
        for text, stacks in alike.items()
    ]
    number = report.counts.total
    what = "resources" if number == 1 else "all resources"
    summary = "The resource" if number == 1 else f"All {number} resources"
    yield fold(summary, _ADDRESSES, blocks, name=what, what="lines")


def _by_type(addresses: Iterable[str]) -> Iterator[str]:
    return map(code, by_type(addresses))


def _costs(report: WorkspaceReport) -> Iterator[Section]:
    plans = [plan for plan in report.plans if cost_changes(plan)]
    alike: dict[str, list[str]] = {}
    for plan in report.plans:
        if plan.cost is not None and not cost_changes(plan):
            continue
        for group, why in plan.hardware.items():
            alike.setdefault(f"{escaped(group)}: {escaped(why)}", []).append(plan.stack)
        for what, name in software(plan):
            shown = code(name) if what == "container" else escaped(name)
            alike.setdefault(f"{what}: {shown}", []).append(plan.stack)
    lines = [
        f"- {f'**{_stacks(stacks)}** ' if report.stack is None else ''}{text}\n"
        for text, stacks in alike.items()
    ]
    yield fold("Hardware", _COSTS, lines, name="hardware", what="groups")
    tables: dict[str, list[str]] = {}
    for plan in plans:
        tables.setdefault(cost_details(plan), []).append(plan.stack)
    blocks = [
        f"{_stacks(stacks)}\n\n{shown}" if report.stack is None else shown
        for shown, stacks in tables.items()
    ]
    yield fold("Cost of each resource", _COSTS, blocks, name="cost of each resource", what="items")


def _values(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the values of what is made, those of many resources once."""
    alike: dict[str, list[str]] = {}
    for plan in report.plans:
        for block in _made(plan.summary):
            alike.setdefault(block, []).append(plan.stack)
    several = report.stack is None and len(report.plans) > 1
    blocks = [
        f"{f'{_stacks(stacks)}{chr(10)}{chr(10)}' if several else ''}{block}\n"
        for block, stacks in alike.items()
    ]
    number = report.counts.create + report.counts.replace
    summary = f"Values of {counted(number, 'created or replaced resource')}"
    yield fold(summary, _VALUES, blocks, name="values", what="resources")


def _made(summary: PlanSummary) -> Iterator[str]:
    made = gather([summary], _MADE, least=_MANY_MADE)
    if made.equal:
        yield fence(
            f"{assignment(value)}  # in {one.number} resources"
            for one in made.equal
            for value in one.values
        )
    for one in made.rest:
        change = one.change
        shown = [assignment(a) for a in values_beside_documents(change) if a.known]
        later = [a.path for a in change.attributes if not a.known]
        if change.follows and not shown:
            continue
        if later:
            shown.append(f"known after apply: {', '.join(later)}")
        shown += [f"{d.path}: document {digest_of(d)}" for d in change.documents]
        if shown:
            head = f"{sign_of(change.action)[0]} {change.address}"
            yield fence([head, *(f"    {line}" for line in shown)])


def _documents(report: WorkspaceReport) -> Iterator[Section]:
    every = [ChangeIn(p.stack, change) for p in report.plans for change in p.summary.changes]
    blocks = []
    for shared in shared_documents(every):
        where = ", ".join(_by_type(dict.fromkeys(place for _, place, _ in shared.places)))
        head = f"{code(shared.places[0][2])} of {where}: document {code(shared.digest)}"
        lines, like = shared.document.lines, ""
        if shared.like:
            lines, like = shared.difference, f", like {code(shared.like)} but for"
        blocks.append(f"{head}{like}\n\n{fence(lines, 'diff')}\n")
    summary = f"{counted(len(blocks), 'document')}: policies, descriptors, user data"
    yield fold(summary, _DOCUMENTS, blocks, name="documents", what="documents")


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
        lines.append(f"plans of {escaped(made)}{until}: {', '.join(each)}")
    if len(report.plans) > _NAMED_STACKS:
        yield fold(
            "Origin", _ORIGIN, [f"- {line}\n" for line in lines], name="origin", what="plans"
        )
    else:
        yield Section("origin", _ORIGIN, "\n", [f"{small('<br>'.join(lines))}\n"], "plans")
