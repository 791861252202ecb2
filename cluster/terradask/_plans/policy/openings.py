"""Read security groups: rules in all of the provider's notations, and the hosts in each group."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from terradask._plans.policy.document import PlanDocument, Resource, Unknown
from terradask_modules.iam import listed
from terradask_modules.ingress import EVERY_PORT, Network, Ports, ports_text

_LIST = "aws_ec2_managed_prefix_list"
_GROUPS = ("aws_security_group", "aws_default_security_group")

Direction = Literal["ingress", "egress"]


def rule_types(direction: Direction) -> tuple[str, str]:
    """Return the types of separate rule resources."""
    return f"aws_vpc_security_group_{direction}_rule", "aws_security_group_rule"


@dataclass(frozen=True)
class Opening:
    """The sources that one rule allows, or the destinations of an egress rule."""

    address: str
    #: The opened group: its id, or a reference to it.
    group: Any
    #: `protocol`, `from_port`, `to_port`: as written.
    protocol: Any = None
    from_port: Any = None
    to_port: Any = None
    blocks: tuple[Any, ...] = ()
    groups: tuple[Any, ...] = ()
    prefix_lists: tuple[Any, ...] = ()
    #: Whether the group's own members are allowed.
    own_group: bool = False
    #: Whether it was added outside Terraform, and is in no configuration.
    by_hand: bool = False
    description: str = ""

    @property
    def span(self) -> Ports:
        """The first and the last port; `EVERY_PORT` for all ports."""
        first, last = self.from_port, self.to_port
        if (
            str(self.protocol) in ("-1", "all", "None")
            or not isinstance(first, int)
            or not isinstance(last, int)
        ):
            return EVERY_PORT
        # ICMP's types and codes are written as ports, -1 for all.
        return EVERY_PORT if first < 0 else (first, last)

    @property
    def ports(self) -> str:
        """The ports in words."""
        if self.span == EVERY_PORT:
            return "every port"
        first, last = self.span
        return f"port{'' if first == last else 's'} {ports_text(self.span)}"

    @property
    def written_ports(self) -> str:
        """Protocol and ports as written: ``tcp 8786-8787``."""
        if self.protocol in ("-1", "all") or self.from_port is None:
            return "every port"
        return f"{self.protocol} {ports_text((self.from_port, self.to_port))}"

    @property
    def networks(self) -> list[Network]:
        """The known blocks."""
        return [network for network in map(network_of, self.blocks) if network is not None]


def network_of(value: Any) -> Network | None:
    """Return an address block, or None if it is unknown."""
    try:
        return ipaddress.ip_network(value, strict=False) if isinstance(value, str) else None
    except ValueError:
        return None


def openings(document: PlanDocument, direction: Direction = "ingress") -> list[Opening]:
    """Return all rules of one direction: separate ones, and a group's others."""

    def of(resources: Iterable[Resource]) -> list[Opening]:
        return [opening for each in resources for opening in openings_of(each, direction)]

    kinds = rule_types(direction)
    found = of(document.of(*kinds))
    # A rule that the plan removes or changes is still in its group.
    declared = found + of(rule for rule in document.before if rule.type in kinds)
    inline = (beyond(opening, declared) for opening in of(document.of(*_GROUPS)))
    return found + [rest for rest in inline if rest is not None]


class PrefixLists:
    """The prefix lists of a plan, and their entries, which may be resources of their own."""

    def __init__(self, document: PlanDocument) -> None:
        self._document = document
        self._by_list: dict[str, list[Network]] = {}
        #: The address of the resource with each entry, and the entry.
        self.entries: list[tuple[str, Network]] = []
        for resource in document.of(_LIST, f"{_LIST}_entry"):
            values = resource.values
            written = [
                each.get("cidr")
                for each in listed(values.get("entry"))
                if isinstance(each, Mapping)
            ]
            owner = document.find(values.get("prefix_list_id"), _LIST) or resource
            for value in (*written, *listed(values.get("cidr"))):
                network = network_of(value)
                if network is not None:
                    self.entries.append((resource.address, network))
                    self._by_list.setdefault(owner.address, []).append(network)

    def of(self, opening: Opening) -> list[Network]:
        """Return the addresses that a rule allows by lists of this plan."""
        found = (self._document.find(each, _LIST) for each in opening.prefix_lists)
        return [
            network
            for each in found
            if each is not None
            for network in self._by_list.get(each.address, ())
        ]


def openings_of(resource: Resource, direction: Direction = "ingress") -> list[Opening]:
    """Return the openings of a rule, or of the rules inside a group; none of other resources."""
    values = resource.values
    if resource.type in rule_types(direction):
        if resource.type == "aws_security_group_rule" and values.get("type") != direction:
            return []
        return [read_rule(resource.address, values.get("security_group_id"), values)]
    if resource.type not in _GROUPS:
        return []
    itself = values.get("id") or Unknown((resource.configured_as,))
    blocks = [each for each in listed(values.get(direction)) if isinstance(each, Mapping)]
    by_hand = direction not in resource.written
    return [replace(read_rule(resource.address, itself, each), by_hand=by_hand) for each in blocks]


def read_rule(address: str, group: Any, values: Mapping[str, Any]) -> Opening:
    """Read a rule, in any of the three notations."""
    return Opening(
        address=address,
        group=group,
        protocol=values.get("ip_protocol") or values.get("protocol"),
        from_port=values.get("from_port"),
        to_port=values.get("to_port"),
        blocks=_given(values, "cidr_ipv4", "cidr_ipv6", "cidr_blocks", "ipv6_cidr_blocks"),
        groups=_given(
            values, "referenced_security_group_id", "security_groups", "source_security_group_id"
        ),
        prefix_lists=_given(values, "prefix_list_id", "prefix_list_ids"),
        own_group=values.get("self") is True,
        description=str(values.get("description") or ""),
    )


def beyond(opening: Opening, rules: Sequence[Opening]) -> Opening | None:
    """Return a group's entries beside its rules, which the provider repeats there."""
    same = [
        rule
        for rule in rules
        if (rule.group, rule.span, str(rule.protocol))
        == (opening.group, opening.span, str(opening.protocol))
    ]
    listed_sources = {
        each for rule in same for each in (*rule.blocks, *rule.groups, *rule.prefix_lists)
    }
    rest = replace(
        opening,
        blocks=tuple(each for each in opening.blocks if each not in listed_sources),
        groups=tuple(each for each in opening.groups if each not in listed_sources),
        prefix_lists=tuple(each for each in opening.prefix_lists if each not in listed_sources),
    )
    return rest if rest.blocks or rest.groups or rest.prefix_lists or rest.own_group else None


def _given(values: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Return the configured values of these attributes, without the provider's own."""
    items = [item for name in names for item in listed(values.get(name))]
    return tuple(item for item in items if item and item != Unknown())


# ---- the role of a group's hosts -----------------------------------------------------------------


Role = Literal["scheduler", "worker"]

_TOKENS = re.compile(r"[^a-z]+")


def role_of(resource: Resource) -> Role | None:
    """Return the role that a resource's tag, its name in Terraform or its name in AWS contains."""
    tags = resource.values.get("tags")
    candidates: list[Any] = [
        tags.get("terradask:role") if isinstance(tags, dict) else None,
        resource.name,
        resource.values.get("name"),
    ]
    for text in candidates:
        tokens = set(_TOKENS.split(text.lower())) if isinstance(text, str) else set()
        if tokens & {"scheduler", "schedulers"}:
            return "scheduler"
        if tokens & {"worker", "workers"}:
            return "worker"
    return None


class Groups:
    """Security groups and the roles of the hosts that carry them."""

    def __init__(self, document: PlanDocument) -> None:
        self._document = document
        self._roles: dict[str, set[Role]] = {}
        #: The groups of each launch template's hosts.
        self.carried: list[set[str]] = []
        for group in document.of("aws_security_group"):
            self._add(group.address, role_of(group))
        for template in document.of("aws_launch_template"):
            carried = [
                each
                for card in listed(template.values.get("network_interfaces"))
                for each in listed(card.get("security_groups"))
            ]
            carried += listed(template.values.get("vpc_security_group_ids"))
            self.carried.append({self.key(group_id) for group_id in carried})
            for group_id in carried:
                self._add(self.key(group_id), role_of(template))

    def key(self, group_id: Any) -> str:
        """Return one key for a group, from the plan or from its id."""
        found = self._document.find(group_id, "aws_security_group")
        if found is not None:
            return found.address
        return group_id if isinstance(group_id, str) else ""

    def roles(self, group_id: Any) -> set[Role]:
        """Return the roles of the hosts that carry a group."""
        return self._roles.get(self.key(group_id), set())

    def ours(self, group_ids: Iterable[Any]) -> bool:
        """Return whether only schedulers or workers carry these groups."""
        return all(self.roles(group_id) for group_id in group_ids)

    def _add(self, key: str, role: Role | None) -> None:
        if key and role is not None:
            self._roles.setdefault(key, set()).add(role)
