"""Match existing resources to a configuration: a plan imports those that its state lacks.

Pure: takes a stack's configuration, the ids in its state and AWS's resources; returns ids for
Terraform's ``import`` blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from terradask._cleanup.resources import RULES, Resource, of_type
from terradask_modules.kinds import KINDS
from terradask_modules.names import TAG_WORKSPACE

_REFERENCE = re.compile(r"^\$\{([a-z0-9_]+\.[A-Za-z0-9_-]+)\.(?:id|arn|name)\}$")

_DEFAULT_EGRESS = {"IsEgress": True, "IpProtocol": "-1", "CidrIpv4": "0.0.0.0/0"}

#: Attribute of a rule -> its name in AWS's description.
_PEERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "cidr_ipv4": lambda rule: rule.get("CidrIpv4"),
    "cidr_ipv6": lambda rule: rule.get("CidrIpv6"),
    "prefix_list_id": lambda rule: rule.get("PrefixListId"),
    "referenced_security_group_id": lambda rule: (rule.get("ReferencedGroupInfo") or {}).get(
        "GroupId"
    ),
}


def unknown_addresses(configuration: Mapping[str, Any], ids: Mapping[str, str]) -> list[str]:
    """Return the configured addresses that the state lacks."""
    return [
        address
        for kind in KINDS.values()
        if kind.adopt is not None
        for address in _blocks(configuration, kind.terraform)
        if address not in ids
    ]


def imports(
    configuration: Mapping[str, Any], ids: Mapping[str, str], found: Sequence[Resource]
) -> dict[str, str]:
    """Return the imports: address -> id. Leaves out resources that Terraform can create again."""
    return _Adoption(configuration, ids, found).run()


def unfinished_security_groups(found: Sequence[Resource]) -> list[Resource]:
    """Return the security groups that have only AWS's default rule for a new group, which allows
    all egress.

    Terraform removes that rule only when it creates a group, so such a group is created again, not
    imported.
    """
    return [group for group in of_type(found, "aws_security_group") if _is_unfinished(group, found)]


#: Takes a type and its block, and returns the id to import.
_Match = Callable[[str, Mapping[str, Any]], str | None]


class _Adoption:
    """Walks a configuration, parents first, since children are found through them.

    Its public methods are the values of `ResourceKind.adopt`.
    """

    def __init__(
        self, configuration: Mapping[str, Any], ids: Mapping[str, str], found: Sequence[Resource]
    ) -> None:
        self._configuration = configuration
        self._ids = dict(ids)
        self._found = found

    def run(self) -> dict[str, str]:
        """Return the imports."""
        result: dict[str, str] = {}
        for kind in KINDS.values():
            if kind.adopt is None:
                continue
            match: _Match = getattr(self, kind.adopt)
            for address, block in _blocks(self._configuration, kind.terraform).items():
                if address in self._ids:
                    continue
                identity = match(kind.terraform, block)
                if identity is not None:
                    result[address] = self._ids[address] = identity
        return result

    def vpc(self, kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a VPC; of several, the one with the most resources."""
        contents = [
            r.description.get("VpcId")
            for r in of_type(self._found, "aws_subnet", "aws_security_group", "aws_route_table")
        ]
        candidates = [
            r
            for r in self._tagged(kind, block)
            if r.description.get("CidrBlock") == block["cidr_block"]
        ]
        return (
            max(candidates, key=lambda vpc: (contents.count(vpc.id), vpc.id)).id
            if candidates
            else None
        )

    def tagged(self, kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a resource outside any VPC by its name tag; one in use comes first."""
        candidates = sorted(
            self._tagged(kind, block), key=lambda r: ("AssociationId" not in r.description, r.id)
        )
        return candidates[0].id if candidates else None

    def in_vpc(self, kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a resource of the network's VPC by its name tag."""
        # A NAT gateway's block names only its subnet; there is one VPC.
        vpc = self._resolve(block.get("vpc_id", "${aws_vpc.this.id}"))
        if vpc is None:
            return None
        # An interruption may have come before the internet gateway was attached.
        mine = sorted(r.id for r in self._tagged(kind, block) if _vpcs(r) in ([vpc], []))
        return mine[0] if mine else None

    def security_group(self, kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a security group whose creation was completed."""
        identity = self.in_vpc(kind, block)
        unfinished = {group.id for group in unfinished_security_groups(self._found)}
        return None if identity in unfinished else identity

    def named(self, kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a resource that its name identifies, even if its id differs."""
        name = block[KINDS[kind].name_attribute]
        key = f"{KINDS[kind].noun.title().replace('-', '')}Name"
        return next(
            (
                r.id
                for r in of_type(self._found, kind)
                if name in (r.id, re.split("[:/]", r.id)[-1], r.description.get(key))
            ),
            None,
        )

    def route(self, _kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a route in its table."""
        table = self._table(block)
        destination = block.get("destination_cidr_block") or block["destination_ipv6_cidr_block"]
        routes = table.description.get("Routes", ()) if table is not None else ()
        exists = any(
            destination
            in (route.get("DestinationCidrBlock"), route.get("DestinationIpv6CidrBlock"))
            for route in routes
        )
        return f"{table.id}_{destination}" if table is not None and exists else None

    def association(self, _kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a subnet's association with any of our tables: a subnet has at most one."""
        subnet = self._resolve(block["subnet_id"])
        for table in of_type(self._found, "aws_route_table"):
            if subnet is not None and any(
                a.get("SubnetId") == subnet for a in table.description.get("Associations", ())
            ):
                return f"{subnet}/{table.id}"
        return None

    def rule(self, kind: str, block: Mapping[str, Any]) -> str | None:
        """Find a rule by its content. AWS (sg-duplicates)"""
        group = self._resolve(block["security_group_id"])
        rules = (
            rule for rule in of_type(self._found, kind) if rule.description["GroupId"] == group
        )
        return next((rule.id for rule in rules if self._matches(rule.description, block)), None)

    def _matches(self, about: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
        ports = (about.get("FromPort", -1), about.get("ToPort", -1))
        if about["IpProtocol"] != block["ip_protocol"] or ports != (
            block.get("from_port", -1),
            block.get("to_port", -1),
        ):
            return False
        for attribute, list_ec2_resources in _PEERS.items():
            wanted, has = block.get(attribute), list_ec2_resources(about)
            if wanted is None:
                if has is not None:
                    return False
            # Only Terraform knows the endpoint's prefix list; a group has one such rule.
            elif has is None or (attribute != "prefix_list_id" and has != self._resolve(wanted)):
                return False
        return True

    def _tagged(self, kind: str, block: Mapping[str, Any]) -> list[Resource]:
        wanted = {key: block["tags"].get(key) for key in ("Name", TAG_WORKSPACE)}
        taken = set(self._ids.values())
        return [
            r
            for r in of_type(self._found, kind)
            if wanted.items() <= r.tags.items() and r.id not in taken
        ]

    def _table(self, block: Mapping[str, Any]) -> Resource | None:
        identity = self._resolve(block["route_table_id"])
        return next((r for r in of_type(self._found, "aws_route_table") if r.id == identity), None)

    def _resolve(self, value: str) -> str | None:
        """Return a literal value, or the referenced resource's id; None if it doesn't exist."""
        reference = _REFERENCE.match(value)
        if reference is not None:
            return self._ids.get(reference[1])
        return None if "${" in value else value


def _blocks(configuration: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
    return {
        f"{kind}.{name}": block
        for name, block in configuration.get("resource", {}).get(kind, {}).items()
    }


def _vpcs(resource: Resource) -> list[str]:
    about = resource.description
    attached = [attachment.get("VpcId") for attachment in about.get("Attachments", ())]
    # One type names its VPC as its resource.
    return [vpc for vpc in (about.get("VpcId"), about.get("ResourceId"), *attached) if vpc]


def _is_unfinished(group: Resource, found: Sequence[Resource]) -> bool:
    rules = [r for r in of_type(found, *RULES) if r.description["GroupId"] == group.id]
    if len(rules) != 1 or rules[0].tags:
        return False
    return _DEFAULT_EGRESS.items() <= dict(rules[0].description).items()
