"""Render what a report folds as Markdown: every address, costs, new values, documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from terradask._common.naming import counted
from terradask._plans.cautions import Caution
from terradask._plans.equal_changes import (
    ChangeIn,
    counted_resources,
    digest_of,
    gather,
    shared_documents,
)
from terradask._plans.markdown import Section, code, escaped, fence, fold, html_code, prose
from terradask._plans.render_cost import cost_details
from terradask._plans.render_terminal import WORDS, assignment, sign_of, software
from terradask._plans.report import cost_changes
from terradask._plans.report_parts import Rank, by_type_text, in_bold, stacks_text
from terradask._plans.summary import Change, PlanSummary, values_beside_documents

if TYPE_CHECKING:
    from terradask._plans.report import WorkspaceReport

#: Actions that give a resource all its values anew.
_MADE = ("create", "replace")
#: From this number of made resources on, an equal value is one line: fewer belong together with
#: the others of each.
_MANY_MADE = 10
#: How many addresses a line has, so that a page can be cut between them.
_A_LINE = 100


def following(found: Sequence[Caution]) -> Iterator[Section]:
    """Yield what follows from each caution."""
    for one in found:
        if not one.following:
            continue
        alike: dict[str, list[str]] = {}
        for danger in one.followers:
            alike.setdefault(prose(danger.text), []).append(danger.address)
        lines = [
            f"- {', '.join(by_type_text(named))} {_of_many(text) if len(named) > 1 else text}\n"
            for text, named in alike.items()
        ]
        summary = f"{html_code(one.address)} and {one.following}"
        yield fold(
            summary, Rank.FOLLOWING, lines, name=f"what follows from {one.address}", what="lines"
        )


def _of_many(text: str) -> str:
    return f"are {text.removeprefix('is ')}" if text.startswith("is ") else text


def addresses(report: WorkspaceReport) -> Iterator[Section]:
    """Yield every address, by action."""
    several = report.stack is None
    alike: dict[str, list[str]] = {}
    for plan in report.plans:
        by_action: dict[str, list[Change]] = {}
        for change in plan.summary.changes:
            by_action.setdefault(change.action, []).append(change)
        for action, changes in by_action.items():
            for at in range(0, len(changes), _A_LINE):
                part = changes[at : at + _A_LINE]
                named = ", ".join(by_type_text(change.address for change in part))
                # A sign before it would begin a list of its own.
                what = f"{WORDS.get(action, action)} {len(part)}"
                alike.setdefault(f"{what}: {named}\n", []).append(plan.stack)
    blocks = [
        f"- {in_bold(stacks, most=len(stacks)) if several else ''}{text}"
        for text, stacks in alike.items()
    ]
    number = report.counts.total
    what = "resources" if number == 1 else "all resources"
    summary = "The resource" if number == 1 else f"All {number} resources"
    yield fold(summary, Rank.ADDRESSES, blocks, name=what, what="lines")


def costs(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the choice of hardware, and the cost of each resource."""
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
        f"- {in_bold(stacks) if report.stack is None else ''}{text}\n"
        for text, stacks in alike.items()
    ]
    yield fold("Hardware", Rank.COSTS, lines, name="hardware", what="groups")
    tables: dict[str, list[str]] = {}
    for plan in plans:
        tables.setdefault(cost_details(plan), []).append(plan.stack)
    blocks = [
        f"**{stacks_text(stacks)}**\n\n{shown}" if report.stack is None else shown
        for shown, stacks in tables.items()
    ]
    name = "cost of each resource"
    yield fold(name.capitalize(), Rank.COSTS, blocks, name=name, what="items")


def values(report: WorkspaceReport) -> Iterator[Section]:
    """Yield the values of what is made, those of many resources once."""
    alike: dict[str, list[str]] = {}
    for plan in report.plans:
        for block in _made(plan.summary):
            alike.setdefault(block, []).append(plan.stack)
    several = report.stack is None and len(report.plans) > 1
    blocks, named = [], [""]
    for block, stacks in alike.items():
        # Once for all that are theirs.
        head = f"**{stacks_text(stacks)}**\n\n" if several and stacks != named else ""
        blocks.append(f"{head}{block}\n")
        named = stacks
    number = report.counts.create + report.counts.replace
    summary = f"Values of {counted(number, 'created or replaced resource')}"
    yield fold(summary, Rank.VALUES, blocks, name="values", what="resources")


def _made(summary: PlanSummary) -> Iterator[str]:
    made = gather([summary], _MADE, least=_MANY_MADE)
    if made.equal:
        yield fence(
            f"{assignment(value)}  # in {counted_resources(one.changes)}"
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


def documents(report: WorkspaceReport) -> Iterator[Section]:
    """Yield policies, descriptors and user data line by line, equal texts once."""
    every = [ChangeIn(p.stack, change) for p in report.plans for change in p.summary.changes]
    blocks = []
    for shared in shared_documents(every):
        where = ", ".join(by_type_text(dict.fromkeys(place for _, place, _ in shared.places)))
        head = f"{code(shared.places[0][2])} of {where}: document {code(shared.digest)}"
        lines, like = shared.document.lines, ""
        if shared.like:
            lines, like = shared.difference, f", like {code(shared.like)} but for"
        blocks.append(f"{head}{like}\n\n{fence(lines, 'diff')}\n")
    summary = f"{counted(len(blocks), 'document')}: policies, descriptors, user data"
    yield fold(summary, Rank.DOCUMENTS, blocks, name="documents", what="documents")
