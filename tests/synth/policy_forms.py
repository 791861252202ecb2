"""A stack in both forms that policy is checked in: as it is synthesised, and as a plan of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

from terradask._plans.policy.checks import findings_in
from terradask._plans.policy.document import read
from terradask._plans.policy_gate import workspace_rules
from terradask.policy import PolicyFinding, WorkspaceRules, evaluate
from terradask_stacks.settings import PolicySettings, Settings

from .conftest import lock_file

Document = dict[str, Any]
TODAY = date(2026, 11, 20)


def as_plan(stack: Document) -> Document:
    """Return a plan of a stack that isn't deployed, as ``terraform show -json`` writes it."""
    changes, configured = [], []
    for kind, by_name in stack.get("resource", {}).items():
        for name, values in by_name.items():
            given = {key: value for key, value in values.items() if key != "//"}
            address = f"{kind}.{name}"
            after, unknown = _known(given), _unknown(given)
            change = {
                "actions": ["create"],
                "before": None,
                "after": after,
                "after_unknown": {**unknown, "id": True},
                "after_sensitive": {},
            }
            changes.append(
                {
                    "address": address,
                    "mode": "managed",
                    "type": kind,
                    "name": name,
                    "change": change,
                }
            )
            configured.append(
                {
                    "address": address,
                    "mode": "managed",
                    "type": kind,
                    "name": name,
                    "expressions": _expressions(given),
                }
            )
    for kind, by_name in stack.get("data", {}).items():
        for name, values in by_name.items():
            configured.append(
                {
                    "address": f"data.{kind}.{name}",
                    "mode": "data",
                    "expressions": _expressions(values),
                }
            )
    outputs = {
        name: {"sensitive": out.get("sensitive", False), "value": out["value"]}
        for name, out in stack.get("output", {}).items()
    }
    providers = {
        name: {"expressions": _expressions(block)}
        for name, blocks in stack.get("provider", {}).items()
        for block in blocks
    }
    return {
        "format_version": "1.2",
        "resource_changes": changes,
        "planned_values": {
            "outputs": outputs,
            "root_module": {
                "resources": [
                    {"address": change["address"], "mode": "managed"} for change in changes
                ]
            },
        },
        "configuration": {"root_module": {"resources": configured}, "provider_config": providers},
    }


def _interpolated(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(inner) for key, inner in value.items() if not _interpolated(inner)}
    return (
        [_known(inner) for inner in value if not _interpolated(inner)]
        if isinstance(value, list)
        else value
    )


def _unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _unknown(inner)
            for key, inner in value.items()
            if _interpolated(inner) or isinstance(inner, dict | list)
        }
    if isinstance(value, list):
        return True if any(map(_interpolated, value)) else [_unknown(inner) for inner in value]
    return _interpolated(value)


def _expressions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expressions(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        return [_expressions(inner) for inner in value]
    references = re.findall(r"\b(data\.\w+\.[\w-]+|aws_\w+\.[\w-]+)\.", json.dumps(value))
    return {"constant_value": value, **({"references": references} if references else {})}


FORMS: dict[str, Callable[[Document], Document]] = {
    "synthesised": lambda stack: stack,
    "planned": as_plan,
}


#: Answers of the network by which the gate knows an image, a destination or a policy.
KNOWN_LOCKED = frozenset({"image_ids", "gpu_image_ids", "task_policies", "vpc_blocks"})


def rules_of(
    *, zones: Any = None, locked: dict[str, Any] | None = None, **sections: Any
) -> WorkspaceRules:
    """Return what the gate takes from these settings and the answers that the tests lock; called
    like `synth`.
    """
    settings = Settings.model_validate(sections)
    answers = lock_file(zones, settings.cluster, settings.network.architectures or ("x86_64",))
    assert answers.network is not None
    known = {
        name: value
        for name, value in (locked or {}).items()
        # A cluster's answers have a list of that name.
        if name in KNOWN_LOCKED and not (name == "task_policies" and isinstance(value, list))
    }
    return workspace_rules(settings, answers.network.model_copy(update=known))


#: What the settings of the stacks here give.
RULES = WorkspaceRules(data_buckets=("lake/raw", "results"), egress=())


def found(document: Document, ours: Document | None, **more: Any) -> list[PolicyFinding]:
    """Return what the checks find in a document, against the stack that terradask synthesises."""
    given = {"workspace_rules": RULES, "expected": ours, **more}
    return list(evaluate(document, settings=PolicySettings(), today=TODAY, **given))


def found_unmasked(document: Document, ours: Document) -> list[PolicyFinding]:
    """The same, without a look through the document for secrets to mask, which takes as long."""
    return findings_in(replace(read(document), rules=RULES, expected=ours))
