"""Destinations that a plan newly opens to hosts, as dangers, each with the other side's part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._common.masking import masked_text
from terradask._common.plan_modules import configured_resources
from terradask._plans.dangers import AdmittedBlock, Danger, covers
from terradask._plans.policy.openings import Opening, network_of, read_rule
from terradask_modules.ingress import EVERYWHERE

_RULES = ("aws_vpc_security_group_egress_rule", "aws_security_group_rule")
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
        Danger("egress", each["address"], masked_text(_text(one, rule, each, names)))
        for each in resources
        if set(_MADE) & set(each["change"]["actions"])
        for one, rule in _destinations(each, "after")
        if one.ports != _USUAL_PORTS
        and one.block not in usual
        and not any(covers(old, one) for old in opened)
    ]


def _destinations(
    resource: Mapping[str, Any], side: str
) -> Iterator[tuple[AdmittedBlock, Mapping[str, Any]]]:
    """Yield the destinations, known before the apply, that one resource opens, with its rule."""
    kind, values = resource["type"], resource["change"].get(side) or {}
    rules: list[Mapping[str, Any]] = []
    if kind == _GROUP:
        rules = [{**each, "security_group_id": values.get("id")} for each in _inside(values)]
    elif kind in _RULES and values.get("type", "egress") == "egress":
        rules = [values]
    for rule in rules:
        group = rule.get("security_group_id")
        opening = read_rule(resource["address"], group, rule)
        for destination in _peers(opening):
            yield AdmittedBlock(destination, opening.written_ports, str(group or "")), rule


def _routed(resource: Mapping[str, Any], side: str) -> set[tuple[str, str]]:
    """Return the block that a route leads into another network, and through what."""
    values = resource["change"].get(side) or {}
    if resource["type"] != "aws_route":
        return set()
    block = values.get("destination_cidr_block") or values.get("destination_ipv6_cidr_block")
    through = values.get("transit_gateway_id") or values.get("vpc_peering_connection_id")
    return {(str(block), str(through))} if block and through else set()


def _inside(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in values.get("egress") or [] if isinstance(each, Mapping)]


def _peers(opening: Opening) -> Iterator[str]:
    for each in (*opening.blocks, *opening.groups, *opening.prefix_lists):
        if isinstance(each, str):
            yield each


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
        root = (document.get("configuration") or {}).get("root_module") or {}
        self._expressions = {
            prefix + entry["address"]: entry.get("expressions") or {}
            for prefix, entry in configured_resources(root)
        }
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


def _text(
    one: AdmittedBlock, rule: Mapping[str, Any], resource: Mapping[str, Any], names: _Names
) -> str:
    why = f" ({rule['description']})" if rule.get("description") else ""
    everywhere = " - the whole internet" if one.block in EVERYWHERE else ""
    network = network_of(one.block)
    if network is not None and network.is_global:
        admitted = names.addresses or "the public addresses of hosts or NAT gateways"
    else:
        admitted = names.group(resource, rule.get("security_group_id"))
    return (
        f"lets hosts out to {one.block} at {one.ports}{everywhere}{why}; the other side must admit "
        f"{admitted}"
    )
