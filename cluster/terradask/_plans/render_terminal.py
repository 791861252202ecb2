"""Render plans and drift for a terminal, as plain text and as JSON; shared parts of renderings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.text import Text

from terradask._catalog.prices.prices import HOURS_PER_MONTH, CostEstimate
from terradask._plans.cautions import Caution, cautions_of
from terradask._plans.equal_changes import (
    EqualChange,
    counted_resources,
    gather,
    gather_drift,
)
from terradask._plans.policy.values import UNKNOWN, AttributeChange, top_level
from terradask._plans.summary import Change, PlanSummary, effect_of, values_beside_documents
from terradask_host.documents import plain_text

if TYPE_CHECKING:
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
#: So many resources of which all values are known later have lines of their own.
_ALONE = 2


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
    if attribute.sensitive and attribute.before == attribute.after:
        return f"{attribute.path} = (sensitive)"
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
    yield from _body(shown, details=details)
    yield from _block([Text(f"{origin(summary)}{_expiry(report)}", style="dim")])
    if report is not None:
        yield from _block([_verdict(report, summary.stack)])


def _expiry(report: PlanReport | None) -> str:
    return f", to be applied until {report.expires_at}" if report and report.expires_at else ""


def _body(shown: PlanSummary | PlanReport, *, details: bool) -> Iterator[Text]:
    """Yield what is between the headline and the origin, without the stack's name."""
    from terradask._plans.report import cost_changes

    report, summary = (None, shown) if isinstance(shown, PlanSummary) else (shown, shown.summary)
    found = cautions_of(summary, shown.dangers)
    yield from _block(chain.from_iterable(map(_caution, found)))
    if report is not None:
        yield from _block(chain.from_iterable(map(_finding, report.findings)), title="policy:")
    yield from _block(_changes(summary, details=details))
    outputs = (Text(f"  {assignment(output)}") for output in summary.outputs)
    yield from _block(outputs, title="outputs:")
    title = "changed outside Terraform since its last run:"
    yield from _block(_drift(summary), title=title)
    if report is None:
        return
    if report.cost is None or cost_changes(report):
        hardware = (Text(f"  {group}: {reason}") for group, reason in report.hardware.items())
        yield from _block(hardware, title="hardware:")
        for what, value in software(report):
            yield from (Text(), Text(f"{what}: {value}", style="bold"))
    if report.cost is not None:
        yield from _block(_cost(report.cost, report.cost_before))


def _alike(plans: Iterable[PlanReport], *, details: bool) -> Iterator[Text]:
    """Yield plans, those of which all but stack and hash is equal as one."""
    found: dict[tuple[str, ...], list[tuple[PlanReport, list[Text]]]] = {}
    for plan in plans:
        body = list(_body(plan, details=details))
        effect = effect_of(plan.summary.counts, len(plan.summary.outputs))
        key = (effect, *(line.plain for line in body))
        found.setdefault(key, []).append((plan, body))
    for (effect, *_), equal in found.items():
        first, body = equal[0]
        if len(equal) == 1:
            made, headline = origin(first.summary), first.summary.headline
        else:
            hashes = ", ".join(plan.summary.plan_hash[:12] for plan, _ in equal)
            made = f"plans {hashes} of {first.summary.created_at}, {made_with(first.summary)}"
            headline = f"{', '.join(plan.stack for plan, _ in equal)}: each {effect}"
        yield from (Text(headline, style="bold"), *body)
        yield from _block([Text(f"{made}{_expiry(first)}", style="dim")])
        yield Text()


def _workspace(report: WorkspaceReport, *, details: bool) -> Iterator[Text]:
    from terradask._plans.report import cost_before

    quiet = [plan.stack for plan in report.plans if plan.verdict == "no changes"]
    shown = [plan for plan in report.plans if len(report.plans) == 1 or plan.stack not in quiet]
    yield from _alike(shown, details=details)
    cost, before = report.cost, cost_before(report.plans)
    if cost is not None and (before is None or before.totals() != cost.totals()):
        missing = f" (without {len(cost.unpriced)} that have no price)" if cost.unpriced else ""
        totals = f"cost of these stacks together: {_totals(cost, before)}{missing}"
        yield from (Text(totals, style="bold"), Text())
    notes = [
        *(
            Text(f"{stack}: could not be planned: {reason}", style="bold red")
            for stack, reason in report.failed.items()
        ),
        *(
            Text(f"{', '.join(stacks)}: {what}")
            for stacks, what in (
                (quiet if len(report.plans) > 1 else [], "no changes"),
                (report.unchanged, "unchanged since the last apply"),
                (report.waiting, "waiting for the network: terradask apply network"),
            )
            if stacks
        ),
    ]
    yield from (*notes, *([Text()] if notes else []))
    name = report.stack or f"workspace {report.context.workspace}"
    yield _verdict(report, name)


def _verdict(report: PlanReport | WorkspaceReport, name: str) -> Text:
    """Return the last line, which a long report doesn't scroll away."""
    plans = report.plans if hasattr(report, "plans") else (report,)
    counts = report.counts if hasattr(report, "counts") else report.summary.counts
    number = sum(len(plan.summary.outputs) for plan in plans)
    effect, verdict = effect_of(counts, number), VERDICTS[report.verdict]
    if not any(plan.summary.changed for plan in plans):
        what = verdict
    else:
        what = effect if verdict == "changes" else f"{verdict}: {effect}"
    refused = ": terradask apply refuses this plan" if report.verdict == "blocked" else ""
    style = "bold red" if report.verdict in ("failed", "blocked", "dangerous") else "bold"
    return Text(f"{name}: {what}{refused}", style=style)


def _changes(summary: PlanSummary, *, details: bool) -> Iterator[Text]:
    """Yield what many resources have in common once, then each, then what follows from others."""
    gathered = gather([summary], ("update", "import"))
    for one in gathered.equal:
        yield _signed("update", equal_text(one))
    left = {one.change.address: one.change for one in gathered.rest}
    unknown = [one for one in gathered.rest if not any(a.known for a in one.change.attributes)]
    if len(unknown) > _ALONE and not details:
        paths = dict.fromkeys(a.path for one in unknown for a in one.change.attributes)
        later = f"known after apply: {', '.join(paths)}"
        yield _signed("update", f"{counted_resources(unknown)}: {later}")
        for each in unknown:
            del left[each.change.address]
    followers: dict[str, list[str]] = {}
    for change in summary.changes:
        if change.follows and change.action == "replace":
            followers.setdefault(change.follows, []).append(change.address)
        elif change.address in left:
            yield from _change(left[change.address], details=details)
        elif change.action not in ("update", "import"):
            yield from _change(change, details=details)
    for cause, addresses in followers.items():
        what = f"{len(addresses)} more with {cause}: {', '.join(by_type(addresses))}"
        yield _signed("replace", what)


def _drift(summary: PlanSummary) -> Iterator[Text]:
    """Yield what many resources have in common once, with their addresses, then each."""
    gathered = gather_drift([summary])
    for one in gathered.equal:
        yield _signed("update", equal_text(one))
        yield Text(f"      {named_in(one)}")
    for left in gathered.rest:
        yield from _change(left.change, details=True)


def _signed(action: str, what: str) -> Text:
    sign, style = sign_of(action)
    return Text.assemble("  ", (sign, f"bold {style}"), (f" {what}", style))


def equal_text(one: EqualChange) -> str:
    """Return values that change alike, after the number of resources."""
    return f"{counted_resources(one.changes)}: {'; '.join(map(assignment, one.values))}"


def named_in(one: EqualChange) -> str:
    """Return the addresses of the resources with an equal change."""
    return ", ".join(by_type(each.change.address for each in one.changes))


def by_type(addresses: Iterable[str]) -> Iterator[str]:
    """Yield addresses, those of a type as ``aws_subnet.{a, b}``."""
    names: dict[str, list[str]] = {}
    for address in addresses:
        kind, _, name = address.rpartition(".")
        names.setdefault(kind, []).append(name)
    for kind, found in names.items():
        inner = found[0] if len(found) == 1 else f"{{{', '.join(found)}}}"
        yield f"{kind}.{inner}"


def _block(lines: Iterable[Text], *, title: str | None = None) -> Iterator[Text]:
    """Yield an empty line, the title and the lines, if there are lines."""
    found = list(lines)
    if found:
        yield from (Text(), *([] if title is None else [Text(title, style="bold")]), *found)


def _caution(one: Caution) -> Iterator[Text]:
    happens = "; ".join(one.texts)
    if one.forced_by:
        values = (
            assignment(replace(value, forces_replacement=False)) if value.known else value.path
            for value in one.forced_by
        )
        happens += f" (because of {', '.join(values)})"
    is_one = len(one.running) == 1
    parts = [happens, one.following, *(one.running if is_one else ())]
    about = f" {'; '.join(filter(None, parts))}"
    yield Text.assemble("! ", (one.address, "bold"), about, style="bold red")
    for before, after in one.rules:
        yield Text(f"    - {before}", style="red")
        yield Text(f"    + {after}", style="green")
    for text in () if is_one else one.running:
        yield Text(f"    {text}", style="red")


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
    values = values_beside_documents(change)
    for attribute in values:
        if attribute.known or attribute.forces_replacement:
            yield Text(f"      {assignment(attribute)}")
    later = [a.path for a in values if not (a.known or a.forces_replacement)]
    if later:
        yield Text(f"      known after apply: {', '.join(later)}")
    forcing = {top_level(path) for path in change.replaced_because_of}
    for document in change.documents:
        forces = "  # forces replacement" if document.path in forcing else ""
        yield Text(f"      {document.path}, decoded:{forces}")
        for part in document.lines:
            yield Text(f"        {part}", style=_DIFF_STYLES.get(part[:1], ""))


def _cost(cost: CostEstimate, before: CostEstimate | None) -> Iterator[Text]:
    if before is not None and before.totals() == cost.totals():
        return
    if cost.has_no_price:
        yield Text(f"cost: no prices: {cost.problem}", style="bold")
        return
    yield Text(f"cost: {_totals(cost, before)}", style="bold")
    for item in cost.unpriced:
        about = ": ".join(filter(None, (item.address, item.what, item.note)))
        yield Text(f"  without a price, and not in the totals: {about}", style="yellow")
    yield Text(f"  {cost_origin(cost)}", style="dim")


def _totals(cost: CostEstimate, before: CostEstimate | None) -> str:
    stopped, desired, most = (
        _of_size(getattr(before, f"{name}_hourly_usd", None), getattr(cost, f"{name}_hourly_usd"))
        for name in ("stopped", "desired", "maximum")
    )
    has_stop = cost.stopped_hourly_usd != cost.desired_hourly_usd
    while_stopped = f"{stopped} while stopped; when started " if has_stop else ""
    return f"{while_stopped}{desired}; at the largest size {most}"


def _of_size(before: Decimal | None, after: Decimal) -> str:
    month = price(after * HOURS_PER_MONTH)
    if before is not None and before != after:
        return f"{price(before * HOURS_PER_MONTH)} -> {month} a month"
    return f"{price(after, digits=4)} an hour, {month} a month"
