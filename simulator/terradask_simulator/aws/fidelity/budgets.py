"""Check and describe budgets as AWS Budgets does.

moto takes any budget and notification, keeps no tags and no start of a period, and has no updates
and no lists of subscribers.

AWS (reported, budget-topics): Budgets refuse a second topic: "one notification can only have 1
subscribers with type of SNS". https://github.com/aprin-labs/archimedes/pull/1712

AWS (daily-forecast)

AWS (documented, budget-start): A budget without a start begins with the current day, month, quarter
or year, in UTC, and without an end ends in 2087.
https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_TimePeriod.html
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["install"]

#: AWS (budget-names)
_NAME = re.compile(r"(?!.*/action/)[^:\\]{1,100}")
_AMOUNT = re.compile(r"([0-9]*\.)?[0-9]+")
#: AWS (budget-limits)
_MOST_NOTIFICATIONS = 10
#: Type of subscription -> how many of them a notification has at most.
_MOST_SUBSCRIBERS = {"EMAIL": 10, "SNS": 1}
#: The highest percentage of a threshold.
#: AWS (budget-limits)
_MOST_PERCENT = 1_000_000
#: The end of a budget that is given none: 2087-06-15. AWS (budget-start)
_END = 3706473600
#: Period -> the months that one begins in.
_MONTHS = {"MONTHLY": range(1, 13), "QUARTERLY": (1, 4, 7, 10), "ANNUALLY": (1,)}


def install() -> None:
    """Replace moto's checks, and add the calls that it lacks."""
    from moto.budgets.models import BudgetsBackend
    from moto.budgets.responses import BudgetsResponse

    @around(BudgetsBackend, "create_budget")
    def create_budget(
        create: Any, backend: Any, account_id: str, budget: Any, notifications: Any
    ) -> None:
        _check_budget(budget)
        listed = notifications or []
        for number, one in enumerate(listed):
            before = [other["Notification"] for other in listed[:number]]
            _check_notification(budget, before, one["Notification"], one["Subscribers"])
        given = {key: value for key, value in budget.get("TimePeriod", {}).items() if value}
        budget["TimePeriod"] = {"Start": _start(budget["TimeUnit"]), "End": _END, **given}
        create(backend, account_id, budget, listed)

    @around(BudgetsBackend, "create_notification")
    def create_notification(
        create: Any,
        backend: Any,
        account_id: str,
        budget_name: str,
        *,
        notification: Any,
        subscribers: Any,
    ) -> None:
        held = _held(backend, account_id, budget_name)
        before = [one.details for one in held.notifications]
        _check_notification(held.budget, before, notification, subscribers)
        create(backend, account_id, budget_name, notification=notification, subscribers=subscribers)

    @around(BudgetsBackend, "delete_notification")
    def delete_notification(
        _delete: Any, backend: Any, account_id: str, budget_name: str, notification: Any
    ) -> None:
        held = _held(backend, account_id, budget_name)
        held.notifications.remove(_notification(held, notification))

    @around(BudgetsBackend, "describe_notifications_for_budget")
    def describe_notifications_for_budget(
        _describe: Any, backend: Any, account_id: str, budget_name: str
    ) -> list[dict[str, Any]]:
        held = _held(backend, account_id, budget_name)
        return [_shown(one.details) for one in held.notifications]

    @around(BudgetsResponse, "create_budget")
    def create_with_tags(create: Any, response: Any) -> Any:
        answer = create(response)
        name = response._get_param("Budget")["BudgetName"]
        held = _held(response.backend, response.current_account, name)
        held.tags = _by_key(response._get_param("ResourceTags", []))
        return answer

    add(
        BudgetsResponse,
        update_budget,
        describe_subscribers_for_notification,
        list_tags_for_resource,
        tag_resource,
        untag_resource,
    )


def update_budget(response: Any) -> str:
    """Answer UpdateBudget: all of a budget but its name, its notifications and its tags."""
    wanted = response._get_param("NewBudget")
    held = _held(response.backend, response._get_param("AccountId"), wanted["BudgetName"])
    _check_budget(wanted)
    period = {**held.budget["TimePeriod"], **(wanted.get("TimePeriod") or {})}
    held.budget = {**held.budget, **wanted, "TimePeriod": period, "LastUpdatedTime": time.time()}
    return json.dumps({})


def describe_subscribers_for_notification(response: Any) -> str:
    """Answer DescribeSubscribersForNotification."""
    name = response._get_param("BudgetName")
    held = _held(response.backend, response._get_param("AccountId"), name)
    found = _notification(held, response._get_param("Notification"))
    return json.dumps({"Subscribers": found.subscribers})


def list_tags_for_resource(response: Any) -> str:
    """Answer ListTagsForResource."""
    tags = _tagged(response).tags
    return json.dumps({"ResourceTags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]})


def tag_resource(response: Any) -> str:
    """Answer TagResource."""
    _tagged(response).tags.update(_by_key(response._get_param("ResourceTags")))
    return json.dumps({})


def untag_resource(response: Any) -> str:
    """Answer UntagResource."""
    tags = _tagged(response).tags
    for key in response._get_param("ResourceTagKeys"):
        tags.pop(key, None)
    return json.dumps({})


def _by_key(tags: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {one["Key"]: one["Value"] for one in tags}


def _tagged(response: Any) -> Any:
    arn = response._get_param("ResourceARN")
    return _held(response.backend, response.current_account, arn.partition(":budget/")[2])


def _held(backend: Any, account: str, name: str) -> Any:
    from moto.budgets.exceptions import NotFoundException

    found = backend.budgets[account].get(name)
    if found is None:
        raise NotFoundException(f"Unable to get budget: {name} - the budget doesn't exist.")
    return found


def _identity(notification: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what makes two notifications the same."""
    names = ("NotificationType", "ComparisonOperator", "Threshold")
    return (
        *(notification[name] for name in names),
        notification.get("ThresholdType", "PERCENTAGE"),
    )


def _notification(held: Any, wanted: Mapping[str, Any]) -> Any:
    from moto.budgets.exceptions import NotFoundException

    for one in held.notifications:
        if _identity(one.details) == _identity(wanted):
            return one
    raise NotFoundException("Unable to get notification - the notification doesn't exist.")


def _shown(notification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a notification as AWS describes it, which leaves out a percentage's type."""
    shown = {"NotificationState": "OK", **notification}
    if shown.get("ThresholdType") == "PERCENTAGE":
        del shown["ThresholdType"]
    return shown


def _check_budget(budget: Mapping[str, Any]) -> None:
    if not _NAME.fullmatch(budget["BudgetName"]):
        raise _refused(f"Invalid budget name: {budget['BudgetName']}")
    limit = budget.get("BudgetLimit")
    if limit is not None and not _AMOUNT.fullmatch(limit["Amount"]):
        raise _refused(f"Invalid budget limit: {limit['Amount']}")
    for name in budget.get("CostFilters", {}).get("TagKeyValue", ()):
        if "$" not in name:
            raise _refused(f"Invalid tag: {name}")


def _check_notification(
    budget: Mapping[str, Any],
    before: Sequence[Mapping[str, Any]],
    notification: Mapping[str, Any],
    subscribers: Sequence[Mapping[str, str]],
) -> None:
    from moto.budgets.exceptions import DuplicateRecordException

    if budget["TimeUnit"] == "DAILY" and notification["NotificationType"] == "FORECASTED":
        raise _refused("FORECASTED notifications are not supported for DAILY budgets")
    if not 0 < notification["Threshold"] <= _MOST_PERCENT:
        raise _refused(f"Invalid threshold: {notification['Threshold']}")
    if any(_identity(one) == _identity(notification) for one in before):
        raise DuplicateRecordException(record_type="notification", record_name="it")
    if len(before) >= _MOST_NOTIFICATIONS:
        raise _refused(
            f"one budget can only have {_MOST_NOTIFICATIONS} notifications",
            "CreationLimitExceededException",
        )
    if not subscribers:
        raise _refused("a notification must have at least 1 subscriber")
    for kind, most in _MOST_SUBSCRIBERS.items():
        if sum(one["SubscriptionType"] == kind for one in subscribers) > most:
            raise _refused(
                f"one notification can only have {most} subscribers with type of {kind}",
                "CreationLimitExceededException",
            )


def _refused(problem: str, code: str = "InvalidParameterException") -> Exception:
    from moto.core.exceptions import JsonRESTError

    return JsonRESTError(code, problem)


def _start(unit: str) -> float:
    """Return when the current period began, in seconds since 1970."""
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in _MONTHS:
        day = day.replace(day=1, month=max(month for month in _MONTHS[unit] if month <= day.month))
    return day.timestamp()
