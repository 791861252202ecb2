"""The published JSON schema of reports, against real ones: no field is missing in either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from terradask._plans.impact import RunningCluster
from terradask._plans.policy.findings import Waived
from terradask._plans.render_terminal import to_json
from terradask._plans.report import REPORT_FORMAT, WorkspaceReport

from .report_data import CONTEXT, COST, FINDING, report, whole
from .review_plans import CHANGES, change


def schema() -> dict[str, Any]:
    """Return the schema, as users read it."""
    file = Path(__file__).parents[2] / "docs/report.schema.json"
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def closed(part: Any, *, inside_all: bool = False) -> Any:
    """Return a schema that allows no field which it doesn't name."""
    if isinstance(part, list):
        return [closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    inner = {key: closed(value) for key, value in part.items()}
    if "allOf" in inner:
        inner["unevaluatedProperties"] = False
    elif "properties" in inner:
        inner["additionalProperties"] = False
    return inner


def validator() -> Draft202012Validator:
    strict = closed(schema())
    # The totals and the rest of a cost are two parts of one object.
    del strict["$defs"]["totals"]["additionalProperties"]
    del strict["$defs"]["cost"]["allOf"][1]["additionalProperties"]
    Draft202012Validator.check_schema(strict)
    return Draft202012Validator(strict)


def problems(document: Any) -> list[str]:
    return [
        f"{'/'.join(map(str, leaf.absolute_path))}: {leaf.message[:200]}"
        for error in validator().iter_errors(document)
        for leaf in (error.context or [error])
    ]


@pytest.mark.parametrize("name", CHANGES)
def test_reports_of_workspaces_and_stacks_are_as_the_schema_has_them(name: str) -> None:
    found = json.loads(to_json(change(name)))
    assert problems(found) == []
    for stack in list(found["stacks"].values())[:2]:
        assert problems(stack) == []


def test_so_are_those_with_every_part() -> None:
    waived = FINDING.waive(Waived("until the move", "2026-12-31"))
    full = report(
        findings=(FINDING, waived),
        cost=COST,
        cost_before=COST,
        running=(RunningCluster("etl", "running", {"workers": 2}),),
        container="registry.example.com/dask@sha256:ab",
        environment="team",
        hardware={"workers": "m6i.xlarge"},
    )
    assert problems(json.loads(to_json(full))) == []
    several = whole(full, report("create", stack="etl"), failed={"ml": "no"}, waiting=("bi",))
    assert problems(json.loads(to_json(several))) == []
    assert problems(json.loads(to_json(WorkspaceReport(CONTEXT, (), unchanged=("a",))))) == []


def test_the_schema_refuses_what_is_no_report() -> None:
    good = json.loads(to_json(change("changed-tag")))
    assert schema()["$defs"]["workspace"]["properties"]["format"]["const"] == REPORT_FORMAT
    for wrong in ({"format": 2}, {"verdict": "fine"}, {"stacks": {"a": {}}}, {"new": 1}):
        assert problems({**good, **wrong})
    for name in good:
        assert problems({key: value for key, value in good.items() if key != name})
