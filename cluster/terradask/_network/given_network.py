"""Check the place, size and routes of a given VPC and its subnets. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.tags import tags_of
from terradask_modules.names import ROLES, TAG_WORKSPACE
from terradask_stacks.checks import HOST_SERVICES, services_called
from terradask_stacks.errors import Finding

if TYPE_CHECKING:
    from terradask._network.given_facts import Description, GivenFacts
    from terradask_stacks.settings import ClusterSettings, Settings

_EVERYWHERE = "0.0.0.0/0"

#: AWS (documented): A route's state is active, blackhole (its target isn't there) or filtered.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Route.html
_LEADING_NOWHERE = frozenset({"blackhole", "filtered"})

#: All of a route but its target: EC2 adds kinds of targets.
_NO_TARGETS = frozenset(
    {
        "DestinationCidrBlock",
        "DestinationIpv6CidrBlock",
        "DestinationPrefixListId",
        "InstanceOwnerId",
        "Origin",
        "State",
    }
)


class LikelyFinding(Finding):
    """A probable problem, which is only reported."""


def own_tag(
    where: str, given: str, description: Mapping[str, Any], workspace: str
) -> Iterator[Finding]:
    """Find given resources with this workspace's tag, which a destroy would remove."""
    tags = tags_of(description.get("Tags"))
    if tags.get(TAG_WORKSPACE) == workspace:
        yield Finding(
            where=where,
            problem=(
                f"it has the tag {TAG_WORKSPACE} = {workspace}, which marks terradask's own "
                "resources, to be removed with the network"
            ),
            given=given,
            allowed="resources without this workspace's tag",
            advice=(
                f"remove the tag {TAG_WORKSPACE} from it, or leave the setting out if "
                "terradask made it"
            ),
        )


def network_findings(settings: Settings, facts: GivenFacts) -> Iterator[Finding]:
    """Find problems of the VPC, its subnets and their routes."""
    vpc_id = settings.network.vpc_id
    if vpc_id is None:
        return
    if facts.vpcs is not None and vpc_id not in facts.vpcs:
        yield Finding(
            where="network.vpc_id",
            problem=f"there is no such VPC in {facts.region} that this account may see",
            given=vpc_id,
            allowed="a VPC of this region, of the account's own or shared with it",
            advice=(
                "correct network.vpc_id or workspace.region; aws ec2 describe-vpcs lists the "
                "existing ones"
            ),
        )
        return
    yield from own_tag(
        "network.vpc_id", vpc_id, (facts.vpcs or {}).get(vpc_id, {}), settings.workspace.name
    )
    yield from _dns_findings(vpc_id, facts)
    for zone in sorted(settings.network.subnets):
        for role in ROLES:
            yield from _subnet_findings(settings, facts, zone, role)


def subnet_id(settings: Settings, zone: str, role: str) -> str:
    """Return the given subnet for a role's hosts in a zone."""
    given = settings.network.subnets[zone]
    return given.scheduler if role == "scheduler" else given.worker


def interface_endpoints(facts: GivenFacts, service: str) -> list[Description]:
    """Return the interface endpoints that answer under a service's usual name."""
    return [
        endpoint
        for endpoint in facts.endpoints or ()
        if _is_of(endpoint, service, facts.region)
        and endpoint.get("VpcEndpointType") == "Interface"
        and endpoint.get("PrivateDnsEnabled")
    ]


def _dns_findings(vpc_id: str, facts: GivenFacts) -> Iterator[Finding]:
    dns = facts.dns or {}
    change = "aws ec2 modify-vpc-attribute --vpc-id " + vpc_id
    if not dns.get("enableDnsSupport", True):
        yield Finding(
            where="network.vpc_id",
            problem="DNS resolution is off (enableDnsSupport): hosts would find no AWS service",
            given=vpc_id,
            allowed="a VPC with enableDnsSupport on",
            advice=f"{change} --enable-dns-support",
        )
    if not dns.get("enableDnsHostnames", True):
        yield LikelyFinding(
            where="network.vpc_id",
            problem=(
                "DNS host names are off (enableDnsHostnames): interface endpoints with "
                "private DNS need them"
            ),
            given=vpc_id,
            allowed="a VPC with enableDnsHostnames on",
            advice=f"{change} --enable-dns-hostnames",
        )


def _subnet_findings(
    settings: Settings, facts: GivenFacts, zone: str, role: str
) -> Iterator[Finding]:
    given, vpc_id = subnet_id(settings, zone, role), settings.network.vpc_id
    where = f"network.subnets.{zone}.{role}"
    if facts.subnets is None:
        return
    finding = partial(Finding, where=where, given=given, allowed=f"a subnet of {vpc_id} in {zone}")
    subnet = facts.subnets.get(given)
    if subnet is None:
        yield finding(
            problem=f"there is no such subnet in {facts.region} that this account may see",
            advice=(
                f"aws ec2 describe-subnets --filters Name=vpc-id,Values={vpc_id} lists the "
                "existing ones"
            ),
        )
        return
    yield from own_tag(where, given, subnet, settings.workspace.name)
    for name, has, wanted in (
        ("VPC", subnet.get("VpcId"), vpc_id),
        ("zone", subnet.get("AvailabilityZone"), zone),
    ):
        if has != wanted:
            yield finding(
                problem=f"the subnet is in another {name}: {has}",
                advice=f"give one of {name} {wanted}"
                + (f", or name it under {has}" if name == "zone" else ""),
            )
    if subnet.get("VpcId") == vpc_id:
        yield from _address_findings(settings, subnet, where, zone, role)
        yield from _way_out_findings(settings, facts, where, given, role)


def _address_findings(
    settings: Settings, subnet: Description, where: str, zone: str, role: str
) -> Iterator[Finding]:
    if subnet.get("Ipv6Native"):
        yield Finding(
            where=where,
            problem="the subnet has only IPv6 addresses",
            given=subnet["SubnetId"],
            allowed="a subnet with IPv4",
        )
        return
    needed = 1
    if role == "worker":
        clusters = [settings.cluster, *settings.clusters.values()]
        needed = max((_most_hosts(cluster, settings, zone) for cluster in clusters), default=0)
    free = subnet.get("AvailableIpAddressCount")
    if free is not None and free < needed:
        # Existing hosts may use some of the addresses now.
        yield LikelyFinding(
            where=where,
            problem=(
                f"the subnet ({subnet.get('CidrBlock')}) has {free} free addresses, but one "
                f"cluster may have {needed} {role}s in it"
            ),
            given=subnet["SubnetId"],
            allowed=f"{needed} free addresses",
            advice="give a larger subnet"
            + (", or lower cluster.max_workers" if role == "worker" else ""),
        )


def _most_hosts(cluster: ClusterSettings, settings: Settings, zone: str) -> int:
    """Return the largest number of workers in a zone; AWS spreads them evenly over zones."""
    if cluster.allow_cross_zone:
        return -(-cluster.most_hosts // len(settings.network.subnets))
    return cluster.most_hosts if cluster.zone_name in (None, zone) else 0


def _way_out_findings(
    settings: Settings, facts: GivenFacts, where: str, given: str, role: str
) -> Iterator[Finding]:
    if facts.route_tables is None:
        return
    network = settings.network
    public = network.public_schedulers if role == "scheduler" else network.public_workers
    setting = f"network.public_{role}s"
    table = _table_of(given, facts.route_tables)
    target = _default_target(table)
    to_internet_gateway = target is not None and target.startswith("igw-")
    if public:
        if not to_internet_gateway:
            yield Finding(
                where=where,
                problem=f"{role}s get public addresses ({setting} = true), and the subnet has no "
                "default route to an internet gateway: "
                f"it leads {'nowhere' if target is None else 'to ' + target}",
                given=given,
                allowed="a public subnet",
                advice=f"give a public subnet, or set {setting} = false"
                + (" and cluster.connect = 'private'" if role == "scheduler" else ""),
            )
        return
    if target is not None and not to_internet_gateway:
        return
    services = services_called(network) if role == "scheduler" else HOST_SERVICES
    missing = _missing_endpoints(facts, table, services)
    way = (
        "its default route leads to an internet gateway, which serves only public addresses"
        if target
        else "it has no default route"
    )
    if missing and facts.endpoints is not None:
        yield Finding(
            where=where,
            problem=(
                f"{role}s would reach no AWS service from this subnet: {way}, and the VPC has "
                f"no endpoint for {', '.join(missing)}"
            ),
            given=given,
            allowed="a default route (NAT gateway, transit gateway, …), or interface endpoints "
            f"with private DNS for {', '.join(services)} and an endpoint for s3",
            advice="give a subnet that has one, or have the VPC's owner add the endpoints",
        )
    elif facts.endpoints is not None:
        yield LikelyFinding(
            where=where,
            problem=f"{role}s reach only AWS's services, through endpoints: {way}. No "
            "package can be installed from an index on the internet",
            given=given,
            allowed="fine where an index inside the VPC has all packages",
            advice="see docs/network.md, Without internet",
        )


def _table_of(subnet: str, tables: Sequence[Description]) -> Description | None:
    """Return the subnet's own route table, else the VPC's main one."""
    for wanted in ({"SubnetId": subnet}, {"Main": True}):
        for table in tables:
            if any(
                wanted.items() <= dict(association).items()
                for association in table.get("Associations", ())
            ):
                return table
    return None


def _default_target(table: Description | None) -> str | None:
    """Return the default route's target; None without one, or if the target is missing."""
    for route in (table or {}).get("Routes", ()):
        if (
            route.get("DestinationCidrBlock") == _EVERYWHERE
            and route.get("State") not in _LEADING_NOWHERE
        ):
            targets = (str(route[key]) for key in route if key not in _NO_TARGETS and route[key])
            return next(targets, None)
    return None


def _missing_endpoints(
    facts: GivenFacts, table: Mapping[str, Any] | None, services: Sequence[str]
) -> list[str]:
    missing = [service for service in services if not interface_endpoints(facts, service)]
    table_id = (table or {}).get("RouteTableId")
    gateways = [
        e
        for e in facts.endpoints or ()
        if _is_of(e, "s3", facts.region) and table_id in e.get("RouteTableIds", ())
    ]
    return missing if gateways or interface_endpoints(facts, "s3") else [*missing, "s3"]


def _is_of(endpoint: Description, service: str, region: str) -> bool:
    # In China the name begins with cn.com.amazonaws.
    return (
        str(endpoint.get("ServiceName", "")).endswith(f".{region}.{service}")
        and endpoint.get("State", "available") == "available"
    )
