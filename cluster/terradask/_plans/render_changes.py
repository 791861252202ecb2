"""Render what changes as Markdown: values before and after, equal ones once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from terradask._common.naming import counted, some
from terradask._plans.documents import DocumentChange
from terradask._plans.equal_changes import (
    EqualChange,
    counted_resources,
    digest_of,
    gather,
    gather_drift,
)
from terradask._plans.markdown import Section, code, escaped, fold
from terradask._plans.policy.values import AttributeChange, top_level
from terradask._plans.render_terminal import WORDS, gone, value_text
from terradask._plans.report_parts import NAMED_STACKS, Rank, by_type_text, in_bold
from terradask._plans.summary import Change, PlanSummary

if TYPE_CHECKING:
    from terradask._plans.report import WorkspaceReport

#: Actions whose values are compared in the open.
_COMPARED = ("update", "import")
#: How many changes, and values of one, are shown before the rest folds.
_SHOWN_CHANGES = 10
_SHOWN_VALUES = 6
#: From this number of resources on, values that are known later are one line.
_MANY = 3
#: How many values of a list, and of a document, are shown one by one.
_LISTED = 4


def compared(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the values that change alike in many resources, then those of each resource."""
    gathered = gather((plan.summary for plan in report.plans), _COMPARED)
    several = report.stack is None
    lines = [_equal(one, several=several) for one in gathered.equal]
    shown, rest = lines[:_SHOWN_CHANGES], lines[_SHOWN_CHANGES:]
    title = "\n**Changes**\n\n"
    yield Section("equal changes", Rank.EQUAL, title, shown, "changes")
    alike: dict[str, list[str]] = {}
    unknown = [one for one in gathered.rest if _is_unknown(one.change)]
    together = unknown if len(unknown) >= _MANY else []
    for one in gathered.rest:
        if one not in together:
            alike.setdefault(_change(one.change), []).append(one.stack)
    blocks = [f"- {in_bold(stacks) if several else ''}{text}" for text, stacks in alike.items()]
    if together:
        paths = dict.fromkeys(code(a.path) for one in together for a in one.change.attributes)
        what = counted_resources(together, code)
        blocks.append(f"- **{what}**: {', '.join(paths)} known after the apply\n")
    open_lines = max(_SHOWN_CHANGES - len(shown), 3)
    head = "" if shown else title
    yield Section("changes", Rank.CHANGES, head, blocks[:open_lines], "changes")
    hidden = [*rest, *blocks[open_lines:]]
    summary = counted(len(hidden), "more change")
    yield fold(summary, Rank.CHANGES, hidden, name="more changes", what="changes")


def _is_unknown(change: Change) -> bool:
    return bool(change.attributes) and not any(value.known for value in change.attributes)


def _equal(one: EqualChange, *, several: bool) -> str:
    found = one.by_stack
    each = ", ".join(f"{escaped(stack)} {len(named)}" for stack, named in found.items())
    if len(found) > NAMED_STACKS:
        each = f"in {len(found)} stacks"
    of = f" ({each})" if several else ""
    return f"- **{counted_resources(one.changes, code)}**{of}: {_values_of(one)}\n"


def _values_of(one: EqualChange) -> str:
    shown = [before_after(value) for value in one.values[:_SHOWN_VALUES]]
    if len(one.values) > _SHOWN_VALUES:
        shown.append(f"and {len(one.values) - _SHOWN_VALUES} more values")
    return "; ".join(shown)


def _change(change: Change) -> str:
    """Return one resource with its values before and after, as one item of a list."""
    word = WORDS.get(change.action, change.action)
    why = f" ({escaped(change.reason)})" if change.reason else ""
    head = f"{word} {code(change.address)}{why}"
    shown = list(_lines(change))
    if not shown and change.attributes:
        later = ", ".join(code(value.path) for value in change.attributes[:_SHOWN_VALUES])
        shown = [f"{later} known after the apply"]
    if len(shown) > _SHOWN_VALUES + 1:
        shown[_SHOWN_VALUES:] = [f"and {len(shown) - _SHOWN_VALUES} more values"]
    if len(shown) < 2:
        return f"{': '.join([head, *shown])}\n"
    return f"{head}\n{''.join(f'  - {line}{chr(10)}' for line in shown)}"


def _lines(change: Change) -> Iterator[str]:
    """Yield each known value before and after; those of a document only if they are few, else how
    much of it changes.
    """
    documents = {document.path: document for document in change.documents}
    known = [value for value in change.attributes if value.known]
    inside = Counter(top_level(value.path) for value in known)
    named = set()
    for value in known:
        document = documents.get(top_level(value.path))
        if document is None or (inside[document.path] <= _LISTED and value.path != document.path):
            yield before_after(value)
        elif document.path not in named:
            named.add(document.path)
            yield f"{code(document.path)} {_extent(document)}"


def _extent(document: DocumentChange) -> str:
    signs = Counter(line[:1] for line in document.lines)
    lines = f"{counted(signs['+'], 'line')} added, {signs['-']} removed"
    return f"{lines} (document {code(digest_of(document))} below)"


def before_after(value: AttributeChange) -> str:
    """Return a value before and after the apply, in a line."""
    if not value.known:
        return code(value.path)
    if value.sensitive and value.before == value.after:
        return f"{code(value.path)} (sensitive)"
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


def outputs(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the outputs of stacks that change."""
    several = report.stack is None
    lines = [
        f"- {in_bold([plan.stack]) if several else ''}{before_after(output)}"
        f"{'' if output.known else ' known after the apply'}\n"
        for plan in report.plans
        for output in plan.summary.outputs
    ]
    shown, rest = lines[:_SHOWN_CHANGES], lines[_SHOWN_CHANGES:]
    yield Section("outputs", Rank.OUTPUTS, "\n**Outputs**\n\n", shown, "outputs")
    summary = counted(len(rest), "more output")
    yield fold(summary, Rank.OUTPUTS, rest, name="more outputs", what="outputs")


def drifted(report: WorkspaceReport) -> Iterator[Section]:
    """Yield what was changed outside Terraform."""
    found = [plan.summary for plan in report.plans]
    title = "\n**Changed outside Terraform**\n\n"
    yield from drift_sections(found, title, several=report.stack is None)


def drift_sections(
    summaries: Sequence[PlanSummary], title: str, *, several: bool
) -> Iterator[Section]:
    """Yield the values that many resources have in common once, then those of each resource, then
    the addresses of those many.
    """
    gathered = gather_drift(summaries)
    alike: dict[str, list[str]] = {}
    for left in gathered.rest:
        change = left.change
        lines = [f"  - {before_after(value)}\n" for value in change.attributes]
        text = f"{code(change.address)}{gone(change)}\n{''.join(lines)}"
        alike.setdefault(text, []).append(left.stack)
    blocks = [
        *(_equal(one, several=several) for one in gathered.equal),
        *(f"- {_of(stacks) if several else ''}{text}" for text, stacks in alike.items()),
    ]
    shown, rest = blocks[:_SHOWN_CHANGES], blocks[_SHOWN_CHANGES:]
    yield Section("drift", Rank.DRIFT, title, shown, "changes")
    summary = f"{counted(len(rest), 'more change')} outside Terraform"
    yield fold(summary, Rank.DRIFT, rest, name="more drift", what="changes")
    named = [line for one in gathered.equal for line in _places(one, several=several)]
    many = {(left.stack, left.change.address) for one in gathered.equal for left in one.changes}
    summary = f"The {len(many)} resources changed alike outside Terraform"
    yield fold(summary, Rank.DRIFT, named, name="resources with equal drift", what="lines")


def _places(one: EqualChange, *, several: bool) -> Iterator[str]:
    """Yield all values and addresses of an equal change, a line for stacks with the same ones."""
    alike: dict[str, list[str]] = {}
    for stack, addresses in one.by_stack.items():
        alike.setdefault(", ".join(by_type_text(addresses)), []).append(stack)
    values = "; ".join(map(before_after, one.values))
    for named, stacks in alike.items():
        yield f"- {values}: {_of(stacks) if several else ''}{named}\n"


def _of(stacks: Sequence[str]) -> str:
    return in_bold(stacks, most=len(stacks))
