"""The team's policy: the cost limit of a stack, notebook servers, waivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from terradask._common.naming import some
from terradask._plans.policy.document import PlanDocument, written_document
from terradask._plans.policy.findings import PolicyFinding, Waived

if TYPE_CHECKING:
    from terradask._catalog.prices.prices import CostEstimate
    from terradask_stacks.settings.policy import PolicySettings, Waiver


COST_CHECK = "cost"
_NAMED = 3


def cost_findings(estimate: CostEstimate, settings: PolicySettings) -> tuple[PolicyFinding, ...]:
    """Return the findings on a stack's cost at its maximum size."""
    if settings.max_hourly_cost_usd is None:
        return ()
    limit, maximum = Decimal(str(settings.max_hourly_cost_usd)), estimate.maximum_hourly_usd
    if maximum > limit:
        return (
            PolicyFinding(
                COST_CHECK,
                "error",
                "",
                f"the stack can cost {_usd(maximum)} an hour at its maximum "
                f"size{_largest(estimate)}; policy.max_hourly_cost_usd is {_usd(limit)}",
                "lower max_workers, choose other instance types, or raise the limit",
            ),
        )
    if estimate.problem is not None or estimate.unpriced:
        return (_undecided(estimate, limit),)
    return ()


def _undecided(estimate: CostEstimate, limit: Decimal) -> PolicyFinding:
    if estimate.problem is not None:
        why = f"prices are unknown ({estimate.problem})"
    else:
        names = [f"{item.address} ({item.what})" for item in estimate.unpriced]
        why = f"there is no price for {some(names, _NAMED)}"
    return PolicyFinding(
        COST_CHECK,
        "warning",
        "",
        f"{why}: can't check whether the stack stays within policy.max_hourly_cost_usd, "
        f"{_usd(limit)}",
        "check the unpriced resources; if AWS's prices could not be reached, plan again",
    )


def _largest(estimate: CostEstimate) -> str:
    priced = sorted(
        (item for item in estimate.items if item.maximum_hourly_usd),
        key=lambda item: item.maximum_hourly_usd or 0,
        reverse=True,
    )
    return (
        f", {_usd(priced[0].maximum_hourly_usd or Decimal())} of it for {priced[0].address}"
        if priced
        else ""
    )


def _usd(amount: Decimal) -> str:
    # Cents, or more digits for amounts below a cent.
    shown = next(
        (rounded for rounded in (round(amount, 2), round(amount, 4)) if rounded == amount),
        round(amount, 4) or amount,
    )
    return f"${shown:,.2f}" if shown == round(shown, 2) else f"${shown.normalize():f}"


JUPYTER_CHECK = "jupyter"


def jupyter_findings(plan: PlanDocument, settings: PolicySettings) -> Iterator[PolicyFinding]:
    """Yield a finding for each cluster whose scheduler's host runs a notebook server."""
    if settings.allow_jupyter:
        return
    for item in plan.of("aws_s3_object"):
        scheduler = written_document(item).get("scheduler")
        if isinstance(scheduler, Mapping) and scheduler.get("jupyter"):
            yield PolicyFinding(
                JUPYTER_CHECK,
                "error",
                item.address,
                "the cluster's scheduler runs a notebook server; policy.allow_jupyter is false",
                "leave jupyter out of the cluster's settings",
            )


#: The check id of findings about waivers; no waiver covers them.
WAIVER_CHECK = "waiver"


def waive(
    findings: Sequence[PolicyFinding], waivers: Sequence[Waiver], *, stack: str, today: date
) -> list[PolicyFinding]:
    """Return the findings, those that a waiver covers marked, and findings about waivers."""
    own = [waiver for waiver in waivers if _fits(waiver.stack, stack)]
    valid = [waiver for waiver in own if today <= waiver.expires]
    marked = []
    for finding in findings:
        waived = next((waiver for waiver in valid if _covers(waiver, finding)), None)
        marked.append(
            finding
            if waived is None
            else finding.waive(Waived(waived.reason, waived.expires.isoformat()))
        )
    return marked + [
        _about(waiver, expired=waiver not in valid)
        for waiver in own
        if waiver not in valid or not any(_covers(waiver, finding) for finding in findings)
    ]


def _covers(waiver: Waiver, finding: PolicyFinding) -> bool:
    return waiver.check == finding.check and _fits(waiver.address, finding.address)


def _about(waiver: Waiver, *, expired: bool) -> PolicyFinding:
    what = f"the waiver of {waiver.check} for {waiver.address}"
    if expired:
        return PolicyFinding(
            WAIVER_CHECK,
            "warning",
            "",
            f"{what} expired on {waiver.expires.isoformat()}, and isn't valid",
            "fix what it waives, or set a new date and reason",
        )
    return PolicyFinding(
        WAIVER_CHECK,
        "note",
        "",
        f"{what} covers nothing",
        'remove it, or name its stack, such as stack = "network"',
    )


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern with ``*`` and ``?``; brackets are literal."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))
