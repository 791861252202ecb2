"""Settings of budgets: within what AWS takes, and each refusal with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from terradask_modules.kinds.budget import Notice
from terradask_stacks.errors import Finding
from terradask_stacks.settings import NetworkSettings, Settings, WorkspaceSettings
from terradask_stacks.settings.budgets import BudgetSettings

from .settings_files import problems

TOPIC = "arn:aws:sns:us-east-1:123456789012:costs"
MONTH: dict[str, Any] = {"name": "month", "amount_usd": 500, "emails": ["ada@example.com"]}


def read(**more: Any) -> BudgetSettings:
    return BudgetSettings(**{**MONTH, **more})


def test_what_is_left_out_has_its_default() -> None:
    budget = read().budget
    assert (budget.period, budget.tag, budget.topic_arn) == ("MONTHLY", None, None)
    assert budget.notices == [Notice("ACTUAL", 80), Notice("ACTUAL", 100)]


def test_thresholds_are_in_order_and_of_both_types() -> None:
    budget = read(
        period="annually", actual_percent=[100.5, 50], forecast_percent=[120], topic_arn=TOPIC
    ).budget
    assert budget.period == "ANNUALLY"
    assert [(one.type, one.percent) for one in budget.notices] == [
        ("ACTUAL", 50),
        ("ACTUAL", 100.5),
        ("FORECASTED", 120),
    ]


def test_as_much_as_aws_takes_is_taken() -> None:
    read(
        name="n" * 32,
        actual_percent=list(range(1, 10)),
        forecast_percent=[1_000_000],
        emails=[f"{number}@example.com" for number in range(10)],
        topic_arn=TOPIC,
        tags={"team": "a"},
    )
    assert read(emails=[], topic_arn=TOPIC, tags={"team": "a"}).budget.tag == ("team", "a")
    assert read(actual_percent=[], forecast_percent=[100]).budget.notices


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"name": "Month"}, "lower-case letter"),
        ({"name": "a.b"}, "lower-case letter"),
        ({"name": "n" * 33}, "up to 31"),
        ({"amount_usd": 0}, "greater than or equal to 0.01"),
        ({"amount_usd": float("inf")}, "finite"),
        ({"period": "weekly"}, "'daily', 'monthly', 'quarterly' or 'annually'"),
        ({"actual_percent": []}, "has 0 thresholds"),
        ({"actual_percent": list(range(1, 10)), "forecast_percent": [1, 2]}, "has 11 thresholds"),
        ({"actual_percent": [0]}, "greater than 0"),
        ({"actual_percent": [1_000_001]}, "less than or equal to 1000000"),
        ({"actual_percent": [80, 80.0]}, "80 is given twice"),
        ({"emails": []}, "no address and no topic"),
        ({"emails": ["ada"]}, "is not an e-mail address"),
        ({"emails": ["ada@example.com"] * 2}, "given twice"),
        ({"emails": [f"{number}@example.com" for number in range(11)]}, "at most 10 items"),
        ({"topic_arn": "costs"}, "is not the ARN of an SNS topic"),
        ({"topic_arn": f"{TOPIC}.fifo"}, "is not the ARN of an SNS topic"),
        ({"period": "daily", "forecast_percent": [100]}, "AWS forecasts no single day"),
        ({"tags": {"team": "a", "project": "b"}}, "need all of them or any"),
        ({"tags": {"team": ""}}, "a tag without a value"),
        ({"tags": {"terradask:cluster": "a"}}, "reserved prefix"),
        ({"tags": {"team": "a$b"}}, "can't be used"),
        ({"action": "stop"}, "Extra inputs"),
    ],
)
def test_what_aws_refuses_or_nobody_hears_of_is_refused(
    given: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ValueError, match=refusal):
        read(**given)


def said(**budget: Any) -> Finding:
    """Load settings with a budget that can't be used; return the one finding on it."""
    found: Finding
    network = {"budgets": [{key: value for key, value in budget.items() if value is not None}]}
    (found,) = problems(overrides={"network": network}).values()
    return found


def test_a_name_is_refused_in_words_and_with_one_that_is_taken() -> None:
    found = said(**MONTH | {"name": "X Y"})
    assert str(found.allowed).startswith("a lower-case letter, then up to 31 lower-case letters")
    assert found.advice == "choose another name, such as 'x-y'"


def test_two_tags_are_refused_with_the_reason_and_what_to_do() -> None:
    found = said(**MONTH, tags={"team": "a", "project": "b"})
    assert "AWS documents nowhere" in found.problem
    assert found.allowed == "one tag, or none for the workspace's"
    assert found.advice == "keep one, or make a budget of each"


@pytest.mark.parametrize(("name", "line"), [("amount_usd", "= 500"), ("name", '= "month"')])
def test_what_is_missing_is_shown_by_an_example(name: str, line: str) -> None:
    assert said(**MONTH | {name: None}).advice == f"add {name} {line}, for example"


def test_too_many_entries_are_told_how_many_may_be() -> None:
    emails = [f"{number}@example.com" for number in range(11)]
    assert said(**MONTH | {"emails": emails}).allowed == "at most 10"


def test_names_differ() -> None:
    with pytest.raises(ValueError, match="month is given twice"):
        NetworkSettings(budgets=[MONTH, {**MONTH, "amount_usd": 5}])


@pytest.mark.parametrize("region", ["cn-north-1", "us-gov-west-1"])
def test_other_partitions_have_none(region: str) -> None:
    network = NetworkSettings(budgets=[MONTH])
    with pytest.raises(ValueError, match="doesn't count there in US dollars"):
        Settings(workspace=WorkspaceSettings(region=region), network=network)
    Settings(workspace=WorkspaceSettings(region=region))
    Settings(workspace=WorkspaceSettings(region="eu-west-1"), network=network)
