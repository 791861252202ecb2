"""Check that given security groups allow the hosts' traffic. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

from terradask._network.given_network import LikelyFinding, interface_endpoints, own_tag, subnet_id
from terradask_modules.egress import Egress, in_vpc
from terradask_modules.ingress import EVERY_PORT, Ports, first_closed, is_within, ports_text
from terradask_modules.names import ROLES
from terradask_stacks.checks import HOST_SERVICES, SESSION_SERVICES
from terradask_stacks.errors import Finding
from terradask_stacks.ingress import ports_for_workers

if TYPE_CHECKING:
    from terradask._network.given_facts import Description, GivenFacts
    from terradask_stacks.settings import Settings

HTTPS: Ports = (443, 443)
#: Range of Linux's ports for workers, which the system chooses (net.ipv4.ip_local_port_range).
WORKER_PORTS: Ports = (32768, 60999)

_EVERYWHERE = ip_network("0.0.0.0/0")
#: AWS (documented): EC2 takes a security group rule's protocol by name or number.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html
_NUMBERS = {"tcp": "6", "udp": "17"}

#: Connections between roles, with their ports, beside workers to schedulers.
_CALLS: tuple[tuple[str, str, Ports], ...] = (
    ("scheduler", "worker", WORKER_PORTS),
    ("worker", "worker", WORKER_PORTS),
)


@dataclass(frozen=True)
class Peer:
    """The other end of a security group's rule."""

    #: Its security group. None: not known yet, or outside.
    group: str | None
    blocks: tuple[IPv4Network | IPv6Network, ...]


def firewall_findings(settings: Settings, facts: GivenFacts) -> Iterator[Finding]:
    """Find traffic that given security groups, and those of the VPC's endpoints, block."""
    if settings.network.vpc_id is None or facts.security_groups is None:
        return
    peers = {role: _hosts(settings, facts, role) for role in ROLES}
    if settings.network.security_groups is not None:
        known = facts.security_groups
        groups = {
            role: known[peer.group]
            for role, peer in peers.items()
            if peer.group is not None and peer.group in known
        }
        yield from _existence_findings(settings, facts, peers)
        yield from _call_findings(settings, groups, peers)
        yield from _egress_findings(groups)
        yield from _destination_findings(settings, facts, groups)
        yield from _client_findings(settings, groups)
    yield from _endpoint_findings(facts, peers)


def admits(permissions: Iterable[Description], ports: Ports, peer: Peer) -> bool:
    """Return whether rules of one direction allow TCP with a peer on some ports."""
    permissions = list(permissions)
    named = [_span(p) for p in permissions if peer.group is not None and peer.group in _groups(p)]
    return all(
        _admits(ports, [*named, *(_span(p) for p in permissions if _holds(p, block))])
        for block in peer.blocks
    )


def _admits(ports: Ports, spans: Iterable[Ports | None]) -> bool:
    return first_closed(ports, filter(None, spans)) is None


def _hosts(settings: Settings, facts: GivenFacts, role: str) -> Peer:
    given = settings.network.security_groups
    ids = {subnet_id(settings, zone, role) for zone in settings.network.subnets}
    blocks = {
        subnet["CidrBlock"]
        for key, subnet in (facts.subnets or {}).items()
        if key in ids and subnet.get("CidrBlock")
    }
    return Peer(
        None if given is None else getattr(given, role),
        tuple(ip_network(block) for block in sorted(blocks)),
    )


def _existence_findings(
    settings: Settings, facts: GivenFacts, peers: dict[str, Peer]
) -> Iterator[Finding]:
    vpc_id = settings.network.vpc_id
    for role, peer in peers.items():
        where = f"network.security_groups.{role}"
        group = (facts.security_groups or {}).get(str(peer.group))
        finding = partial(
            Finding, where=where, given=peer.group, allowed=f"a security group of {vpc_id}"
        )
        if group is None:
            yield finding(
                problem=(
                    f"there is no such security group in {facts.region} that this account may see"
                ),
                advice=(
                    f"aws ec2 describe-security-groups --filters Name=vpc-id,Values={vpc_id} "
                    "lists the existing ones"
                ),
            )
            continue
        yield from own_tag(where, str(peer.group), group, settings.workspace.name)
        if group.get("VpcId") != vpc_id:
            yield finding(
                problem=f"the security group belongs to another VPC: {group.get('VpcId')}",
                advice=f"give one of {vpc_id}",
            )


def _call_findings(
    settings: Settings, groups: dict[str, Description], peers: dict[str, Peer]
) -> Iterator[Finding]:
    to_schedulers = ports_for_workers(settings.workspace, settings.network)
    joins = [("worker", "scheduler", ports) for ports in to_schedulers]
    for caller, called, ports in (*joins, *_CALLS):
        for role, other, direction, key in (
            (called, caller, "from", "IpPermissions"),
            (caller, called, "to", "IpPermissionsEgress"),
        ):
            # Without the other's subnets, rules with addresses can't be checked.
            if role not in groups or not peers[other].blocks:
                continue
            permissions = groups[role].get(key, ())
            if admits(permissions, ports, peers[other]):
                continue
            by_list = any(
                p.get("PrefixListIds") and _admits(ports, [_span(p)]) for p in permissions
            )
            kind = LikelyFinding if by_list else Finding
            yield kind(
                where=f"network.security_groups.{role}",
                problem=(
                    f"{role}s' group doesn't allow TCP ports {ports_text(ports)} {direction} "
                    f"{other}s, which {caller}s need to reach {called}s"
                ),
                given=peers[role].group,
                allowed=f"a rule for TCP {ports_text(ports)} that names {peers[other].group}"
                + (
                    " (prefix lists, which may hold their addresses, aren't checked)"
                    if by_list
                    else ""
                ),
                advice="have the rule added: "
                f"{'inbound' if key == 'IpPermissions' else 'outbound'}, TCP {ports_text(ports)}, "
                f"peer {peers[other].group}",
            )


def _egress_findings(groups: dict[str, Description]) -> Iterator[Finding]:
    for role, group in groups.items():
        permissions = list(group.get("IpPermissionsEgress", ()))
        if admits(permissions, HTTPS, Peer(None, (_EVERYWHERE,))):
            continue
        some = any(_admits(HTTPS, [_span(p)]) for p in permissions)
        yield (LikelyFinding if some else Finding)(
            where=f"network.security_groups.{role}",
            problem=f"{role}s' group allows egress on port 443 "
            + (
                "only to some addresses: are AWS's services, or their endpoints, among them?"
                if some
                else "to no address: hosts reach no AWS service"
            ),
            given=group.get("GroupId"),
            allowed="TCP 443 to 0.0.0.0/0, or to the VPC's endpoints and S3's prefix list",
            advice="have the outbound rule added",
        )


def _destination_findings(
    settings: Settings, facts: GivenFacts, groups: dict[str, Description]
) -> Iterator[Finding]:
    vpc = (facts.vpcs or {}).get(str(settings.network.vpc_id), {})
    blocks = [each["CidrBlock"] for each in vpc.get("CidrBlockAssociationSet", ())]
    for rule in in_vpc(settings.network.all_egress, blocks):
        for role, group in groups.items():
            spans = [
                _span(each, rule.protocol)
                for each in group.get("IpPermissionsEgress", ())
                if _leads_to(each, rule)
            ]
            if not _admits(rule.ports, spans):
                yield Finding(
                    where="network.egress",
                    problem=f"the given security group of {role}s doesn't let hosts out to "
                    f"{rule.destination} at {rule.protocol} {ports_text(rule.ports)}, and "
                    "terradask changes nothing in it",
                    given=group.get("GroupId"),
                    allowed="destinations that the group lets hosts out to",
                    advice="have the outbound rule added to the group, or correct network.egress",
                )


def _leads_to(permission: Description, rule: Egress) -> bool:
    """Return whether a rule of a group is for a destination, or for every address."""
    if rule.network is not None:
        return _holds(permission, rule.network)
    named = [
        *_groups(permission),
        *(p["PrefixListId"] for p in permission.get("PrefixListIds", ())),
    ]
    return rule.destination.rpartition("/")[2] in named or _EVERYWHERE in _blocks(permission)


def _client_findings(settings: Settings, groups: dict[str, Description]) -> Iterator[Finding]:
    scheduler = groups.get("scheduler")
    if scheduler is None:
        return
    permissions = list(scheduler.get("IpPermissions", ()))
    for rule in settings.network.ingress:
        for ports in rule.port_ranges:
            if not admits(permissions, ports, Peer(None, (ip_network(rule.cidr),))):
                yield Finding(
                    where="network.ingress",
                    problem=f"the given security group of schedulers doesn't allow {rule.cidr} on "
                    f"ports {ports_text(ports)}, and terradask changes nothing in it",
                    given=scheduler.get("GroupId"),
                    allowed="sources that the group allows",
                    advice="have the inbound rule added to the group, or correct network.ingress",
                )
    for role, group in groups.items():
        if any(
            _EVERYWHERE in _blocks(p) or ip_network("::/0") in _blocks(p)
            for p in group.get("IpPermissions", ())
        ):
            yield LikelyFinding(
                where=f"network.security_groups.{role}",
                problem=f"{role}s' group allows the whole internet",
                given=group.get("GroupId"),
                allowed="rules that name the addresses of clients",
                advice="narrow the inbound rules from 0.0.0.0/0 and ::/0",
            )


def _endpoint_findings(facts: GivenFacts, peers: dict[str, Peer]) -> Iterator[Finding]:
    """Find endpoints that exclude hosts: private DNS leaves no other route to a service."""
    for service in (*HOST_SERVICES, *SESSION_SERVICES):
        for endpoint in interface_endpoints(facts, service):
            ids = [group["GroupId"] for group in endpoint.get("Groups", ())]
            permissions = [
                p
                for id_ in ids
                for p in (facts.security_groups or {}).get(id_, {}).get("IpPermissions", ())
            ]
            shut_out = [
                role
                for role, peer in peers.items()
                if ids and peer.blocks and not admits(permissions, HTTPS, peer)
            ]
            if shut_out:
                yield (
                    LikelyFinding if any(p.get("PrefixListIds") for p in permissions) else Finding
                )(
                    where="network.vpc_id",
                    problem=f"the VPC's endpoint for {service} answers for that service but "
                    f"doesn't allow port 443 from {' and '.join(f'{role}s' for role in shut_out)}",
                    given=endpoint.get("VpcEndpointId"),
                    allowed="an inbound rule for TCP 443 from the hosts' subnets or groups",
                    advice=f"have it added to {', '.join(ids)}",
                )


def _span(permission: Description, wanted: str = "tcp") -> Ports | None:
    """Return the ports of a rule with a protocol, or None."""
    protocol = str(permission.get("IpProtocol"))
    if protocol == "-1":
        return EVERY_PORT
    return (
        (int(permission.get("FromPort", 0)), int(permission.get("ToPort", 65535)))
        if protocol in {wanted, _NUMBERS[wanted]}
        else None
    )


def _groups(permission: Description) -> list[str]:
    return [pair["GroupId"] for pair in permission.get("UserIdGroupPairs", ())]


def _blocks(permission: Description) -> list[IPv4Network | IPv6Network]:
    ranges = [item["CidrIp"] for item in permission.get("IpRanges", ())] + [
        item["CidrIpv6"] for item in permission.get("Ipv6Ranges", ())
    ]
    return [ip_network(block, strict=False) for block in ranges]


def _holds(permission: Description, wanted: IPv4Network | IPv6Network) -> bool:
    return any(is_within(wanted, block) for block in _blocks(permission))
