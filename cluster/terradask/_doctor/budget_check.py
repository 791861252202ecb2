"""Check the network's budgets: whether they exist, send warnings, and count costs."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._doctor.finding import Finding
from terradask.errors import AccessDenied
from terradask_modules.kinds.budget import Budget, budget_name, counted_key

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings

_BUDGETS = "budgets"
_APPLY_NETWORK = "terradask apply network"


def check_budgets(aws: Aws, settings: Settings) -> Finding:
    """Check the budgets of the settings, if there are any.

    Permissions needed: ``budgets:ViewBudget`` on them; without it the check passes.

    Notes
    -----
    Terraform's provider takes a budget without notifications for unchanged, as an interrupted
    change leaves it.

    AWS (documented, budgets-blind): A budget that counts by a tag has no costs before the tag is an
    active cost allocation tag.
    https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-create-filters.html
    """
    budgets = [one.budget for one in settings.network.budgets]
    if not budgets:
        return Finding(_BUDGETS, True, "none (network.budgets is empty)")
    where = settings.workspace.where(aws.account_id, aws.partition)
    client = aws.client("budgets")
    found, blind = [], []
    try:
        for budget in budgets:
            name = budget_name(where, budget.name)
            held = None
            with unless("NotFoundException"):
                held = client.describe_budget(AccountId=aws.account_id, BudgetName=name)["Budget"]
            if held is None:
                return Finding(_BUDGETS, False, f"{name} doesn't exist", _APPLY_NETWORK)
            wrong = _without_warning(client, aws.account_id, name, budget)
            if wrong is not None:
                return wrong
            spent = Decimal(held["CalculatedSpend"]["ActualSpend"]["Amount"])
            found.append(f"{name} has counted {spent:.2f} of {budget.amount_usd:.2f} USD")
            if not spent:
                blind.append(counted_key(budget))
    except AccessDenied as error:
        return Finding(_BUDGETS, True, f"not visible to this caller: it lacks {error.action}")
    if blind:
        keys = " and ".join(dict.fromkeys(blind))
        found.append(f"where 0.00 stays for days, activate the cost allocation tag {keys}")
    return Finding(_BUDGETS, True, "; ".join(found))


def _without_warning(client: Any, account: str, name: str, budget: Budget) -> Finding | None:
    """Return the finding on a budget that doesn't warn at the thresholds of the settings."""
    method = "describe_notifications_for_budget"
    notices = {
        (one["NotificationType"], float(one["Threshold"]))
        for one in listed(client, method, "Notifications", AccountId=account, BudgetName=name)
    }
    if notices == {(one.type, float(one.percent)) for one in budget.notices}:
        return None
    if notices:
        return Finding(
            _BUDGETS, False, f"{name} has other thresholds than the settings", _APPLY_NETWORK
        )
    return Finding(
        _BUDGETS,
        False,
        f"{name} has lost its notifications, which Terraform doesn't see: it warns of nothing",
        f"aws budgets delete-budget --account-id {account} --budget-name {name}; then "
        "terradask apply network makes it again",
    )
