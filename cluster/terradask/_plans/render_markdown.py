"""Render a report as Markdown for a pull request's comment, within its length limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from terradask._plans.markdown import Section, code, escaped, fenced, fitted, row
from terradask._plans.render_terminal import to_text
from terradask._plans.render_values import SIGNS, VERDICTS, WORDS, assignment, price, value_text
from terradask._plans.summary import Change
from terradask._policy.values import AttributeChange
from terradask._pricing.estimate import HOURS_PER_MONTH, CostEstimate, CostItem

if TYPE_CHECKING:
    from terradask._plans.report import PlanReport, ReportContext, WorkspaceReport
    from terradask._policy.findings import PolicyFinding

#: Longest comment that GitHub accepts, in characters.
MARKDOWN_LIMIT = 65_536

#: The section with the highest number is left out first.
_STACKS, _NOTES, _DANGERS, _POLICY, _PLANS, _COST, _HARDWARE, _CHANGES, _DRIFT, _FULL = range(10)
#: Longest reason shown for a stack that could not be planned, in characters.
_REASON_LIMIT = 500


def to_markdown(report: WorkspaceReport, *, limit: int = MARKDOWN_LIMIT) -> str:
    """Return a report as Markdown.

    The first line is a marker: a job finds its own comment by it and updates it in place.
    """
    header, footer = _header(report), _footer(report)
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
    title = f"{marker(context, report.stack)}\n## {escaped(name)}: {outcome}\n"
    where = f"workspace {context.workspace}, account {context.account}, {context.region}"
    return f"{title}{escaped(where)}\n"


def _footer(report: WorkspaceReport) -> str:
    context = report.context
    facts = [f"terradask {context.terradask_version}"]
    if report.plans:
        first = report.plans[0].summary
        facts += [
            f"Terraform {first.terraform_version}",
            *(f"{name} {version}" for name, version in sorted(first.providers.items())),
        ]
    if context.commit:
        facts.append(f"commit {context.commit}")
    how = (
        " Apply exactly this with <code>terradask apply DIR</code>, on the folder of this report."
        if report.counts.total
        else ""
    )
    return f"\n<sub>{escaped(', '.join(facts))}.{how}</sub>\n"


# ---- sections ------------------------------------------------------------------------------------


def _overview(report: WorkspaceReport) -> Iterator[Section]:
    if report.stack is None and report.plans:
        head = (
            "\n| stack | verdict | create | update | replace | destroy | import "
            "|\n|---|---|---|---|---|---|---|\n"
        )
        yield Section(
            "stacks", _STACKS, head, [_stack_row(plan) for plan in report.plans], what="stacks"
        )
    notes = [
        f"{code(stack)} could not be planned: {escaped(reason[:_REASON_LIMIT])}"
        for stack, reason in report.failed.items()
    ]
    notes += [f"{code(stack)} waits for the network to be applied" for stack in report.waiting]
    notes += [
        f"{code(stack)} is unchanged since it was applied, and wasn't planned"
        for stack in report.unchanged
    ]
    yield Section("other stacks", _NOTES, "\n", [f"- {note}\n" for note in notes], what="stacks")


def _stack_row(plan: PlanReport) -> str:
    return row(
        [
            code(plan.stack),
            VERDICTS[plan.verdict],
            *(str(number or "") for number in asdict(plan.summary.counts).values()),
        ]
    )


def _plans(report: WorkspaceReport) -> Iterator[Section]:
    yield Section(
        "plans",
        _PLANS,
        "\n",
        [f"<sub>{_plan_line(plan)}</sub><br>\n" for plan in report.plans],
        what="plans",
    )


def _plan_line(plan: PlanReport) -> str:
    made = f" of {escaped(plan.summary.created_at)}" if plan.summary.created_at else ""
    expiry = f", expires {escaped(plan.expires_at)}" if plan.expires_at else ""
    return f"plan of {code(plan.stack)}{made}{expiry}, sha256 {code(plan.summary.plan_hash)}"


def _details(report: WorkspaceReport) -> Iterator[Section]:
    several = report.stack is None
    dangers = [
        (
            f"> - {code(plan.stack) + ' ' if several else ''}{code(danger.address)} "
            f"{escaped(danger.text)}\n"
        )
        for plan in report.plans
        for danger in plan.dangers
    ]
    yield Section("dangers", _DANGERS, "\n> [!CAUTION]\n", dangers, what="dangers")
    findings = [
        row(
            [
                code(finding.check),
                _severity(finding),
                code(finding.address) if finding.address else code(plan.stack),
                _advised(finding),
            ]
        )
        for plan in report.plans
        for finding in plan.findings
    ]
    yield Section(
        "policy",
        _POLICY,
        "\n### Policy\n\n| rule | | resource | finding |\n|---|---|---|---|\n",
        findings,
        what="findings",
    )
    yield from _cost(report)
    types = [
        f"- {code(plan.stack) + ' ' if several else ''}{escaped(group)}: {escaped(reason)}\n"
        for plan in report.plans
        for group, reason in plan.hardware.items()
    ]
    images = [
        f"- {code(plan.stack) + ' ' if several else ''}container: {code(plan.container)}\n"
        for plan in report.plans
        if plan.container is not None
    ]
    software = [
        f"- {code(plan.stack) + ' ' if several else ''}environment: {escaped(plan.environment)}\n"
        for plan in report.plans
        if plan.environment is not None
    ]
    shown = [*types, *images, *software]
    yield Section("hardware", _HARDWARE, "\n### Hardware\n\n", shown, what="groups")
    for plan in report.plans:
        title = f"\n### {escaped(plan.stack)}\n\n" if several else "\n### Resources\n\n"
        blocks = [_resource(change) for change in plan.summary.changes]
        if plan.summary.outputs:
            blocks.append(_outputs(plan.summary.outputs))
        yield Section(plan.stack, _CHANGES, title, blocks, what="resources")
        head = f"\n### Changed outside Terraform{': ' + escaped(plan.stack) if several else ''}\n\n"
        drift = [_drift(change) for change in plan.summary.drift]
        yield Section(f"drift of {plan.stack}", _DRIFT, head, drift, what="resources")
    yield Section(
        "full text",
        _FULL,
        "\n<details><summary>Full text</summary>\n\n```text\n",
        [f"{fenced(line)}\n" for plan in report.plans for line in to_text(plan).splitlines()],
        what="lines",
        tail="```\n\n</details>\n",
    )


def _severity(finding: PolicyFinding) -> str:
    return f"waived until {escaped(finding.waived.expires)}" if finding.waived else finding.severity


def _advised(finding: PolicyFinding) -> str:
    more = finding.waived.reason if finding.waived else finding.advice
    return escaped(finding.message) + (f"<br><sub>{escaped(more)}</sub>" if more else "")


def _cost(report: WorkspaceReport) -> Iterator[Section]:
    costs = [(plan.stack, plan.cost) for plan in report.plans if plan.cost is not None]
    if not costs:
        return
    whole = report.cost
    # First: blocks that don't fit are left out from the end.
    rows = list(_cost_totals("these stacks together", whole)) if whole is not None else []
    notes = []
    for stack, cost in costs:
        if cost.has_no_price:
            notes.append(f"no prices for {code(stack)}: {escaped(cost.problem or '')}")
            continue
        rows += [*map(_cost_item, cost.items), *_cost_totals(stack, cost)]
        missing = (
            f", {len(cost.unpriced)} without a price and not in the total" if cost.unpriced else ""
        )
        origin = ", ".join(filter(None, (cost.source, cost.region, cost.priced_at)))
        notes.append(f"{code(stack)}: {escaped(origin)}{missing}")
    head = (
        (
            "| resource | what | USD an hour | desired | USD a month | at most | USD a month "
            "|\n|---|---|---|---|---|---|---|\n"
        )
        if rows
        else ""
    )
    tail = "".join(f"\n<sub>{note}</sub>\n" for note in notes)
    yield Section("cost", _COST, f"\n### Cost\n\n{head}", rows or ["\n"], what="items", tail=tail)


def _cost_item(item: CostItem) -> str:
    what = escaped(item.what) + (f"<br><sub>{escaped(item.note)}</sub>" if item.note else "")
    desired, most = (
        None if hourly is None else hourly * HOURS_PER_MONTH
        for hourly in (item.desired_hourly_usd, item.maximum_hourly_usd)
    )
    sizes = [str(item.desired), price(desired), str(item.maximum), price(most)]
    return row([code(item.address), what, price(item.unit_hourly_usd, digits=4), *sizes])


def _cost_totals(stack: str, cost: CostEstimate) -> Iterator[str]:
    hourly = (cost.stopped_hourly_usd, cost.desired_hourly_usd, cost.maximum_hourly_usd)
    stopped, desired, most = (price(amount * HOURS_PER_MONTH) for amount in hourly)
    yield row([f"**{escaped(stack)}**", "**total**", "", "", f"**{desired}**", "", f"**{most}**"])
    if cost.stopped_hourly_usd != cost.desired_hourly_usd:
        yield row([f"**{escaped(stack)}**", "while stopped", "", "", stopped, "", stopped])


# ---- resources -----------------------------------------------------------------------------------


def _resource(change: Change) -> str:
    """Return one resource, folded if it is new: its values, and its documents' diffs."""
    word = WORDS.get(change.action, change.action)
    reasons = [
        escaped(change.reason or ""),
        *(f"{code(path)} forces replacement" for path in change.replaced_because_of),
    ]
    why = "; ".join(filter(None, reasons))
    summary = (
        f"{SIGNS.get(change.action, '?')} {word} {code(change.address)}{f' ({why})' if why else ''}"
    )
    body = _values(change) + "".join(
        _document(document.path, document.lines) for document in change.documents
    )
    if not body:
        return f"{summary}\n\n"
    opened = "" if change.action == "create" else " open"
    return f"<details{opened}><summary>{summary}</summary>\n\n{body}\n</details>\n\n"


def _values(change: Change) -> str:
    known = [a for a in change.values_beside_documents if a.known]
    later = [a for a in change.attributes if not a.known]
    text = ""
    if known:
        text += "| | before | after |\n|---|---|---|\n" + "".join(_attribute(a) for a in known)
    if later:
        text += f"\nknown after apply: {', '.join(code(a.path) for a in later)}\n"
    return text


def _attribute(attribute: AttributeChange) -> str:
    before = "" if attribute.before is None else code(value_text(attribute.before))
    note = " **forces replacement**" if attribute.forces_replacement else ""
    return row([code(attribute.path), before, code(value_text(attribute.after)) + note])


def _document(path: str, lines: Sequence[str]) -> str:
    return f"\n{code(path)}\n\n```diff\n" + "".join(f"{fenced(line)}\n" for line in lines) + "```\n"


def _outputs(outputs: Sequence[AttributeChange]) -> str:
    return (
        "Outputs\n\n| | before | after |\n|---|---|---|\n"
        + "".join(map(_attribute, outputs))
        + "\n"
    )


def _drift(change: Change) -> str:
    values = "".join(f"  - {code(assignment(a))}\n" for a in change.attributes)
    gone = " is gone" if change.action == "delete" else ""
    return f"- {code(change.address)}{gone}\n{values}"
