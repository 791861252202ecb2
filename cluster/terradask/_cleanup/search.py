"""Find the resources of a workspace's network, or of one cluster, in AWS, whether a Terraform state
knows them or not.

When Terraform is interrupted or killed, AWS may have created the last resource without Terraform
receiving the answer. It is found by the tags that every resource is created with; if AWS lists it
without tags, by its name first. The bucket is created without tags: no other workspace can have one
of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask._aws.group_facts import tagged_groups
from terradask._aws.listing import listed, listed_groups
from terradask._aws.tags import tags_of
from terradask._cleanup.named_resources import (
    find_bucket,
    find_in_iam,
    find_log_group,
    find_role_policies,
    find_topic,
)
from terradask._cleanup.resources import (
    AUTOSCALING_GROUP,
    EGRESS_RULE,
    INGRESS_RULE,
    NETWORK_INTERFACE,
    SECRET,
    SECRET_ADDRESS,
    VOLUME,
    Owner,
    Resource,
    clusters_of,
    of_type,
)
from terradask._common.side_by_side import side_by_side
from terradask.errors import AccessDenied
from terradask_modules.names import ROLES, role_name, secret_id, secrets_prefix

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.baseline import Isolated

#: Makes a client's call and returns the resources found.
_Search = Callable[[], Sequence[Resource]]

#: Terraform's type -> boto3's method, the key of the list in its answer, the key of the id.
_IN_EC2 = {
    "aws_vpc": ("describe_vpcs", "Vpcs", "VpcId"),
    "aws_subnet": ("describe_subnets", "Subnets", "SubnetId"),
    "aws_internet_gateway": ("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "aws_nat_gateway": ("describe_nat_gateways", "NatGateways", "NatGatewayId"),
    "aws_eip": ("describe_addresses", "Addresses", "AllocationId"),
    "aws_route_table": ("describe_route_tables", "RouteTables", "RouteTableId"),
    "aws_vpc_endpoint": ("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    "aws_security_group": ("describe_security_groups", "SecurityGroups", "GroupId"),
    "aws_launch_template": ("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    "aws_egress_only_internet_gateway": (
        "describe_egress_only_internet_gateways",
        "EgressOnlyInternetGateways",
        "EgressOnlyInternetGatewayId",
    ),
    "aws_flow_log": ("describe_flow_logs", "FlowLogs", "FlowLogId"),
    "aws_placement_group": ("describe_placement_groups", "PlacementGroups", "GroupName"),
    NETWORK_INTERFACE: ("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    VOLUME: ("describe_volumes", "Volumes", "VolumeId"),
}

#: Searched only if configured: the caller may lack the permission otherwise.
_OPTIONAL = frozenset(
    {
        "aws_egress_only_internet_gateway",
        "aws_flow_log",
        "aws_placement_group",
        NETWORK_INTERFACE,
        VOLUME,
    }
)

#: EC2 resources that any cluster can have of its own, and that isolated ones have.
_PLACEMENT = "aws_placement_group"
_TEMPLATE = "aws_launch_template"
_OF_CLUSTERS = ("aws_security_group", _TEMPLATE)

#: EC2 lists gateways and endpoints for a while after their deletion.
_ENDED = frozenset({"deleted", "deleting", "failed"})


def find_network(
    aws: Aws, *, workspace: str, bucket: str, configuration: Mapping[str, Any]
) -> list[Resource]:
    """Return all existing resources of a workspace's network: those with its tag and no cluster's,
    and its bucket.

    Parts of another resource that are deleted with it are left out: routes, rules, policies in
    roles.

    Permissions needed: ``ec2:Describe*``, ``iam:GetRole``, ``iam:GetInstanceProfile``,
    ``logs:DescribeLogGroups``, ``logs:ListTagsForResource``, ``s3:ListBucket``,
    ``s3:GetBucketTagging``; ``iam:GetPolicy`` if a policy is configured,
    ``sns:ListTagsForResource`` if a topic is.
    """
    ec2, iam, logs, s3 = (aws.client(service) for service in ("ec2", "iam", "logs", "s3"))
    owner, configured = Owner(workspace), configuration.get("resource", {})
    searches: list[_Search] = [
        partial(find_in_ec2, ec2, kind, owner)
        for kind in _IN_EC2
        if kind not in _OPTIONAL or kind in configured
    ]
    for kind in ("aws_iam_role", "aws_iam_instance_profile"):
        searches += [
            partial(find_in_iam, iam, kind, block["name"])
            for block in configured.get(kind, {}).values()
        ]
    searches += [
        partial(find_log_group, logs, block["name"])
        for block in configured.get("aws_cloudwatch_log_group", {}).values()
    ]
    for block in configured.get("aws_sns_topic", {}).values():
        arn = f"arn:{aws.partition}:sns:{aws.region}:{aws.account_id}:{block['name']}"
        searches.append(partial(find_topic, aws.client("sns"), arn))
    for block in configured.get("aws_iam_policy", {}).values():
        name = f"{block.get('path', '/')}{block['name']}"
        arn = f"arn:{aws.partition}:iam::{aws.account_id}:policy{name}"
        searches.append(partial(find_in_iam, iam, "aws_iam_policy", arn))
    searches.append(partial(find_bucket, s3, bucket, aws.account_id))
    # Buckets are tagged after their creation; the name has the account's number.
    return [
        r for r in _answers(searches) if owner.owns(r) or (r.type == "aws_s3_bucket" and not r.tags)
    ]


def find_cluster(
    aws: Aws, *, workspace: str, cluster: str, isolated: Isolated | None, own_templates: bool = True
) -> list[Resource]:
    """Return a cluster's own existing resources: a placement group, launch templates.

    For an isolated cluster also roles, policies, profiles, security groups and rules.

    Permissions needed: ``ec2:DescribePlacementGroups``, ``DescribeSecurityGroups``,
    ``DescribeSecurityGroupRules``, ``DescribeLaunchTemplates``; ``iam:GetRole``,
    ``ListRolePolicies``, ``GetInstanceProfile``.
    """
    ec2, owner = aws.client("ec2"), Owner(workspace, cluster)
    searches: list[_Search] = [partial(_placement_groups, ec2, owner)]
    if isolated is None:
        searches += [partial(find_in_ec2, ec2, _TEMPLATE, owner)] if own_templates else []
        return [resource for resource in _answers(searches) if owner.owns(resource)]
    iam = aws.client("iam")
    names = [role_name(workspace, role, isolated.role_name_prefix, cluster) for role in ROLES]
    searches += [partial(find_in_ec2, ec2, kind, owner) for kind in _OF_CLUSTERS]
    searches += [
        partial(find_in_iam, iam, kind, name)
        for kind in ("aws_iam_role", "aws_iam_instance_profile")
        for name in names
    ]
    found = [resource for resource in _answers(searches) if owner.owns(resource)]
    # Rules without the tags are deleted only with their group.
    rules = [rule for rule in find_rules_in(aws, found) if owner.owns(rule)]
    policies = _answers(
        [partial(find_role_policies, iam, role.id) for role in of_type(found, "aws_iam_role")]
    )
    return [*found, *rules, *policies]


def clusters_with_resources(
    aws: Aws,
    *,
    workspace: str,
    isolated: Isolated | None,
    own_templates: bool = True,
    known: Collection[str] = (),
) -> set[str]:
    """Return the names of the clusters that have a group, a secret, a placement group, security
    groups, launch templates or roles, by their tags.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``; ``secretsmanager:ListSecrets``,
    ``DescribeSecret``; ``ec2:DescribePlacementGroups``, ``DescribeSecurityGroups``,
    ``DescribeLaunchTemplates``; ``iam:ListRoles``, ``iam:GetRole``.
    """
    scaling, secrets = aws.client("autoscaling"), aws.client("secretsmanager")
    found = clusters_of(find_groups(scaling, Filters=Owner(workspace).filters), workspace)
    begins = secrets_prefix(workspace)
    listed = {one.id.removeprefix(begins) for one in find_secrets(secrets, workspace=workspace)}
    found |= {name for name in listed - found if find_secret(secrets, Owner(workspace, name))}
    found |= clusters_in_ec2(
        aws, workspace=workspace, isolated=isolated, own_templates=own_templates
    )
    if isolated is None:
        return found
    return found | clusters_with_roles(
        aws, workspace=workspace, isolated=isolated, known=found.union(known)
    )


def clusters_in_ec2(
    aws: Aws, *, workspace: str, isolated: Isolated | None, own_templates: bool = True
) -> set[str]:
    """Return the names of the clusters that have their own placement groups, launch templates or,
    if isolated, security groups.
    """
    ec2 = aws.client("ec2")
    kinds = _OF_CLUSTERS if isolated is not None else (_TEMPLATE,) if own_templates else ()
    searches: list[_Search] = [partial(find_in_ec2, ec2, kind, Owner(workspace)) for kind in kinds]
    found = _answers([partial(_placement_groups, ec2, Owner(workspace)), *searches])
    return clusters_of(found, workspace)


def clusters_with_roles(
    aws: Aws, *, workspace: str, isolated: Isolated, known: Collection[str]
) -> set[str]:
    """Return the names of the clusters that have roles of their own, but for those known."""
    iam = aws.client("iam")
    expected = {
        role_name(workspace, role, isolated.role_name_prefix, cluster)
        for cluster in known
        for role in ROLES
    }
    roles = listed(iam, "list_roles", "Roles", PathPrefix=isolated.role_path)
    names = {role["RoleName"] for role in roles} - expected
    # The list has no tags.
    return clusters_of(
        _answers([partial(find_in_iam, iam, "aws_iam_role", name) for name in sorted(names)]),
        workspace,
    )


def find_security_groups(aws: Aws, *, workspace: str) -> list[Resource]:
    """Return the security groups of a workspace's network, and their rules."""
    client, owner = aws.client("ec2"), Owner(workspace)
    groups = [
        group for group in find_in_ec2(client, "aws_security_group", owner) if owner.owns(group)
    ]
    return [*groups, *find_rules_in(aws, groups)]


def find_rules_in(aws: Aws, resources: Iterable[Resource]) -> list[Resource]:
    """Return the rules of the security groups among resources, with and without our tags."""
    groups = [group.id for group in of_type(resources, "aws_security_group")]
    return find_rules(aws, "group-id", groups) if groups else []


def find_rules(aws: Aws, identity: str, values: Sequence[str]) -> list[Resource]:
    """Return the rules of security groups by a filter."""
    ec2, filters = aws.client("ec2"), [{"Name": identity, "Values": list(values)}]
    return [
        Resource(
            EGRESS_RULE if rule["IsEgress"] else INGRESS_RULE,
            rule["SecurityGroupRuleId"],
            tags_of(rule.get("Tags")),
            rule,
        )
        for rule in listed(
            ec2, "describe_security_group_rules", "SecurityGroupRules", Filters=filters
        )
    ]


def described(client: Any, kind: str, filters: Sequence[Mapping[str, Any]]) -> Iterator[Resource]:
    """Yield the EC2 resources of one kind that match filters."""
    method, listing, key = _IN_EC2[kind]
    # Flow logs spell it differently.
    argument = "Filter" if kind == "aws_flow_log" else "Filters"
    for item in listed(client, method, listing, **{argument: filters}):
        # Only interfaces have their tags under another key.
        yield Resource(kind, item[key], tags_of(item.get("Tags", item.get("TagSet"))), item)


def find_in_ec2(
    client: Any, kind: str, owner: Owner, *filters: Mapping[str, Any]
) -> list[Resource]:
    """Return EC2 resources of one kind with an owner's tags that match further filters."""
    found = described(client, kind, [*owner.filters, *filters])
    # A VPC's default group is deleted with the VPC.
    return [
        r
        for r in found
        if str(r.description.get("State")).lower() not in _ENDED
        and r.description.get("GroupName") != "default"
    ]


def find_everything_in_ec2(client: Any, workspace: str) -> list[Resource]:
    """Return a workspace's EC2 resources of all kinds but instances, whatever cluster's.

    Permission needed: ``ec2:Describe*``.
    """
    owner = Owner(workspace)
    found = _answers([partial(find_in_ec2, client, kind, owner) for kind in _IN_EC2])
    return [each for each in found if owner.tags.items() <= each.tags.items()]


def find_groups_and_secret(aws: Aws, owner: Owner) -> dict[str, Resource]:
    """Return a cluster's groups and secret, by their names and tags: address -> resource.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:DescribeSecret``.
    """
    scaling, cluster = aws.client("autoscaling"), str(owner.cluster)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(find_secret, aws.client("secretsmanager"), owner)
        groups = dict(tagged_groups(scaling, workspace=owner.workspace, cluster=cluster))
        secret = found.result()
    return {
        **{f"{AUTOSCALING_GROUP}.{name}": _group(group) for name, group in groups.items()},
        **({} if secret is None else {SECRET_ADDRESS: secret}),
    }


def find_groups(client: Any, **question: Any) -> list[Resource]:
    """Return Auto Scaling groups, by filters or by names."""
    return [_group(group) for group in listed_groups(client, **question)]


def _group(group: Mapping[str, Any]) -> Resource:
    tags = tags_of(group.get("Tags"))
    return Resource(AUTOSCALING_GROUP, group["AutoScalingGroupName"], tags, group)


def find_secrets(client: Any, *, workspace: str, **options: bool) -> list[Resource]:
    """Return a workspace's secrets; the list is up to five minutes old, with deleted ones."""
    filters = [{"Key": "name", "Values": [secrets_prefix(workspace)]}]
    return [
        Resource(SECRET, one["Name"], tags_of(one.get("Tags")), one)
        for one in listed(client, "list_secrets", "SecretList", Filters=filters, **options)
    ]


def find_secret(client: Any, owner: Owner) -> Resource | None:
    """Return a cluster's secret if it exists with its tags, and isn't to be deleted."""
    found = describe_secret(client, secret_id(owner.workspace, str(owner.cluster)))
    if found is None or not owner.owns(found) or found.description.get("DeletedDate"):
        return None
    return found


def describe_secret(client: Any, name: str) -> Resource | None:
    """Return the secret of this name, if there is one; also one that is to be deleted."""
    with unless("ResourceNotFoundException"):
        answer = client.describe_secret(SecretId=name)
        return Resource(SECRET, name, tags_of(answer.get("Tags")), answer)
    return None


def _answers(searches: Sequence[_Search]) -> list[Resource]:
    """Make all calls in parallel."""
    return [resource for answer in side_by_side(searches, 8) for resource in answer]


def _placement_groups(client: Any, owner: Owner) -> list[Resource]:
    try:
        return find_in_ec2(client, _PLACEMENT, owner)
    except AccessDenied:
        # An older caller policy without this permission: such a caller can't have created any.
        return []
