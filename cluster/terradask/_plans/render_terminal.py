"""Render plans and drift for a terminal, as plain text and as JSON; shared parts of renderings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.text import Text

from terradask._catalog.prices.prices import HOURS_PER_MONTH, CostEstimate
from terradask._common.naming import counted
from terradask._plans.policy.values import UNKNOWN, AttributeChange, top_level
from terradask._plans.summary import Change, PlanSummary
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from terradask._plans.dangers import Danger
    from terradask._plans.policy.findings import PolicyFinding
    from terradask._plans.report import PlanReport, WorkspaceReport


#: Action -> its sign, and its style in a terminal.
_ACTIONS = {
    "create": ("+", "green"),
    "import": ("=", "cyan"),
    "update": ("~", "yellow"),
    "replace": ("±", "magenta"),
    "delete": ("-", "red"),
    "forget": ("·", "dim"),
    "read": ("<", "cyan"),
}
WORDS = {"delete": "destroy"}

VERDICTS = {
    "failed": "could not be planned",
    "blocked": "blocked by policy",
    "dangerous": "needs review",
    "changes": "changes",
    "drift": "changed outside Terraform",
    "no changes": "no changes",
}

_VALUE_LIMIT = 120


def sign_of(action: str) -> tuple[str, str]:
    """Return the sign of an action, and its style in a terminal."""
    return _ACTIONS.get(action, ("?", ""))


def value_text(value: Any) -> str:
    """Return a value on one line, shortened in its middle."""
    if value is None:
        return "none"
    text = value if value == UNKNOWN else json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) > _VALUE_LIMIT:
        half = (_VALUE_LIMIT - 3) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text


def assignment(attribute: AttributeChange) -> str:
    """Return a change as ``path = before -> after``."""
    after = value_text(attribute.after)
    value = after if attribute.before is None else f"{value_text(attribute.before)} -> {after}"
    note = "  # forces replacement" if attribute.forces_replacement else ""
    return f"{attribute.path} = {value}{note}"


def gone(change: Change) -> str:
    """Return the suffix for a resource that was deleted outside Terraform."""
    return " is gone" if change.action == "delete" else ""


def made_with(summary: PlanSummary) -> str:
    """Return the versions of Terraform or OpenTofu, and of providers, that made a plan."""
    versions = {
        summary.program: summary.terraform_version,
        **dict(sorted(summary.providers.items())),
    }
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def origin(summary: PlanSummary) -> str:
    """Return the plan's hash, its date, and the versions that made it."""
    return f"plan {summary.plan_hash[:12]} of {summary.created_at}, {made_with(summary)}"


def software(report: PlanReport) -> list[tuple[str, str]]:
    """Return the name and value of hosts' software if they don't install packages themselves."""
    found = {"container": report.container, "environment": report.environment}
    return [(what, name) for what, name in found.items() if name is not None]


def cost_origin(cost: CostEstimate) -> str:
    """Return the source of an estimate's prices."""
    return ", ".join(filter(None, (cost.source, cost.region, cost.priced_at)))


def price(amount: Decimal | None, *, digits: int = 2) -> str:
    """Return a price in US dollars; a dash if there is none."""
    return "-" if amount is None else f"${amount:,.{digits}f}"


_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


Shown: TypeAlias = "PlanSummary | PlanReport | WorkspaceReport"


def to_json(shown: Shown) -> str:
    """Return a summary or a report as JSON, format 1; their ``as_dict`` describe it."""
    return json.dumps(shown.as_dict(), indent=2, sort_keys=False, ensure_ascii=False) + "\n"


def to_terminal(shown: Shown, *, details: bool = True) -> RenderableType:
    """Return a plan's summary, or a report with policy and cost, for rich. Control characters are
    removed, since others may have written values of the state.
    """
    lines = list(_lines(shown, details=details))
    for line in lines:
        # One character for each, so that style offsets stay valid.
        line.plain = plain_text(line.plain)
    return Group(*lines)


def to_text(shown: Shown, *, details: bool = True, width: int = 120) -> str:
    """Return what `to_terminal` shows as plain text."""
    console = Console(
        width=width, color_system=None, force_terminal=False, highlight=False, markup=False
    )
    with console.capture() as captured:
        console.print(to_terminal(shown, details=details), soft_wrap=True)
    return captured.get()


def _lines(shown: Shown, *, details: bool) -> Iterator[Text]:
    from terradask._plans.report import WorkspaceReport

    if isinstance(shown, WorkspaceReport):
        yield from _workspace(shown, details=details)
        return
    report, summary = (None, shown) if isinstance(shown, PlanSummary) else (shown, shown.summary)
    yield Text(summary.headline, style="bold")
    if report is not None and report.blocked:
        yield Text("blocked by policy: terradask apply refuses this plan", style="bold red")
    yield from _block(map(_danger, shown.dangers))
    if report is not None:
        yield from _block(chain.from_iterable(map(_finding, report.findings)), title="policy:")
    changes = (_change(change, details=details) for change in summary.changes)
    yield from _block(chain.from_iterable(changes))
    outputs = (Text(f"  {assignment(output)}") for output in summary.outputs)
    yield from _block(outputs, title="outputs:")
    drift = (_change(change, details=True) for change in summary.drift)
    title = "changed outside Terraform since its last run:"
    yield from _block(chain.from_iterable(drift), title=title)
    expiry = ""
    if report is not None:
        hardware = (Text(f"  {group}: {reason}") for group, reason in report.hardware.items())
        yield from _block(hardware, title="hardware:")
        for what, value in software(report):
            yield from (Text(), Text(f"{what}: {value}", style="bold"))
        if report.cost is not None:
            yield from _block(_cost(report.cost))
        expiry = f", to be applied until {report.expires_at}" if report.expires_at else ""
    yield from _block([Text(f"{origin(summary)}{expiry}", style="dim")])


def _workspace(report: WorkspaceReport, *, details: bool) -> Iterator[Text]:
    for plan in report.plans:
        yield from (*_lines(plan, details=details), Text())
    cost = report.cost
    if cost is not None:
        missing = f" (without {len(cost.unpriced)} that have no price)" if cost.unpriced else ""
        totals = f"cost of these stacks together: {_totals(cost)}{missing}"
        yield from (Text(totals, style="bold"), Text())
    for stack, reason in report.failed.items():
        yield Text(f"{stack}: could not be planned: {reason}", style="bold red")
    for stack in report.unchanged:
        yield Text(f"{stack}: unchanged since it was applied")
    for stack in report.waiting:
        yield Text(f"{stack}: waits for the network: terradask apply network")
    if len(report.plans) != 1 or report.failed:
        yield Text(VERDICTS[report.verdict], style="bold")


def _block(lines: Iterable[Text], *, title: str | None = None) -> Iterator[Text]:
    """Yield an empty line, the title and the lines, if there are lines."""
    found = list(lines)
    if found:
        yield from (Text(), *([] if title is None else [Text(title, style="bold")]), *found)


def _danger(danger: Danger) -> Text:
    return Text.assemble("! ", (danger.address, "bold"), f" {danger.text}", style="bold red")


def _finding(finding: PolicyFinding) -> Iterator[Text]:
    waived = finding.waived
    advice, style = finding.advice, _SEVERITY_STYLES[finding.severity]
    if waived:
        advice, style = f"waived until {waived.expires}: {waived.reason}", "dim"
    facts = " ".join(filter(None, (f" {finding.check}", finding.address, finding.message)))
    yield Text.assemble("  ", ("waived" if waived else finding.severity, style), facts)
    if advice:
        yield Text(f"      {advice}", style="dim")


def _change(change: Change, *, details: bool) -> Iterator[Text]:
    sign, style = sign_of(change.action)
    reason = (f"  ({change.reason})", "dim") if change.reason else ""
    yield Text.assemble("  ", (sign, f"bold {style}"), (f" {change.address}", style), reason)
    if not details and change.action == "create":
        return
    for attribute in change.values_beside_documents:
        yield Text(f"      {assignment(attribute)}")
    forcing = {top_level(path) for path in change.replaced_because_of}
    for document in change.documents:
        forces = "  # forces replacement" if document.path in forcing else ""
        yield Text(f"      {document.path}, decoded:{forces}")
        for part in document.lines:
            yield Text(f"        {part}", style=_DIFF_STYLES.get(part[:1], ""))


def _cost(cost: CostEstimate) -> Iterator[Text]:
    if cost.has_no_price:
        yield Text(f"cost: no prices: {cost.problem}", style="bold")
        return
    yield Text(f"cost: {_totals(cost)}", style="bold")
    for item in cost.unpriced:
        about = ": ".join(filter(None, (item.address, item.what, item.note)))
        yield Text(f"  without a price, and not in the totals: {about}", style="yellow")
    yield Text(f"  {cost_origin(cost)}", style="dim")


def _totals(cost: CostEstimate) -> str:
    stopped, desired, most = (
        f"{price(hourly, digits=4)} an hour, {price(hourly * HOURS_PER_MONTH)} a month"
        for hourly in (cost.stopped_hourly_usd, cost.desired_hourly_usd, cost.maximum_hourly_usd)
    )
    has_stop = cost.stopped_hourly_usd != cost.desired_hourly_usd
    while_stopped = f"{stopped} while stopped; when started " if has_stop else ""
    return f"{while_stopped}{desired}; at the largest size {most}"


def drift_text(summary: PlanSummary) -> str:
    """Return the drift of one stack, a line for each value."""
    lines = [
        f"{summary.stack}: {counted(len(summary.drift), 'resource')} changed outside Terraform"
    ]
    for change in summary.drift:
        lines.append(
            f"  {'-' if change.action == 'delete' else '~'} {change.address}{gone(change)}"
        )
        lines.extend(f"      {assignment(attribute)}" for attribute in change.attributes)
    return "\n".join(lines)
