"""Render a plan for a terminal, as plain text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.text import Text

from terradask._plans.render_values import SIGNS, VERDICTS, assignment, origin, price
from terradask._plans.summary import Change, PlanSummary
from terradask._policy.values import top_level
from terradask._pricing.estimate import HOURS_PER_MONTH, CostEstimate
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from decimal import Decimal

    from terradask._plans.dangers import Danger
    from terradask._plans.report import PlanReport, WorkspaceReport
    from terradask._policy.findings import PolicyFinding

_STYLES = {
    "create": "green",
    "import": "cyan",
    "update": "yellow",
    "replace": "magenta",
    "delete": "red",
    "forget": "dim",
    "read": "cyan",
}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


Shown: TypeAlias = "PlanSummary | PlanReport | WorkspaceReport"


def to_json(shown: Shown) -> str:
    """Return a summary or a report as JSON, format 1; their ``as_dict`` describe it."""
    return json.dumps(shown.as_dict(), indent=2, sort_keys=False, ensure_ascii=False) + "\n"


# ---- terminal ------------------------------------------------------------------------------------


def to_terminal(shown: Shown, *, details: bool = True) -> RenderableType:
    """Return a plan's summary, or a report on plans with policy and cost, for rich to print. A
    plan has values of the state, which others may have written: no control character is left.
    """
    lines = list(_lines(shown, details=details))
    for line in lines:
        # One letter for each, so that the styles stay where they are.
        line.plain = plain_text(line.plain)
    return Group(*lines)


def _lines(shown: Shown, *, details: bool) -> Iterable[Text]:
    from terradask._plans.report import PlanReport

    if isinstance(shown, PlanSummary):
        head = [Text(shown.headline, style="bold"), *_dangers(shown.dangers)]
        foot = [Text(), Text(origin(shown), style="dim")]
        return [*head, *_body(shown, details=details), *foot]
    if isinstance(shown, PlanReport):
        return _plan_lines(shown, details=details)
    return _workspace(shown, details=details)


def _workspace(report: WorkspaceReport, *, details: bool) -> list[Text]:
    parts: list[Text] = []
    for plan in report.plans:
        parts += [*_plan_lines(plan, details=details), Text()]
    if report.cost is not None:
        missing = (
            f" (without {len(report.cost.unpriced)} that have no price)"
            if report.cost.unpriced
            else ""
        )
        parts += [
            Text(f"cost of these stacks together: {_totals(report.cost)}{missing}", style="bold"),
            Text(),
        ]
    for stack, reason in report.failed.items():
        parts.append(Text(f"{stack}: could not be planned: {reason}", style="bold red"))
    parts += [Text(f"{stack}: unchanged since it was applied") for stack in report.unchanged]
    parts += [
        Text(f"{stack}: waits for the network: terradask apply network") for stack in report.waiting
    ]
    verdict = Text(f"{VERDICTS[report.verdict]}", style="bold")
    return [*parts, *([verdict] if len(report.plans) != 1 or report.failed else [])]


def to_text(shown: Shown, *, details: bool = True, width: int = 120) -> str:
    """Return what `to_terminal` shows as plain text."""
    console = Console(
        width=width, color_system=None, force_terminal=False, highlight=False, markup=False
    )
    with console.capture() as captured:
        console.print(to_terminal(shown, details=details), soft_wrap=True)
    return captured.get()


def _plan_lines(report: PlanReport, *, details: bool) -> Iterator[Text]:
    yield Text(report.summary.headline, style="bold")
    if report.blocked:
        yield Text("blocked by policy: terradask apply refuses this plan", style="bold red")
    yield from _dangers(report.dangers)
    yield from _findings(report.findings)
    yield from _body(report.summary, details=details)
    yield from _hardware(report.hardware)
    if report.container is not None:
        yield from (Text(), Text(f"container: {report.container}", style="bold"))
    if report.environment is not None:
        yield from (Text(), Text(f"environment: {report.environment}", style="bold"))
    if report.cost is not None:
        yield from _cost(report.cost)
    yield Text()
    expiry = f", to be applied until {report.expires_at}" if report.expires_at else ""
    yield Text(f"{origin(report.summary)}{expiry}", style="dim")


def _dangers(dangers: tuple[Danger, ...]) -> Iterator[Text]:
    if dangers:
        yield Text()
    for danger in dangers:
        line = Text("! ", style="bold red")
        line.append(danger.address, style="bold")
        line.append(f" {danger.text}")
        yield line


def _findings(findings: tuple[PolicyFinding, ...]) -> Iterator[Text]:
    if findings:
        yield Text()
        yield Text("policy:", style="bold")
    for finding in findings:
        waived = (
            f"waived until {finding.waived.expires}: {finding.waived.reason}"
            if finding.waived
            else ""
        )
        line = Text("  ")
        line.append(
            finding.severity if not waived else "waived",
            style="dim" if waived else _SEVERITY_STYLES[finding.severity],
        )
        line.append(" ".join(filter(None, (f" {finding.check}", finding.address, finding.message))))
        yield line
        if waived or finding.advice:
            yield Text(f"      {waived or finding.advice}", style="dim")


def _hardware(reasons: Mapping[str, str]) -> Iterator[Text]:
    if reasons:
        yield Text()
        yield Text("hardware:", style="bold")
    for group, reason in reasons.items():
        yield Text(f"  {group}: {reason}")


def _cost(cost: CostEstimate) -> Iterator[Text]:
    yield Text()
    if cost.has_no_price:
        yield Text(f"cost: no prices: {cost.problem}", style="bold")
        return
    yield Text(f"cost: {_totals(cost)}", style="bold")
    for item in cost.unpriced:
        why = f": {item.note}" if item.note else ""
        yield Text(
            f"  without a price, and not in the totals: {item.address}: {item.what}{why}",
            style="yellow",
        )
    yield Text(
        f"  {', '.join(filter(None, (cost.source, cost.region, cost.priced_at)))}", style="dim"
    )


def _totals(cost: CostEstimate) -> str:
    stopped = cost.stopped_hourly_usd
    desired = cost.desired_hourly_usd
    most = cost.maximum_hourly_usd
    while_stopped = (
        f"{_by_hour_and_month(stopped)} while stopped; when started " if stopped != desired else ""
    )
    return (
        f"{while_stopped}{_by_hour_and_month(desired)}; at the largest size "
        f"{_by_hour_and_month(most)}"
    )


def _by_hour_and_month(hourly: Decimal) -> str:
    return f"{price(hourly, digits=4)} an hour, {price(hourly * HOURS_PER_MONTH)} a month"


def _body(summary: PlanSummary, *, details: bool) -> Iterator[Text]:
    if summary.changes:
        yield Text()
    for change in summary.changes:
        yield from _terminal_change(change, details=details)
    if summary.outputs:
        yield Text()
        yield Text("outputs:", style="bold")
    for output in summary.outputs:
        yield Text(f"  {assignment(output)}")
    if summary.drift:
        yield Text()
        yield Text("changed outside Terraform since its last run:", style="bold")
    for change in summary.drift:
        yield from _terminal_change(change, details=True)


def _terminal_change(change: Change, *, details: bool) -> list[Text]:
    style = _STYLES.get(change.action, "")
    line = Text("  ")
    line.append(SIGNS.get(change.action, "?"), style=f"bold {style}")
    line.append(f" {change.address}", style=style)
    if change.reason:
        line.append(f"  ({change.reason})", style="dim")
    lines = [line]
    if details or change.action != "create":
        lines.extend(
            Text(f"      {assignment(attribute)}") for attribute in change.values_beside_documents
        )
        forcing = {top_level(path) for path in change.replaced_because_of}
        for document in change.documents:
            lines.append(
                Text(
                    f"      {document.path}, "
                    f"decoded:{'  # forces replacement' if document.path in forcing else ''}"
                )
            )
            lines.extend(
                Text(f"        {part}", style=_DIFF_STYLES.get(part[:1], ""))
                for part in document.lines
            )
    return lines
