"""What doctor says of the network's budgets."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.stub import Stubber

from terradask._doctor.budget_check import check_budgets
from terradask._doctor.finding import Finding
from terradask_stacks.settings import NetworkSettings, Settings

from .stubbed_aws import StubbedAws, aws

__all__ = ["aws"]

NAME = "terradask-default.month"
MONTH: dict[str, Any] = {"name": "month", "amount_usd": 500, "emails": ["ada@example.com"]}


def settings(**more: Any) -> Settings:
    return Settings(network=NetworkSettings(budgets=[{**MONTH, **more}]))


def described(spent: str) -> dict[str, Any]:
    usd = {"Amount": spent, "Unit": "USD"}
    spend = {"ActualSpend": usd, "ForecastedSpend": usd}
    about = {"BudgetName": NAME, "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    return {"Budget": {**about, "CalculatedSpend": spend}}


def notified(*percents: float) -> dict[str, Any]:
    about = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN"}
    return {"Notifications": [{**about, "Threshold": percent} for percent in percents]}


def stubbed(aws: StubbedAws, spent: str, *percents: float) -> Stubber:
    stub: Stubber = aws.stub("budgets")
    asked = {"AccountId": aws.account_id, "BudgetName": NAME}
    stub.add_response("describe_budget", described(spent), asked)
    stub.add_response("describe_notifications_for_budget", notified(*percents), asked)
    return stub


def test_without_budgets_aws_is_not_asked(aws: StubbedAws) -> None:
    assert check_budgets(aws, Settings()).found == "none (network.budgets is empty)"


def test_costs_that_are_counted_are_shown(aws: StubbedAws) -> None:
    stubbed(aws, "123.456", 100, 80)
    told = f"{NAME} has counted 123.46 of 500.00 USD"
    assert check_budgets(aws, settings()) == Finding("budgets", True, told)


@pytest.mark.parametrize(
    ("more", "key"), [({}, "terradask:workspace"), ({"tags": {"team": "a"}}, "team")]
)
def test_a_budget_that_has_counted_nothing_may_lack_its_tag(
    aws: StubbedAws, more: dict[str, Any], key: str
) -> None:
    stubbed(aws, "0", 100, 80)
    check = check_budgets(aws, settings(**more))
    assert check.ok
    assert check.found.endswith(f"activate the cost allocation tag {key}")


def test_a_missing_budget_is_to_be_made(aws: StubbedAws) -> None:
    aws.stub("budgets").add_client_error("describe_budget", "NotFoundException")
    check = check_budgets(aws, settings())
    assert (check.ok, check.fix) == (False, "terradask apply network")
    assert f"{NAME} doesn't exist" in check.found


def test_a_budget_without_notifications_is_made_again(aws: StubbedAws) -> None:
    stubbed(aws, "5")
    check = check_budgets(aws, settings())
    assert not check.ok
    assert "warns of nothing" in check.found
    assert f"--budget-name {NAME}; then terradask apply network" in str(check.fix)


def test_other_thresholds_are_applied(aws: StubbedAws) -> None:
    stubbed(aws, "5", 80)
    check = check_budgets(aws, settings())
    assert (check.ok, check.fix) == (False, "terradask apply network")


def test_without_the_right_the_check_passes(aws: StubbedAws) -> None:
    aws.stub("budgets").add_client_error("describe_budget", "AccessDeniedException")
    check = check_budgets(aws, settings())
    assert check.ok
    assert "not visible to this caller" in check.found
