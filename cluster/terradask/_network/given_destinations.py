"""Check the destinations of `network.egress` that are others': security groups, prefix lists, and
addresses that no route leads to. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_network
from typing import TYPE_CHECKING

from terradask._network.given_network import LikelyFinding
from terradask_modules.egress import Egress
from terradask_modules.ingress import is_within
from terradask_stacks.errors import Finding

if TYPE_CHECKING:
    from terradask._network.given_facts import Description, GivenFacts
    from terradask_stacks.settings import NetworkSettings, Settings

_WHERE = "network.egress"
_PEERED = "a security group of the network's VPC, or of a VPC of this region that is peered with it"
_BY_ADDRESS = "name the addresses instead, as a block"


def destination_findings(settings: Settings, facts: GivenFacts, account: str) -> Iterator[Finding]:
    """Find destinations that hosts couldn't reach."""
    network = settings.network
    yield from _gateway_findings(network, facts)
    rules = {rule.destination: rule for rule in network.all_egress}
    for rule in rules.values():
        if rule.is_group:
            yield from _group_findings(rule.destination, network, facts, account)
        elif rule.is_prefix_list and facts.prefix_lists is not None:
            if rule.destination not in facts.prefix_lists:
                yield Finding(
                    where=_WHERE,
                    problem=f"there is no such prefix list in {facts.region} that this account "
                    "may see",
                    given=rule.destination,
                    allowed="a prefix list of this region, the account's own or shared with it",
                    advice="aws ec2 describe-managed-prefix-lists lists the existing ones",
                )
        else:
            yield from _route_findings(rule, network)


def _group_findings(
    destination: str, network: NetworkSettings, facts: GivenFacts, account: str
) -> Iterator[Finding]:
    owner, _, group_id = destination.rpartition("/")
    if owner:
        yield from _foreign_findings(destination, owner, facts, account)
        return
    if facts.security_groups is None:
        return
    group = facts.security_groups.get(group_id)
    if group is None:
        yield Finding(
            where=_WHERE,
            problem=f"there is no such security group in {facts.region} that this account may see",
            given=destination,
            allowed=_PEERED,
            advice="correct the id; a group of another account, in a peered VPC, is written "
            f"ACCOUNT/{group_id}",
        )
        return
    vpc_id, ours = str(group.get("VpcId")), _own_vpc(network, facts)
    if vpc_id == ours or facts.vpcs is None:
        return
    if ours is None:
        yield Finding(
            where=_WHERE,
            problem=f"the security group is in {vpc_id}, and the network has no VPC yet that could "
            "be peered with it",
            given=destination,
            allowed="groups of other VPCs once the network is deployed and peered",
            advice="apply the network without this rule, peer the VPCs, then add the rule; or "
            + _BY_ADDRESS,
        )
    elif facts.peerings is not None and vpc_id not in _peers(facts, ours, "VpcId"):
        yield Finding(
            where=_WHERE,
            problem=f"the security group belongs to another VPC, {vpc_id}, which isn't peered with "
            f"{ours} in this region: AWS refuses the rule",
            given=destination,
            allowed=_PEERED,
            advice=f"peer the VPCs (aws ec2 create-vpc-peering-connection --vpc-id {ours} "
            f"--peer-vpc-id {vpc_id}), or {_BY_ADDRESS}: a transit gateway needs that",
        )


def _foreign_findings(
    destination: str, owner: str, facts: GivenFacts, account: str
) -> Iterator[Finding]:
    if owner == account:
        yield Finding(
            where=_WHERE,
            problem="the security group is written with this account's own number",
            given=destination,
            allowed="ACCOUNT/sg-… for other accounts alone",
            advice=f"write {destination.partition('/')[2]}",
        )
    elif facts.peerings is not None and owner not in {
        each for ours in facts.vpcs or () for each in _peers(facts, ours, "OwnerId")
    }:
        yield Finding(
            where=_WHERE,
            problem=f"no VPC of account {owner} is peered with the network's in this region: AWS "
            "refuses the rule",
            given=destination,
            allowed=_PEERED,
            advice=f"peer the VPCs first, or {_BY_ADDRESS}",
        )


def _own_vpc(network: NetworkSettings, facts: GivenFacts) -> str | None:
    return network.vpc_id or next(iter(facts.vpcs or ()), None)


def _peerings(facts: GivenFacts, vpc_id: str | None) -> Iterator[tuple[str, Description]]:
    """Yield the active peering connections of a VPC: the id, and the other side."""
    for peering in facts.peerings or ():
        sides = peering["RequesterVpcInfo"], peering["AccepterVpcInfo"]
        for ours, other in (sides, sides[::-1]):
            if peering["Status"]["Code"] == "active" and ours.get("VpcId") == vpc_id:
                yield peering["VpcPeeringConnectionId"], other


def _peers(facts: GivenFacts, vpc_id: str, key: str) -> set[str]:
    """Return a fact of each VPC that is peered with one, in the same region.

    AWS (documented): A security group's rule can't name a group of a peered VPC in another region.
    https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-security-groups.html
    """
    return {
        str(other[key])
        for _, other in _peerings(facts, vpc_id)
        if key in other and other.get("Region", facts.region) == facts.region
    }


def _gateway_findings(network: NetworkSettings, facts: GivenFacts) -> Iterator[Finding]:
    """Find routes through peering connections that the network's VPC doesn't have."""
    ours = _own_vpc(network, facts)
    active = {peering_id for peering_id, _ in _peerings(facts, ours)}
    for block, through in network.routes.items():
        if is_within(ip_network(block), ip_network(network.cidr)):
            yield Finding(
                where="network.routes",
                problem=f"{block} is in the network's own VPC",
                given=block,
                allowed=f"blocks outside of network.cidr, {network.cidr}",
            )
        is_checked = through.startswith("pcx-") and None not in (facts.peerings, facts.vpcs)
        if is_checked and through not in active:
            yield Finding(
                where="network.routes",
                problem="there is no such peering connection of the network's VPC, "
                + (ours or "which isn't deployed yet")
                + ", that is active",
                given=through,
                allowed=", ".join(sorted(active)) or "none: peer the deployed network first",
                advice="aws ec2 describe-vpc-peering-connections lists them; the other side must "
                "have accepted it",
            )


def _route_findings(rule: Egress, network: NetworkSettings) -> Iterator[Finding]:
    """Find addresses that a network of terradask's own has no route to; a given VPC's routes are
    its owner's.
    """
    block = rule.network
    if network.vpc_id is not None or block is None:
        return
    if any(is_within(block, ip_network(route)) for route in network.routes):
        return
    if not isinstance(block, IPv4Network):
        return
    if block.is_global and network.nat == "none" and not network.public_workers:
        yield LikelyFinding(
            where=_WHERE,
            problem='workers have no route to it: with network.nat = "none" they reach only the '
            "network",
            given=rule.destination,
            allowed='public addresses with network.nat = "single" or "per_zone", or '
            "network.public_workers",
            advice="set one of them, or leave the rule out",
        )
    elif block.is_private and not is_within(block, ip_network(network.cidr)):
        yield LikelyFinding(
            where=_WHERE,
            problem="it is outside of the network's own VPC, which has no route to it",
            given=rule.destination,
            allowed="blocks with a route, by a peering connection or a transit gateway",
            advice=f'add to terradask.toml: [network.routes], "{rule.destination}" = "pcx-…" or '
            '"tgw-…"; the other network needs a route back',
        )
