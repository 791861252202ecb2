"""Rules of security groups, whichever of the provider's three ways they are written in."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from terradask._policy.document import PlanDocument, Resource, Unknown, listed

Block = ipaddress.IPv4Network | ipaddress.IPv6Network

_EVERY_PORT = (0, 65535)


@dataclass(frozen=True)
class Opening:
    """Who is let in by one rule.

    Parameters
    ----------
    address
        The resource that says it.
    group
        The group that is opened: its id, or what refers to it.
    first_port, last_port
        The ports; 0 and 65535 where every port is meant.
    blocks
        Address blocks as they are written.
    groups
        Security groups that are let in.
    prefix_lists
        Lists of blocks that are let in.
    own_group
        Whether the group's own members are let in.
    by_hand
        Whether no configuration says it: somebody added it beside Terraform.
    """

    address: str
    group: Any
    first_port: int = 0
    last_port: int = 65535
    blocks: tuple[Any, ...] = ()
    groups: tuple[Any, ...] = ()
    prefix_lists: tuple[Any, ...] = ()
    own_group: bool = False
    by_hand: bool = False

    @property
    def ports(self) -> str:
        """The ports in words."""
        if (self.first_port, self.last_port) == _EVERY_PORT:
            return "every port"
        return f"port {self.first_port}" if self.first_port == self.last_port else f"ports {self.first_port}-{self.last_port}"

    @property
    def networks(self) -> list[Block]:
        """The blocks that are known."""
        return [network for network in map(network_of, self.blocks) if network is not None]


def network_of(value: Any) -> Block | None:
    """Return an address block, or None where it is unknown."""
    try:
        return ipaddress.ip_network(value, strict=False) if isinstance(value, str) else None
    except ValueError:
        return None


def openings(document: PlanDocument) -> list[Opening]:
    """Return every rule that lets somebody in."""
    found = _of_rules(document.resources)
    inline = []
    for group in document.of("aws_security_group", "aws_default_security_group"):
        itself = group.values.get("id") or Unknown((group.configured_as,))
        blocks = [each for each in listed(group.values.get("ingress")) if isinstance(each, Mapping)]
        by_hand = "ingress" not in group.written
        inline += [replace(_of_block(group.address, itself, each, "security_groups"), by_hand=by_hand) for each in blocks]
    # A rule that the plan removes or changes still stands in its group.
    told = [*found, *_of_rules(document.before)]
    return found + [rest for opening in inline if (rest := _beyond(opening, told)) is not None]


def _of_rules(resources: Sequence[Resource]) -> list[Opening]:
    found = [_of_ingress_rule(rule) for rule in resources if rule.type == "aws_vpc_security_group_ingress_rule"]
    for rule in resources:
        if rule.type == "aws_security_group_rule" and rule.values.get("type") == "ingress":
            found.append(_of_block(rule.address, rule.values.get("security_group_id"), rule.values, "source_security_group_id"))
    return found


def _beyond(opening: Opening, rules: Sequence[Opening]) -> Opening | None:
    """Return what a group itself lists beyond its rules: the provider repeats them there."""
    where = (opening.group, opening.first_port, opening.last_port)
    same = [rule for rule in rules if (rule.group, rule.first_port, rule.last_port) == where]
    said = {each for rule in same for each in (*rule.blocks, *rule.groups, *rule.prefix_lists)}
    rest = replace(
        opening,
        blocks=tuple(each for each in opening.blocks if each not in said),
        groups=tuple(each for each in opening.groups if each not in said),
        prefix_lists=tuple(each for each in opening.prefix_lists if each not in said),
    )
    return rest if rest.blocks or rest.groups or rest.prefix_lists or rest.own_group else None


def _of_ingress_rule(rule: Resource) -> Opening:
    values, ports = rule.values, _ports(rule.values, "ip_protocol")
    return Opening(
        address=rule.address,
        group=values.get("security_group_id"),
        first_port=ports[0],
        last_port=ports[1],
        blocks=_given(values, "cidr_ipv4", "cidr_ipv6"),
        groups=_given(values, "referenced_security_group_id"),
        prefix_lists=_given(values, "prefix_list_id"),
    )


def _of_block(address: str, group: Any, values: Mapping[str, Any], groups: str) -> Opening:
    ports = _ports(values, "protocol")
    return Opening(
        address=address,
        group=group,
        first_port=ports[0],
        last_port=ports[1],
        blocks=_given(values, "cidr_blocks", "ipv6_cidr_blocks"),
        groups=_given(values, groups),
        prefix_lists=_given(values, "prefix_list_ids"),
        own_group=values.get("self") is True,
    )


def _given(values: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Return what these attributes name; what the provider alone fills in says nothing."""
    items = [item for name in names for item in listed(values.get(name))]
    return tuple(item for item in items if item and item != Unknown())


def _ports(values: Mapping[str, Any], protocol: str) -> tuple[int, int]:
    first, last = values.get("from_port"), values.get("to_port")
    if str(values.get(protocol)) in ("-1", "all", "None") or not isinstance(first, int) or not isinstance(last, int):
        return _EVERY_PORT
    # Types and codes of ICMP are written as ports, -1 for every one.
    return _EVERY_PORT if first < 0 else (first, last)
