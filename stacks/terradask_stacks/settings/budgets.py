"""Budgets of the workspace's costs: ``[[network.budgets]]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from terradask_modules.kinds.budget import Budget, Notice
from terradask_stacks.settings.base import Number, Section, Tags
from terradask_stacks.validators.names import validate_budget_name
from terradask_stacks.validators.refusal import refuse, refusing, unique
from terradask_stacks.validators.resources import check_email, check_topic_arn

Email = Annotated[str, AfterValidator(check_email)]

#: AWS (documented, budget-limits): A budget has up to ten notifications, of thresholds up to
#: 1,000,000 %; each goes to up to ten addresses and one topic of SNS.
#: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Notification.html
_MOST_NOTICES = 10
_MOST_EMAILS = 10


def _each_once(percents: Sequence[float]) -> Sequence[float]:
    unique([f"{percent:g}" for percent in percents])
    return percents


def _one_tag(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > 1:
        raise refuse(
            f"a budget can't count by {len(tags)} tags: AWS documents nowhere whether costs need "
            "all of them or any",
            allowed="one tag, or none for the workspace's",
            advice="keep one, or make a budget of each",
        )
    return tags


#: AWS (budget-limits)
_Percent = Annotated[Number, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
_Percents = Annotated[list[_Percent], AfterValidator(_each_once)]


class BudgetSettings(Section):
    """A budget of AWS Budgets, which warns people when costs pass parts of an amount. It stops
    nothing.
    """

    name: Annotated[str, AfterValidator(refusing(validate_budget_name))] = Field(
        description="Name in the workspace: lower-case letters, digits and hyphens. AWS's is "
        "terradask-WORKSPACE.NAME.",
        examples=["month"],
    )
    amount_usd: Number = Field(
        ge=0.01,
        allow_inf_nan=False,
        description="Amount of a period, in US dollars, that thresholds are percentages of.",
        examples=[500],
    )
    period: Literal["daily", "monthly", "quarterly", "annually"] = Field(
        default="monthly", description="Period of the calendar, in UTC, in which costs add up."
    )
    actual_percent: _Percents = Field(
        default=[80, 100],
        description="Percentages of the amount. AWS warns once a period when costs have passed "
        "one.",
    )
    forecast_percent: _Percents = Field(
        default=[],
        description="Percentages that costs will probably pass by the period's end, as AWS "
        "forecasts after about five weeks; not with daily.",
    )
    emails: Annotated[list[Email], AfterValidator(unique)] = Field(
        default=[],
        max_length=_MOST_EMAILS,
        description="Addresses that AWS warns, at most 10; the plan and the state show them.",
    )
    topic_arn: Annotated[str, AfterValidator(check_topic_arn)] | None = Field(
        default=None,
        description="Your SNS topic for warnings. Its policy must let budgets.amazonaws.com "
        "publish.",
    )
    tags: Annotated[Tags, AfterValidator(_one_tag)] = Field(
        default={},
        description="One tag of your own, such as { team = 'a' }: the budget counts what has it, "
        "in the whole account. Empty: what has the workspace's tag.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> BudgetSettings:
        where = f"the budget {self.name!r}"
        number = len(self.actual_percent) + len(self.forecast_percent)
        if not 1 <= number <= _MOST_NOTICES:
            raise refuse(
                f"{where} has {number} thresholds",
                allowed=f"1 to {_MOST_NOTICES} in actual_percent and forecast_percent together",
            )
        if not self.emails and self.topic_arn is None:
            raise refuse(
                f"{where} has no address and no topic",
                allowed="emails, topic_arn or both",
                advice="set emails",
            )
        # AWS (reported, daily-forecast): CreateNotification refuses FORECASTED for a daily budget,
        # with InvalidParameterException. https://github.com/JiRaska/open-bank-oss/pull/226
        if self.period == "daily" and self.forecast_percent:
            raise refuse(
                f"{where} is daily and has forecast_percent: AWS forecasts no single day",
                allowed="forecast_percent with monthly, quarterly or annually",
                advice="use actual_percent",
            )
        if "" in self.tags.values():
            raise refuse(f"{where} counts a tag without a value", allowed="a key with a value")
        return self

    @property
    def budget(self) -> Budget:
        """It as a part of the network."""
        return Budget(
            name=self.name,
            amount_usd=self.amount_usd,
            period=self.period.upper(),
            notices=[
                Notice(type, percent)
                for type, percents in (
                    ("ACTUAL", self.actual_percent),
                    ("FORECASTED", self.forecast_percent),
                )
                for percent in sorted(percents)
            ],
            emails=sorted(self.emails),
            topic_arn=self.topic_arn,
            tag=next(iter(self.tags.items()), None),
        )


def _names_differ(budgets: list[BudgetSettings]) -> list[BudgetSettings]:
    unique([budget.name for budget in budgets])
    return budgets


Budgets = Annotated[list[BudgetSettings], AfterValidator(_names_differ)]
