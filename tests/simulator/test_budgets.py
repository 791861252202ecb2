"""Budgets of a network: made, changed, adopted and removed with the rights of the generated
policies alone, and nothing of them left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from terradask import Workspace
from terradask._doctor.budget_check import check_budgets
from terradask_modules.caller_policies import Caller, CallerScope, caller_policies
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ACCOUNT = "123456789012"
PLACE = PolicyScope(
    where=Where(partition="aws", region="us-east-1", account=ACCOUNT, workspace="default")
)
SCOPE = CallerScope(hosts=PLACE, session_manager=True, settings=frozenset({"budgets"}))
MONTH: dict[str, Any] = {
    "name": "month",
    "amount_usd": 500,
    "forecast_percent": [100],
    "emails": ["ada@example.com", "bo@example.com"],
}
TEAM: dict[str, Any] = {
    "name": "team",
    "amount_usd": 25.5,
    "period": "daily",
    "actual_percent": [50.5],
    "topic_arn": f"arn:aws:sns:us-east-1:{ACCOUNT}:costs",
    "tags": {"team": "research"},
}


def policies(caller: Caller) -> list[dict[str, Any]]:
    return list(caller_policies(SCOPE, caller).values())


def workspace(*budgets: dict[str, Any]) -> Workspace:
    return Workspace.load(network={"zones": ["us-east-1a"], "budgets": list(budgets)})


@pytest.fixture
def strict_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS that evaluates IAM."""
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        yield simulator


def test_budgets_are_made_changed_adopted_and_gone_with_the_network(strict_sim: Simulator) -> None:
    with contextlib.closing(strict_sim.client("budgets")) as aws:

        def budgets() -> dict[str, dict[str, Any]]:
            found = aws.describe_budgets(AccountId=ACCOUNT)["Budgets"]
            return {one["BudgetName"].removeprefix("terradask-default."): one for one in found}

        def notices(name: str) -> dict[tuple[str, float], list[str]]:
            budget = {"AccountId": ACCOUNT, "BudgetName": f"terradask-default.{name}"}
            listed = aws.describe_notifications_for_budget(**budget)["Notifications"]
            return {
                (one["NotificationType"], one["Threshold"]): sorted(
                    each["Address"]
                    for each in aws.describe_subscribers_for_notification(
                        **budget, Notification=one
                    )["Subscribers"]
                )
                for one in listed
            }

        def applied(*wanted: dict[str, Any]) -> None:
            with strict_sim.acting_as("setup", *policies("setup")):
                made = workspace(*wanted)
                made.apply(made.plan_network())

        applied(MONTH, TEAM)
        made = budgets()
        assert {
            name: (one["TimeUnit"], float(one["BudgetLimit"]["Amount"]), one["CostFilters"])
            for name, one in made.items()
        } == {
            "month": ("MONTHLY", 500, {"TagKeyValue": ["user:terradask:workspace$default"]}),
            "team": ("DAILY", 25.5, {"TagKeyValue": ["user:team$research"]}),
        }
        assert notices("month") == {
            ("ACTUAL", 80.0): MONTH["emails"],
            ("ACTUAL", 100.0): MONTH["emails"],
            ("FORECASTED", 100.0): MONTH["emails"],
        }
        assert notices("team") == {("ACTUAL", 50.5): [TEAM["topic_arn"]]}

        # Who plans the network sees no change.
        for caller in ("ongoing", "ci"):
            with strict_sim.acting_as(caller, *policies(caller)):
                assert not workspace(MONTH, TEAM).plan_network().changed

        fewer = {**MONTH, "amount_usd": 600, "actual_percent": [90], "emails": ["bo@example.com"]}
        applied(fewer)
        assert budgets().keys() == {"month"}
        assert float(budgets()["month"]["BudgetLimit"]["Amount"]) == 600
        told = ["bo@example.com"]
        assert notices("month") == {("ACTUAL", 90.0): told, ("FORECASTED", 100.0): told}

        # One that an interrupted apply has made, without its notifications yet.
        aws.create_budget(
            AccountId=ACCOUNT,
            Budget={
                "BudgetName": "terradask-default.team",
                "BudgetType": "COST",
                "TimeUnit": "DAILY",
                "BudgetLimit": {"Amount": "25.5", "Unit": "USD"},
            },
            ResourceTags=[{"Key": "terradask:workspace", "Value": "default"}],
        )
        applied(fewer, TEAM)
        assert notices("team") == {("ACTUAL", 50.5): [TEAM["topic_arn"]]}
        assert budgets()["team"]["CostFilters"] == {"TagKeyValue": ["user:team$research"]}

        # One that an interrupted change has left without notifications: Terraform sees no change.
        of_team = {"AccountId": ACCOUNT, "BudgetName": "terradask-default.team"}
        (one,) = aws.describe_notifications_for_budget(**of_team)["Notifications"]
        aws.delete_notification(**of_team, Notification=one)
        with strict_sim.acting_as("ci", *policies("ci")):
            made = workspace(fewer, TEAM)
            assert not made.plan_network().changed
            check = check_budgets(made.aws, made.settings)
        assert "terradask-default.team has lost its notifications" in check.found
        aws.delete_budget(**of_team)
        applied(fewer, TEAM)
        assert notices("team") == {("ACTUAL", 50.5): [TEAM["topic_arn"]]}

        with strict_sim.acting_as("setup", *policies("setup")):
            workspace(fewer, TEAM).destroy_network()
        assert budgets() == {}
