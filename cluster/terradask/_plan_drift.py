"""What was changed beside Terraform: ``resource_drift`` without what is no drift.

After one clean apply most of its entries say that null became empty, or repeat in one resource what another one declares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from terradask._plan_values import decoded, without_empty

#: What the runtime owns.
_RUNTIME = {"aws_autoscaling_group": ("desired_capacity", "predicted_capacity")}

#: Lists on one resource that show what resources of another type declare.
_REPEATED = {
    "aws_security_group": ("ingress", "egress"),
    "aws_iam_role": ("inline_policy", "managed_policy_arns"),
}

_RULE_TYPES = {
    "ingress": "aws_vpc_security_group_ingress_rule",
    "egress": "aws_vpc_security_group_egress_rule",
}

_Values = Mapping[str, Any]


def real_drift(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a plan's ``resource_drift`` that are drift, without the values that are none."""
    entries = document.get("resource_drift") or []
    declared = list(_declared(document)) if entries else []
    found = []
    for entry in entries:
        change = entry["change"]
        before, after = change.get("before"), change.get("after")
        if before is not None and after is not None:
            before, after = _compared(entry["type"], before, after, declared)
            if without_empty(before) == without_empty(after):
                continue
        found.append({**entry, "change": {**change, "before": before, "after": after}})
    return found


def _compared(kind: str, before: _Values, after: _Values, declared: list[tuple[str, _Values]]) -> tuple[_Values, _Values]:
    """Leave out what isn't compared, on both sides."""
    ours = _RUNTIME.get(kind, ())
    before = {k: v for k, v in before.items() if k not in ours}
    after = {k: v for k, v in after.items() if k not in ours}
    for name in _REPEATED.get(kind, ()):
        sides = [_facts(kind, name, side) for side in (before, after)]
        known = {fact for declared_kind, values in declared for fact in _declared_facts(name, after, declared_kind, values)}
        if sides[0] - known == sides[1] - known:
            before.pop(name, None)
            after.pop(name, None)
    return before, after


def _facts(kind: str, name: str, values: _Values) -> set[str]:
    """Return the parts of a list, each as one comparable text."""
    items = values.get(name) or []
    if name == "inline_policy":
        return {_policy(item.get("name"), item.get("policy")) for item in items if item.get("name")}
    if kind == "aws_security_group":
        return {fact for item in items for fact in _rules(item)}
    return set(map(str, items))


def _declared_facts(name: str, owner: _Values, kind: str, values: _Values) -> Iterator[str]:
    """Return what a resource of its own declares for the list `name` of `owner`."""
    if kind == _RULE_TYPES.get(name) and values.get("security_group_id") == owner.get("id"):
        source = next(
            (f"{key}={values[key]}" for key in ("cidr_ipv4", "cidr_ipv6", "prefix_list_id") if values.get(key)),
            f"group={values.get('referenced_security_group_id')}",
        )
        if values.get("referenced_security_group_id") == owner.get("id"):
            source = "self"
        yield _rule(values.get("ip_protocol"), values.get("from_port"), values.get("to_port"), source)
    if name == "inline_policy" and kind == "aws_iam_role_policy" and values.get("role") in (owner.get("id"), owner.get("name")):
        yield _policy(values.get("name"), values.get("policy"))
    if name == "managed_policy_arns" and kind == "aws_iam_role_policy_attachment" and values.get("role") == owner.get("name"):
        yield str(values.get("policy_arn"))


def _rules(item: _Values) -> Iterator[str]:
    sources = [
        *(f"cidr_ipv4={block}" for block in item.get("cidr_blocks") or []),
        *(f"cidr_ipv6={block}" for block in item.get("ipv6_cidr_blocks") or []),
        *(f"prefix_list_id={prefix}" for prefix in item.get("prefix_list_ids") or []),
        *(f"group={group}" for group in item.get("security_groups") or []),
        *(["self"] if item.get("self") else []),
    ]
    for source in sources:
        yield _rule(item.get("protocol"), item.get("from_port"), item.get("to_port"), source)


def _rule(protocol: Any, first: Any, last: Any, source: str) -> str:
    if str(protocol) == "-1":
        first = last = 0
    return f"{protocol} {first}-{last} {source}"


def _policy(name: Any, policy: Any) -> str:
    return f"{name} {json.dumps(decoded(policy), sort_keys=True)}"


def _declared(document: Mapping[str, Any]) -> Iterator[tuple[str, _Values]]:
    """Return type and values of every resource in the state that the plan started from."""
    values = (document.get("prior_state") or {}).get("values") or {}
    waiting = [values.get("root_module") or {}]
    while waiting:
        module = waiting.pop()
        waiting.extend(module.get("child_modules") or [])
        for resource in module.get("resources") or []:
            yield resource["type"], resource.get("values") or {}
