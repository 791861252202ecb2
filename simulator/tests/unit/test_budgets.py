"""Budgets are checked and described as AWS does it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from terradask_simulator.aws.fidelity import budgets

ACCOUNT = "123456789012"
ARN = f"arn:aws:budgets::{ACCOUNT}:budget/month"
OF_MONTH = {"AccountId": ACCOUNT, "BudgetName": "month"}
EMAIL = {"SubscriptionType": "EMAIL", "Address": "ada@example.com"}
TOPIC = {"SubscriptionType": "SNS", "Address": f"arn:aws:sns:us-east-1:{ACCOUNT}:costs"}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    budgets.install()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("budgets", region_name="eu-west-1")


def budget(**more: Any) -> dict[str, Any]:
    return {
        "BudgetName": "month",
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": "500", "Unit": "USD"},
        **more,
    }


def notice(percent: float = 80, kind: str = "ACTUAL") -> dict[str, Any]:
    return {
        "NotificationType": kind,
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": percent,
        "ThresholdType": "PERCENTAGE",
    }


def add(client: Any, *subscribers: dict[str, str], **more: Any) -> None:
    client.create_notification(**OF_MONTH, Notification=notice(**more), Subscribers=[*subscribers])


def refusal(call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(*arguments, **more)
    error = refused.value.response["Error"]
    return f"{error['Code']}: {error['Message']}"


def test_a_budget_has_its_tags_its_period_and_its_notifications(client: Any) -> None:
    tag = {"Key": "a", "Value": "b"}
    client.create_budget(AccountId=ACCOUNT, Budget=budget(), ResourceTags=[tag])
    add(client, EMAIL, TOPIC)
    found = client.describe_budget(**OF_MONTH)["Budget"]
    start = found["TimePeriod"]["Start"].astimezone(UTC)
    assert (start.day, start.hour) == (1, 0)
    (listed,) = client.describe_notifications_for_budget(**OF_MONTH)["Notifications"]
    assert listed["NotificationState"] == "OK"
    # As Terraform's provider has seen it.
    assert "ThresholdType" not in listed
    told = client.describe_subscribers_for_notification(**OF_MONTH, Notification=listed)
    assert told["Subscribers"] == [EMAIL, TOPIC]
    assert client.list_tags_for_resource(ResourceARN=ARN)["ResourceTags"] == [tag]
    client.tag_resource(ResourceARN=ARN, ResourceTags=[{"Key": "c", "Value": "d"}])
    client.untag_resource(ResourceARN=ARN, ResourceTagKeys=["a"])
    assert [one["Key"] for one in client.list_tags_for_resource(ResourceARN=ARN)["ResourceTags"]]
    client.delete_notification(**OF_MONTH, Notification=notice())
    assert client.describe_notifications_for_budget(**OF_MONTH)["Notifications"] == []


@pytest.mark.parametrize(
    ("unit", "months"),
    [("QUARTERLY", {1, 4, 7, 10}), ("ANNUALLY", {1}), ("MONTHLY", set(range(1, 13)))],
)
def test_a_period_begins_with_the_calendars(client: Any, unit: str, months: set[int]) -> None:
    end = {"End": 3706473600}
    client.create_budget(AccountId=ACCOUNT, Budget=budget(TimeUnit=unit, TimePeriod=end))
    start = client.describe_budget(**OF_MONTH)["Budget"]["TimePeriod"]["Start"].astimezone(UTC)
    assert start.day == 1
    assert start.month in months


def test_an_update_keeps_notifications_and_the_start(client: Any) -> None:
    client.create_budget(AccountId=ACCOUNT, Budget=budget())
    add(client, EMAIL)
    before = client.describe_budget(**OF_MONTH)["Budget"]["TimePeriod"]["Start"]
    changed = budget(BudgetLimit={"Amount": "600", "Unit": "USD"})
    client.update_budget(AccountId=ACCOUNT, NewBudget=changed)
    after = client.describe_budget(**OF_MONTH)["Budget"]
    assert (after["BudgetLimit"]["Amount"], after["TimePeriod"]["Start"]) == ("600", before)
    assert len(client.describe_notifications_for_budget(**OF_MONTH)["Notifications"]) == 1


def test_what_is_not_there_is_not_found(client: Any) -> None:
    for call, arguments in (
        (client.update_budget, {"AccountId": ACCOUNT, "NewBudget": budget()}),
        (client.describe_notifications_for_budget, OF_MONTH),
        (client.list_tags_for_resource, {"ResourceARN": ARN}),
        (client.delete_budget, OF_MONTH),
    ):
        assert refusal(call, **arguments).startswith("NotFoundException")
    client.create_budget(AccountId=ACCOUNT, Budget=budget())
    missing = {**OF_MONTH, "Notification": notice()}
    for call in (client.delete_notification, client.describe_subscribers_for_notification):
        assert refusal(call, **missing).startswith("NotFoundException")


@pytest.mark.parametrize(
    "more",
    [
        {"BudgetName": "a:b"},
        {"BudgetName": "a/action/b"},
        {"BudgetName": "n" * 101},
        {"BudgetLimit": {"Amount": "5e2", "Unit": "USD"}},
        {"CostFilters": {"TagKeyValue": ["user:team"]}},
    ],
)
def test_a_malformed_budget_is_refused(client: Any, more: dict[str, Any]) -> None:
    told = refusal(client.create_budget, AccountId=ACCOUNT, Budget=budget(**more))
    assert told.startswith("InvalidParameterException")
    assert client.describe_budgets(AccountId=ACCOUNT)["Budgets"] == []


def test_a_name_is_given_once(client: Any) -> None:
    client.create_budget(AccountId=ACCOUNT, Budget=budget())
    told = refusal(client.create_budget, AccountId=ACCOUNT, Budget=budget())
    assert told.startswith("DuplicateRecordException")


def test_notifications_have_awss_limits(client: Any) -> None:
    client.create_budget(AccountId=ACCOUNT, Budget=budget())
    emails = [{**EMAIL, "Address": f"{number}@example.com"} for number in range(10)]
    add(client, *emails, TOPIC)
    assert refusal(add, client, EMAIL).startswith("DuplicateRecordException")
    two = (TOPIC, {**TOPIC, "Address": f"{TOPIC['Address']}-2"})
    assert refusal(add, client, *two, percent=1) == (
        "CreationLimitExceededException: one notification can only have 1 subscribers with type of "
        "SNS"
    )
    for percent in range(1, 10):
        add(client, EMAIL, percent=percent)
    assert refusal(add, client, EMAIL, percent=11).startswith("CreationLimitExceededException")
    client.delete_notification(**OF_MONTH, Notification=notice())
    for percent in (0, 1_000_001):
        assert refusal(add, client, EMAIL, percent=percent).startswith("InvalidParameterException")


def test_no_single_day_is_forecast(client: Any) -> None:
    daily = budget(TimeUnit="DAILY")
    both = {"Notification": notice(kind="FORECASTED"), "Subscribers": [EMAIL]}
    told = refusal(
        client.create_budget, AccountId=ACCOUNT, Budget=daily, NotificationsWithSubscribers=[both]
    )
    assert told.startswith("InvalidParameterException")
    client.create_budget(AccountId=ACCOUNT, Budget=daily)
    assert refusal(add, client, EMAIL, kind="FORECASTED").startswith("InvalidParameterException")
    add(client, EMAIL)
