"""Policy fails closed: a plan of which a part was left out is refused, not found good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from terradask._catalog.prices.groups import PlannedStack
from terradask.errors import InvalidInput
from terradask.policy import evaluate
from terradask_stacks.settings import PolicySettings

from .policy_plans import TODAY
from .report_data import document as recorded


def _without(*path: str) -> Callable[[dict[str, Any]], None]:
    """Return what takes a part out of a plan's JSON; of lists, out of each entry."""

    def leave_out(document: Any, names: tuple[str, ...] = path) -> None:
        if isinstance(document, list):
            for entry in document:
                leave_out(entry, names)
        elif len(names) == 1:
            document.pop(names[0], None)
        else:
            leave_out(document[names[0]], names[1:])

    return leave_out


@pytest.mark.parametrize("name", ["create", "change"])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_without("configuration"), "nothing in configuration of aws_"),
        (_without("configuration", "root_module"), "nothing in configuration of aws_"),
        (_without("configuration", "root_module", "resources"), "nothing in configuration of aws_"),
        (_without("planned_values"), "nothing in planned_values of aws_"),
        (_without("planned_values", "root_module"), "nothing in planned_values of aws_"),
        (_without("resource_changes"), "nothing in resource_changes of aws_"),
        (_without("resource_changes", "change", "after_unknown"), "nothing in after_unknown of"),
        (_without("resource_changes", "change", "after_sensitive"), "nothing in after_sensitive"),
        (lambda plan: plan["resource_changes"].pop(), "nothing in resource_changes of aws_"),
        (lambda plan: plan.update(format_version="2.0"), "format_version 2.0"),
        (lambda plan: plan.update(format_version=None), "format_version None"),
        (lambda plan: plan.update(errored=True), "the plan of a failed run"),
        (
            lambda plan: plan.update(output_changes={"secret": {"actions": ["create"]}}),
            "nothing in planned_values of secret",
        ),
    ],
)
def test_a_plan_of_which_a_part_was_left_out_is_refused(
    name: str, spoil: Callable[[dict[str, Any]], object], says: str
) -> None:
    document = recorded(name)
    evaluate(document, settings=PolicySettings(), today=TODAY)
    spoil(document)
    with pytest.raises(InvalidInput, match="the plan is incomplete") as refused:
        evaluate(document, settings=PolicySettings(), today=TODAY)
    assert says in str(refused.value)


def test_a_plan_without_planned_values_costs_not_nothing() -> None:
    document = recorded("create")
    del document["planned_values"]
    with pytest.raises(InvalidInput, match="the plan is incomplete"):
        PlannedStack.of(document)
