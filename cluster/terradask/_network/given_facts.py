"""Read AWS's descriptions of the resources that the network only uses, without judging them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed
from terradask._common.side_by_side import side_by_side
from terradask._network.task_policies import read_policy_document
from terradask.errors import AccessDenied
from terradask_modules.names import TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import NetworkSettings, Settings

Description = Mapping[str, Any]

#: EC2's kind -> key, filter and id attribute of its list.
_IDENTIFIED = {
    "vpcs": ("Vpcs", "vpc-id", "VpcId"),
    "subnets": ("Subnets", "subnet-id", "SubnetId"),
    "security_groups": ("SecurityGroups", "group-id", "GroupId"),
    "managed_prefix_lists": ("PrefixLists", "prefix-list-id", "PrefixListId"),
    "images": ("Images", "image-id", "ImageId"),
}


@dataclass(frozen=True, kw_only=True)
class GivenFacts:
    """AWS's descriptions of given resources. An unread field is None."""

    #: The region.
    region: str
    #: `vpcs`, `subnets`, `security_groups`, `images`: id -> EC2's description of existing ones.
    #: Groups include those of endpoints and of destinations. VPCs: the given one, or the
    #: network's own, if it is deployed.
    vpcs: Mapping[str, Description] | None = None
    #: ``enableDnsSupport`` and ``enableDnsHostnames`` of the VPC.
    dns: Mapping[str, bool] | None = None
    subnets: Mapping[str, Description] | None = None
    #: `route_tables`, `endpoints`: all of the VPC's.
    route_tables: Sequence[Description] | None = None
    endpoints: Sequence[Description] | None = None
    security_groups: Mapping[str, Description] | None = None
    #: Id -> prefix list, of destinations.
    prefix_lists: Mapping[str, Description] | None = None
    #: The peering connections of the VPC.
    peerings: Sequence[Description] | None = None
    #: Name -> the instance profile with its roles in IAM's description.
    profiles: Mapping[str, Description] | None = None
    boundaries: Mapping[str, Description] | None = None
    #: The boundary's document, if tasks have rights that it must allow.
    boundary_document: Description | None = None
    #: ARN -> the key's metadata.
    keys: Mapping[str, Description] | None = None
    key_policy: Description | None = None
    images: Mapping[str, Description] | None = None
    #: The actions that AWS refused: their results are unknown.
    denied: tuple[str, ...] = ()


def describe_given(settings: Settings, aws: Aws) -> GivenFacts:
    """Read all given resources in the settings from AWS.

    Permissions needed: ``ec2:DescribeVpcs``, ``DescribeVpcAttribute``, ``DescribeSubnets``,
    ``DescribeRouteTables``, ``DescribeVpcEndpoints``, ``DescribeSecurityGroups``,
    ``DescribeImages``; ``iam:GetInstanceProfile``, ``iam:GetPolicy``; ``kms:DescribeKey``,
    ``kms:GetKeyPolicy``; with rights of tasks and a boundary ``iam:GetPolicyVersion``; with
    destinations that are security groups or prefix lists ``ec2:DescribeVpcPeeringConnections``,
    ``DescribeManagedPrefixLists``. Results without permission are left out.
    """
    network = settings.network
    jobs = {**_jobs(network, aws), **_destination_jobs(settings, aws)}
    denied: list[str] = []

    def answer(job: Callable[[], Any]) -> Any:
        try:
            return job()
        except AccessDenied as error:
            denied.append(error.action)
            return None

    answers = side_by_side([partial(answer, job) for job in jobs.values()], 8)
    facts = GivenFacts(region=aws.region, **dict(zip(jobs, answers, strict=True)))
    groups = _group_ids(network, facts.endpoints or ())
    if network.vpc_id is not None or groups:
        facts = replace(
            facts, security_groups=answer(lambda: _by_id(aws, "security_groups", groups))
        )
    return replace(facts, denied=tuple(sorted(denied)))


def _jobs(network: NetworkSettings, aws: Aws) -> dict[str, Callable[[], Any]]:
    """Return the function that reads each field of the facts."""
    jobs: dict[str, Callable[[], Any]] = {}
    vpc_id = network.vpc_id
    key_arn = network.kms_key_arn
    boundary = network.permissions_boundary
    images = sorted(network.images.values())
    if vpc_id is not None:
        subnets = sorted(
            {
                subnet
                for zone in network.subnets.values()
                for subnet in (zone.scheduler, zone.worker)
            }
        )
        jobs |= {
            "vpcs": lambda: _by_id(aws, "vpcs", [vpc_id]),
            "dns": lambda: _dns(aws.client("ec2"), vpc_id),
            "subnets": lambda: _by_id(aws, "subnets", subnets),
            "route_tables": lambda: _listed(aws, "route_tables", "RouteTables", "vpc-id", [vpc_id]),
            "endpoints": lambda: _listed(aws, "vpc_endpoints", "VpcEndpoints", "vpc-id", [vpc_id]),
        }
    profiles = network.instance_profiles
    if profiles is not None:
        jobs["profiles"] = lambda: _profiles(
            aws.client("iam"), sorted({profiles.scheduler, profiles.worker})
        )
    if boundary is not None:
        jobs["boundaries"] = lambda: _boundary(aws.client("iam"), boundary)
        if network.data or network.rights:
            jobs["boundary_document"] = lambda: read_policy_document(aws.client("iam"), boundary)
    if key_arn is not None:
        jobs["keys"] = lambda: _key(aws.client("kms"), key_arn)
        jobs["key_policy"] = lambda: _key_policy(aws.client("kms"), key_arn)
    if images:
        jobs["images"] = lambda: _by_id(aws, "images", images)
    return jobs


def _destination_jobs(settings: Settings, aws: Aws) -> dict[str, Callable[[], Any]]:
    jobs: dict[str, Callable[[], Any]] = {}
    rules = settings.network.all_egress
    lists = sorted({rule.destination for rule in rules if rule.is_prefix_list})
    if lists:
        jobs["prefix_lists"] = lambda: _by_id(aws, "managed_prefix_lists", lists)
    if any(rule.is_group for rule in rules) or settings.network.routes:
        jobs["peerings"] = lambda: _listed(
            aws, "vpc_peering_connections", "VpcPeeringConnections", "status-code", ["active"]
        )
        if settings.network.vpc_id is None:
            tag, name = f"tag:{TAG_WORKSPACE}", settings.workspace.name
            jobs["vpcs"] = lambda: {
                vpc["VpcId"]: vpc for vpc in _listed(aws, "vpcs", "Vpcs", tag, [name])
            }
    return jobs


def _group_ids(network: NetworkSettings, endpoints: Sequence[Description]) -> list[str]:
    given = network.security_groups
    ids = {group["GroupId"] for endpoint in endpoints for group in endpoint.get("Groups", ())}
    # Those of other accounts can't be described.
    ids |= {
        rule.destination
        for rule in network.all_egress
        if rule.is_group and "/" not in rule.destination
    }
    return sorted(ids | ({given.scheduler, given.worker} if given is not None else set()))


def _listed(
    aws: Aws, what: str, listing: str, filter_name: str, values: Sequence[str]
) -> list[Description]:
    # By filter: missing ones are left out instead of an error that hides the rest.
    filters = [{"Name": filter_name, "Values": list(values)}]
    return list(listed(aws.client("ec2"), f"describe_{what}", listing, Filters=filters))


def _by_id(aws: Aws, what: str, ids: Sequence[str]) -> dict[str, Description]:
    listing, filter_name, key = _IDENTIFIED[what]
    return (
        {item[key]: item for item in _listed(aws, what, listing, filter_name, ids)} if ids else {}
    )


def _dns(client: Any, vpc_id: str) -> dict[str, bool] | None:
    with unless("InvalidVpc*"):
        found = {}
        for attribute in ("enableDnsSupport", "enableDnsHostnames"):
            answer = client.describe_vpc_attribute(VpcId=vpc_id, Attribute=attribute)
            found[attribute] = bool(answer[attribute[0].upper() + attribute[1:]]["Value"])
        return found
    return None


def _profiles(client: Any, names: Sequence[str]) -> dict[str, Description]:
    found = {}
    for name in names:
        with unless("NoSuchEntity"):
            found[name] = client.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    return found


def _boundary(client: Any, arn: str) -> dict[str, Description]:
    with unless("NoSuchEntity"):
        return {arn: client.get_policy(PolicyArn=arn)["Policy"]}
    return {}


def _key(client: Any, arn: str) -> dict[str, Description]:
    with unless("NotFoundException"):
        return {arn: client.describe_key(KeyId=arn)["KeyMetadata"]}
    return {}


def _key_policy(client: Any, arn: str) -> Description | None:
    with unless("NotFoundException"):
        policy = client.get_key_policy(KeyId=arn, PolicyName="default")["Policy"]
        return dict(json.loads(policy))
    return None
