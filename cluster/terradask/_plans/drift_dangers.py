"""Weigh what was changed outside Terraform as a plan weighs what it would change. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from terradask._plans.dangers import Danger, dangers_of
from terradask._plans.egress_dangers import egress_dangers

_GROUP = "aws_security_group"
_FAMILIES = (("cidr_blocks", "IpRanges", "CidrIp"), ("ipv6_cidr_blocks", "Ipv6Ranges", "CidrIpv6"))


def drift_dangers(
    document: Mapping[str, Any], drift: Iterable[Mapping[str, Any]]
) -> tuple[Danger, ...]:
    """Return the dangers of entries of real drift: losses, openings, permissions. A rule that no
    apply removes has the command that does.
    """
    entries = list(drift)
    found: list[Danger] = []
    for entry in entries:
        gone = entry["change"].get("after") is None
        for danger in dangers_of(entry, "delete" if gone else "update", None):
            text = danger.text.replace("is destroyed", "is gone", 1) if gone else danger.text
            found.append(replace(danger, text=text, command=_closing(entry, danger)))
    found += egress_dangers({**document, "resource_changes": entries})
    return tuple(found)


def _closing(entry: Mapping[str, Any], danger: Danger) -> str | None:
    """Return the command that ends a rule that was added to a group: Terraform doesn't know it."""
    if danger.kind != "ingress" or entry["type"] != _GROUP:
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
