"""The cost limit of a stack, as a policy."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from terradask._common.naming import some
from terradask._policy.findings import PolicyFinding

if TYPE_CHECKING:
    from terradask._pricing.estimate import CostEstimate
    from terradask_stacks.settings.policy import PolicySettings

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
        "check what has no price; if AWS's prices could not be reached, plan again",
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
