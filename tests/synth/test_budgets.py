"""Budgets of a network, as they are in stacks, and changed ones in plans."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from .golden_settings import BUDGETS
from .policy_forms import FORMS, found, rules_of

Document = dict[str, Any]
SETTINGS: Document = {"network": {"budgets": BUDGETS}}


def test_another_budget_moves_none(synth: Callable[..., Document]) -> None:
    def made(*budgets: Document) -> Document:
        stack = synth("network", network={"budgets": list(budgets)})
        found: Document = stack["resource"]["aws_budgets_budget"]
        return found

    month, research = BUDGETS
    both = made(month, research)
    assert made(research, month) == both
    assert made(research).items() <= both.items()


@pytest.mark.parametrize(("usd", "text"), [(500, "500.0"), (1e-2, "0.01"), (2e20, "2" + "0" * 20)])
def test_amounts_have_no_exponent(synth: Callable[..., Document], usd: float, text: str) -> None:
    budget = {**BUDGETS[0], "amount_usd": usd}
    stack = synth("network", network={"budgets": [budget]})
    assert stack["resource"]["aws_budgets_budget"]["month"]["limit_amount"] == text


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("limit_amount", "50000"),
        ("time_unit", "ANNUALLY"),
        ("notification", None),
        ("cost_filter", [{"name": "TagKeyValue", "values": ["user:terradask:workspace$other"]}]),
    ],
)
def test_policy_stops_one_that_is_not_as_the_settings_have_it(
    synth: Callable[..., Document], attribute: str, value: Any
) -> None:
    stack, ours = copy.deepcopy(synth("network", **SETTINGS)), synth("network", **SETTINGS)
    budget = stack["resource"]["aws_budgets_budget"]["month"]
    if value is None:
        del budget[attribute]
    else:
        budget[attribute] = value
    told = found(FORMS["planned"](stack), ours, workspace_rules=rules_of(**SETTINGS))
    assert {one.address for one in told if one.severity == "error"} == {"aws_budgets_budget.month"}


def test_policy_stops_mail_to_another_address(synth: Callable[..., Document]) -> None:
    stack, ours = copy.deepcopy(synth("network", **SETTINGS)), synth("network", **SETTINGS)
    for notice in stack["resource"]["aws_budgets_budget"]["month"]["notification"]:
        notice["subscriber_email_addresses"] = ["eve@example.net"]
    told = found(FORMS["planned"](stack), ours, workspace_rules=rules_of(**SETTINGS))
    assert {one.address for one in told if one.severity == "error"} == {"aws_budgets_budget.month"}


def test_policy_stops_one_that_no_setting_names(synth: Callable[..., Document]) -> None:
    settings = {"network": {"budgets": BUDGETS[:1]}}
    stack, ours = synth("network", **SETTINGS), synth("network", **settings)
    told = found(FORMS["planned"](stack), ours, workspace_rules=rules_of(**settings))
    assert [one.address for one in told if one.severity == "error"] == [
        "aws_budgets_budget.research"
    ]
