"""Plans as Terraform wrote them, their summaries, and small ones made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from terradask._plans.summary import PlanSummary, summarise

DATA = Path(__file__).with_name("data")


def plan_document(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"plan_{name}.json").read_text())


def summary_of(document: dict[str, Any] | str) -> PlanSummary:
    return summarise(
        plan_document(document) if isinstance(document, str) else document,
        stack="network",
        plan_hash="ab" * 32,
    )


def change_of(summary: PlanSummary, address: str):
    return next(change for change in summary.changes if change.address == address)


def values_of(summary: PlanSummary, address: str) -> dict[str, tuple[Any, Any]]:
    return {a.path: (a.before, a.after) for a in change_of(summary, address).attributes}


def changed_resource(
    after: Any, before: Any = None, *, kind: str = "aws_thing", actions: list[str] | None = None
) -> dict[str, Any]:
    actions = actions or (["create"] if before is None else ["update"])
    change = {"actions": actions, "before": before, "after": after, "after_unknown": {}}
    return {
        "resource_changes": [
            {"address": f"{kind}.x", "type": kind, "mode": "managed", "change": change}
        ]
    }


def dangers_of(*arguments: Any, **options: Any) -> list[str]:
    return [d.text for d in summary_of(changed_resource(*arguments, **options)).dangers]


def rule_to(
    cidr: str, first: int = 8786, last: int = 8787, protocol: str = "tcp"
) -> dict[str, Any]:
    return {"cidr_ipv4": cidr, "from_port": first, "to_port": last, "ip_protocol": protocol}


def policy_text(*statements: dict[str, Any]) -> dict[str, str]:
    return {"policy": json.dumps({"Statement": list(statements)})}
