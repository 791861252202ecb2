"""Find changes made outside Terraform, by filtering ``resource_drift``, and weigh them as a plan
weighs what it would change. Pure.

After a clean apply most entries of ``resource_drift`` are null that became empty, or repeat the
declaration of another resource.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from terradask._common.plan_modules import value_resources
from terradask._plans.dangers import Danger, dangers_of
from terradask._plans.egress_dangers import egress_dangers
from terradask._plans.policy.openings import read_rule
from terradask._plans.policy.values import decoded
from terradask_modules.ingress import ports_text

#: Attributes that terradask changes at runtime.
_RUNTIME = {"aws_autoscaling_group": ("desired_capacity", "predicted_capacity")}

#: Lists on one resource whose entries resources of another type declare: an added entry that none
#: declares is drift. A removed entry isn't: an apply changed its resource after this one was read,
#: or that resource has drift itself.
_REPEATED = {
    "aws_security_group": ("ingress", "egress"),
    "aws_iam_role": ("inline_policy", "managed_policy_arns"),
    "aws_route_table": ("route",),
}

#: Values on a bucket that another resource declares: a difference is that resource's drift.
_OF_BUCKETS = {
    "policy": "aws_s3_bucket_policy",
    "versioning": "aws_s3_bucket_versioning",
    "server_side_encryption_configuration": "aws_s3_bucket_server_side_encryption_configuration",
}

#: Values on an address about its association; a declared NAT gateway has the same.
_OF_ADDRESSES = ("association_id", "network_interface", "private_dns", "private_ip", "instance")

_TARGETS = (
    "gateway_id",
    "nat_gateway_id",
    "vpc_endpoint_id",
    "transit_gateway_id",
    "network_interface_id",
    "vpc_peering_connection_id",
)

_RULE_TYPES = {
    "ingress": "aws_vpc_security_group_ingress_rule",
    "egress": "aws_vpc_security_group_egress_rule",
}

_Values = Mapping[str, Any]


def real_drift(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of ``resource_drift`` that are real drift, without other values."""
    entries = document.get("resource_drift") or []
    declared = list(_declared(document)) if entries else []
    found = []
    for entry in entries:
        change = entry["change"]
        before, after = change.get("before"), change.get("after")
        if before is not None and after is not None:
            before, after = _compared(entry["type"], before, after, declared)
            if _meaning(before) == _meaning(after):
                continue
        found.append({**entry, "change": {**change, "before": before, "after": after}})
    return found


def _compared(
    kind: str, before: _Values, after: _Values, declared: list[tuple[str, _Values]]
) -> tuple[_Values, _Values]:
    """Remove the values that aren't compared from both sides."""
    ours = _RUNTIME.get(kind, ())
    before = {k: v for k, v in before.items() if k not in ours}
    after = {k: v for k, v in after.items() if k not in ours}
    if kind == "aws_s3_bucket":
        elsewhere = {other for other, values in declared if values.get("bucket") == after.get("id")}
        for name, other in _OF_BUCKETS.items():
            if other in elsewhere:
                before.pop(name, None)
                after.pop(name, None)
    if kind == "aws_eip" and any(
        other == "aws_nat_gateway" and values.get("allocation_id") == after.get("id")
        for other, values in declared
    ):
        before = {k: v for k, v in before.items() if k not in _OF_ADDRESSES}
        after = {k: v for k, v in after.items() if k not in _OF_ADDRESSES}
    for name in _REPEATED.get(kind, ()):
        sides = [_facts(kind, name, side) for side in (before, after)]
        known = {
            fact
            for declared_kind, values in declared
            for fact in _declared_facts(name, after, declared_kind, values)
        }
        came = sides[1] - known - sides[0]
        # Otherwise a reordered list would show unchanged entries.
        before.pop(name, None)
        after[name] = [
            item for item in after.get(name) or [] if _facts(kind, name, {name: [item]}) & came
        ]
    return before, after


def _facts(kind: str, name: str, values: _Values) -> set[str]:
    """Return a list's entries as comparable strings."""
    items = values.get(name) or []
    if name == "inline_policy":
        return {_policy(item.get("name"), item.get("policy")) for item in items if item.get("name")}
    if kind == "aws_security_group":
        return {fact for item in items for fact in _rule(item, {})}
    if name == "route":
        return {
            _route(
                item.get("cidr_block")
                or item.get("ipv6_cidr_block")
                or item.get("destination_prefix_list_id"),
                item,
            )
            for item in items
        }
    return set(map(str, items))


def _declared_facts(name: str, owner: _Values, kind: str, values: _Values) -> Iterator[str]:
    """Return the entries of separate resources for the list `name` of `owner`."""
    if kind == _RULE_TYPES.get(name) and values.get("security_group_id") == owner.get("id"):
        yield from _rule(values, owner)
    if (
        name == "inline_policy"
        and kind == "aws_iam_role_policy"
        and values.get("role") in (owner.get("id"), owner.get("name"))
    ):
        yield _policy(values.get("name"), values.get("policy"))
    if name == "route" and kind == "aws_route" and values.get("route_table_id") == owner.get("id"):
        keys = (
            "destination_cidr_block",
            "destination_ipv6_cidr_block",
            "destination_prefix_list_id",
        )
        yield _route(next((values[key] for key in keys if values.get(key)), None), values)
    if (
        name == "managed_policy_arns"
        and kind == "aws_iam_role_policy_attachment"
        and values.get("role") == owner.get("name")
    ):
        yield str(values.get("policy_arn"))


def _rule(values: _Values, owner: _Values) -> Iterator[str]:
    rule = read_rule("", owner.get("id"), values)
    groups = ["self" if group == rule.group else f"group={group}" for group in rule.groups]
    for source in (
        *rule.blocks,
        *rule.prefix_lists,
        *groups,
        *(["self"] if rule.own_group else []),
    ):
        yield f"{rule.protocol} {ports_text(rule.span)} {source}"


def _route(destination: Any, values: _Values) -> str:
    return f"{destination} {next((values[key] for key in _TARGETS if values.get(key)), None)}"


def _meaning(value: Any) -> Any:
    """Return a value without nulls, empty, false and zero, which the provider mixes up."""
    if isinstance(value, Mapping):
        pairs = {name: _meaning(inner) for name, inner in value.items()}
        return {name: inner for name, inner in pairs.items() if inner}
    if isinstance(value, list):
        return [inner for inner in map(_meaning, value) if inner]
    return decoded(value)


def _policy(name: Any, policy: Any) -> str:
    return f"{name} {json.dumps(decoded(policy), sort_keys=True)}"


def _declared(document: Mapping[str, Any]) -> Iterator[tuple[str, _Values]]:
    """Return type and values of every resource in the plan's prior state."""
    for resource in value_resources((document.get("prior_state") or {}).get("values")):
        yield resource["type"], resource.get("values") or {}


# ---- their dangers -------------------------------------------------------------------------------


_FAMILIES = (("cidr_blocks", "IpRanges", "CidrIp"), ("ipv6_cidr_blocks", "Ipv6Ranges", "CidrIpv6"))


def drift_dangers(document: Mapping[str, Any], drift: list[dict[str, Any]]) -> list[Danger]:
    """Return the dangers of entries of real drift: losses, openings, permissions. A rule that no
    apply removes has the command that does.
    """
    found: list[Danger] = []
    for entry in drift:
        gone = entry["change"].get("after") is None
        for danger in dangers_of(entry, "delete" if gone else "update", None):
            text = danger.text.replace("is destroyed", "is gone", 1) if gone else danger.text
            found.append(replace(danger, text=text, command=_closing(entry, danger)))
    return found + egress_dangers({**document, "resource_changes": drift})


def _closing(entry: Mapping[str, Any], danger: Danger) -> str | None:
    """Return the command that ends a rule that was added to a group: Terraform doesn't know it."""
    if danger.kind != "ingress" or entry["type"] != "aws_security_group":
        return None
    values = entry["change"].get("after") or {}
    for rule in values.get("ingress") or ():
        for permission, block in _permissions(rule):
            if str(danger.after).endswith(f" from {block}"):
                return shlex.join(
                    [
                        *("aws", "ec2", "revoke-security-group-ingress", "--group-id"),
                        *(str(values.get("id")), "--ip-permissions", permission),
                    ]
                )
    return None


def _permissions(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a rule's blocks, each as the AWS CLI writes what it permits."""
    protocol = f"IpProtocol={rule.get('protocol')}"
    ports = f",FromPort={rule.get('from_port')},ToPort={rule.get('to_port')}"
    every = str(rule.get("protocol")) in ("-1", "all")
    for name, ranges, key in _FAMILIES:
        for block in rule.get(name) or ():
            yield f"{protocol}{'' if every else ports},{ranges}=[{{{key}={block}}}]", str(block)
