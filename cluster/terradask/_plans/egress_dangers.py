"""Destinations that a plan newly opens to hosts, as dangers, each with the other side's part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._common.masking import masked_text
from terradask._common.plan_modules import expressions_of
from terradask._plans.dangers import AdmittedBlock, Danger, admitted, covers, rules_in
from terradask._plans.policy.openings import network_of
from terradask_modules.ingress import EVERYWHERE

_GROUP = "aws_security_group"
#: Rules of every network: to AWS's services and package indexes.
_USUAL_PORTS = "tcp 443"
_MADE = ("create", "update")


def egress_dangers(document: Mapping[str, Any]) -> list[Danger]:
    """Return the dangers of all entries in a plan's ``resource_changes``."""
    resources = document.get("resource_changes", [])
    opened = {one for each in resources for one, _ in _destinations(each, "before")}
    usual, names = _own(resources), _Names(document)
    routes = [
        Danger("egress", each["address"], f"routes {block} through {through}")
        for each in resources
        if set(_MADE) & set(each["change"]["actions"])
        for block, through in _routed(each, "after") - _routed(each, "before")
    ]
    return routes + [
        Danger("egress", each["address"], masked_text(_text(one, why, each, names)))
        for each in resources
        if set(_MADE) & set(each["change"]["actions"])
        for one, why in _destinations(each, "after")
        if one.ports != _USUAL_PORTS
        and one.block not in usual
        and not any(covers(old, one) for old in opened)
    ]


def _destinations(resource: Mapping[str, Any], side: str) -> Iterator[tuple[AdmittedBlock, str]]:
    """Yield the destinations, known before the apply, that one resource opens, with why."""
    for rule in rules_in(resource, side, "egress"):
        for peer in (*rule.blocks, *rule.groups, *rule.prefix_lists):
            if isinstance(peer, str):
                yield admitted(rule, peer), rule.description


def _routed(resource: Mapping[str, Any], side: str) -> set[tuple[str, str]]:
    """Return the block that a route leads into another network, and through what."""
    values = resource["change"].get(side) or {}
    if resource["type"] != "aws_route":
        return set()
    block = values.get("destination_cidr_block") or values.get("destination_ipv6_cidr_block")
    through = values.get("transit_gateway_id") or values.get("vpc_peering_connection_id")
    return {(str(block), str(through))} if block and through else set()


def _own(resources: list[Mapping[str, Any]]) -> set[str]:
    """Return the destinations in the network itself: its VPC's blocks and its groups."""
    keys = {"aws_vpc": ("cidr_block", "ipv6_cidr_block"), _GROUP: ("id",)}
    return {
        str(values[key])
        for each in resources
        for side in ("before", "after")
        for values in (each["change"].get(side) or {},)
        for key in keys.get(each["type"], ())
        if values.get(key)
    }


class _Names:
    """What the other side has to admit: security groups, and public addresses."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._expressions = expressions_of(document)
        self._by_id: dict[str, str] = {}
        self._by_address: dict[str, str] = {}
        addresses = []
        for each in document.get("resource_changes", []):
            values = each["change"].get("after") or {}
            if each["type"] == _GROUP:
                name = str(values.get("name") or each["address"])
                self._by_address[each["address"]] = name
                if values.get("id"):
                    self._by_id[str(values["id"])] = f"{values['id']} ({name})"
            if each["type"] == "aws_eip" and values.get("public_ip"):
                addresses.append(str(values["public_ip"]))
        self.addresses = ", ".join(sorted(addresses))

    def group(self, resource: Mapping[str, Any], group: Any) -> str:
        """Return the security group of a rule: its id, unless the apply makes it, and its name."""
        if group:
            return self._by_id.get(str(group), str(group))
        written = self._expressions.get(resource["address"], {}).get("security_group_id") or {}
        named = (self._by_address.get(text) for text in written.get("references") or ())
        return next(filter(None, named), self._by_address.get(resource["address"], "its group"))


def _text(one: AdmittedBlock, why: str, resource: Mapping[str, Any], names: _Names) -> str:
    reason = f" ({why})" if why else ""
    everywhere = " - the whole internet" if one.block in EVERYWHERE else ""
    network = network_of(one.block)
    if network is not None and network.is_global:
        peer = names.addresses or "the public addresses of hosts or NAT gateways"
    else:
        peer = names.group(resource, one.group)
    return (
        f"lets hosts out to {one.block} at {one.ports}{everywhere}{reason}; the other side must "
        f"admit {peer}"
    )
