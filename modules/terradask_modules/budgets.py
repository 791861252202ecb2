"""The network's budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from terradask_modules.aws import BudgetsBudget, Construct, at
from terradask_modules.kinds.budget import Budget, budget_name, counted_tag
from terradask_modules.where import Where


class Budgets(Construct):
    """Budgets of AWS Budgets, in the account and not in a region.

    Resources created: a budget of costs for each, with its notifications. They are free.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        where: Where,
        budgets: Sequence[Budget],
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "budgets")
        for budget in budgets:
            recipients = {
                **({"subscriberEmailAddresses": budget.emails} if budget.emails else {}),
                **({"subscriberSnsTopicArns": [budget.topic_arn]} if budget.topic_arn else {}),
            }
            made = BudgetsBudget(
                self,
                budget.name,
                name=budget_name(where, budget.name),
                budget_type="COST",
                # Without an exponent, which AWS refuses.
                limit_amount=format(Decimal(str(budget.amount_usd)), "f"),
                limit_unit="USD",
                time_unit=budget.period,
                cost_filter=[{"name": "TagKeyValue", "values": [counted_tag(where, budget)]}],
                notification=[
                    {
                        "comparisonOperator": "GREATER_THAN",
                        "notificationType": notice.type,
                        "threshold": notice.percent,
                        "thresholdType": "PERCENTAGE",
                        **recipients,
                    }
                    for notice in budget.notices
                ],
                tags=dict(tags),
            )
            at(budget.name, made)
