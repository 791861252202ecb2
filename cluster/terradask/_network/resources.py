"""What there is in AWS of a workspace's network, whether a state of Terraform's knows it or not.

When Terraform is interrupted, or killed, AWS may have made what was asked for last, and the answer never arrived. It is found again by the
workspace's tag, which everything is born with, or, for the bucket, which isn't, by a name that only this workspace can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._account.aws import Aws

#: Terraform's type -> boto3's method, where its answer lists them, what identifies one.
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
}

#: Looked for only where they are configured: who plans a network without them may not be allowed to.
_OPTIONAL = frozenset({"aws_egress_only_internet_gateway", "aws_flow_log"})

#: Gateways and endpoints are described for a while after their end.
_ENDED = frozenset({"deleted", "deleting", "failed"})


@dataclass(frozen=True)
class Resource:
    """One resource.

    Parameters
    ----------
    type
        What Terraform calls its kind.
    id
        Its id, as Terraform's state and ``terraform import`` have it: AWS's id, or the name of what has none.
    tags
        Its tags.
    description
        What AWS says of it.
    """

    type: str
    id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)


def find_security_groups(aws: Aws, *, workspace: str) -> list[Resource]:
    """Return the security groups of a workspace's network, and their rules as resources of the type ``aws_vpc_security_group_rule``.

    Notes
    -----
    Permissions needed: ``ec2:DescribeSecurityGroups``, ``ec2:DescribeSecurityGroupRules``.
    """
    client = aws.client("ec2")
    with aws.explained():
        groups = [group for group in _in_ec2(client, "aws_security_group", workspace) if _is_ours(group, workspace)]
    return [*groups, *find_rules(aws, groups)]


def find_network(aws: Aws, *, workspace: str, bucket: str, configuration: Mapping[str, Any]) -> list[Resource]:
    """Return everything of a workspace's network that exists: what carries its tag and no cluster's, and its bucket.

    What belongs to another resource and goes with it is left out: routes, rules, policies.

    Parameters
    ----------
    aws
        Session for the workspace's account and region.
    workspace, bucket
        Names.
    configuration
        The network's ``cdk.tf.json``: roles, instance profiles and log groups are found by the names in it.

    Notes
    -----
    Permissions needed: ``ec2:Describe*``, ``iam:GetRole``, ``iam:GetInstanceProfile``, ``logs:DescribeLogGroups``,
    ``logs:ListTagsForResource``, ``s3:ListBucket``, ``s3:GetBucketTagging``.
    """
    # Clients are made here: boto3's sessions are not safe while they make one.
    ec2, iam, logs, s3 = (aws.client(service) for service in ("ec2", "iam", "logs", "s3"))
    configured = configuration.get("resource", {})
    kinds = [kind for kind in _IN_EC2 if kind not in _OPTIONAL or kind in configured]
    searches: list[Callable[[], Sequence[Resource]]] = [partial(_in_ec2, ec2, kind, workspace) for kind in kinds]
    for kind, client, find in (
        ("aws_iam_role", iam, _role),
        ("aws_iam_instance_profile", iam, _instance_profile),
        ("aws_cloudwatch_log_group", logs, _log_group),
    ):
        searches += [partial(find, client, block["name"]) for block in configured.get(kind, {}).values()]
    searches.append(partial(_bucket, s3, bucket, aws.account_id))
    with aws.explained(), ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda search: search(), searches))
    return [resource for answer in answers for resource in answer if _is_ours(resource, workspace)]


def find_rules(aws: Aws, resources: Sequence[Resource]) -> list[Resource]:
    """Return the rules of the security groups among resources, as resources of the type ``aws_vpc_security_group_rule``.

    Notes
    -----
    Permission needed: ``ec2:DescribeSecurityGroupRules``.
    """
    groups = [group.id for group in of_type(resources, "aws_security_group")]
    if not groups:
        return []
    pages = aws.client("ec2").get_paginator("describe_security_group_rules")
    with aws.explained():
        return [
            Resource("aws_vpc_security_group_rule", rule["SecurityGroupRuleId"], _tags(rule), rule)
            for page in pages.paginate(Filters=[{"Name": "group-id", "Values": groups}])
            for rule in page["SecurityGroupRules"]
        ]


def _is_ours(resource: Resource, workspace: str) -> bool:
    if resource.type == "aws_s3_bucket" and not resource.tags:
        # Buckets are tagged after they are made. The name has the account's number, and S3 was asked who owns it.
        return True
    return resource.tags.get(TAG_WORKSPACE) == workspace and TAG_CLUSTER not in resource.tags


def _in_ec2(client: Any, kind: str, workspace: str) -> list[Resource]:
    method, listing, key = _IN_EC2[kind]
    # EC2 spells it otherwise for flow logs alone.
    argument = "Filter" if kind == "aws_flow_log" else "Filters"
    answer = getattr(client, method)(**{argument: [{"Name": f"tag:{TAG_WORKSPACE}", "Values": [workspace]}]})
    found = (Resource(kind, item[key], _tags(item), item) for item in answer[listing])
    # A VPC's default group ends with the VPC.
    return [r for r in found if str(r.description.get("State")).lower() not in _ENDED and r.description.get("GroupName") != "default"]


def _role(client: Any, name: str) -> list[Resource]:
    try:
        role = client.get_role(RoleName=name)["Role"]
    except client.exceptions.NoSuchEntityException:
        return []
    return [Resource("aws_iam_role", name, _tags(role), role)]


def _instance_profile(client: Any, name: str) -> list[Resource]:
    try:
        profile = client.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    except client.exceptions.NoSuchEntityException:
        return []
    return [Resource("aws_iam_instance_profile", name, _tags(profile), profile)]


def _log_group(client: Any, name: str) -> list[Resource]:
    groups = client.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return [
        Resource("aws_cloudwatch_log_group", name, client.list_tags_for_resource(resourceArn=_plain_arn(group["arn"]))["tags"], group)
        for group in groups
        if group["logGroupName"] == name
    ]


def _bucket(client: Any, name: str, account: str) -> list[Resource]:
    from botocore.exceptions import ClientError

    try:
        client.head_bucket(Bucket=name, ExpectedBucketOwner=account)
    except ClientError as error:
        # Forbidden: somebody else's, which Terraform will say when it shall make one of this name.
        if error.response["Error"]["Code"] in {"NoSuchBucket", "404", "403"}:
            return []
        raise
    try:
        tags = client.get_bucket_tagging(Bucket=name, ExpectedBucketOwner=account)["TagSet"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchTagSet":
            raise
        tags = []
    return [Resource("aws_s3_bucket", name, _tags({"Tags": tags}))]


def _tags(item: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in item.get("Tags") or ()}


def _plain_arn(arn: str) -> str:
    # Logs describes a group with the ARN of everything in it, and takes tags by the group's own.
    return arn.removesuffix(":*")


def of_type(resources: Sequence[Resource], *types: str) -> Iterator[Resource]:
    """Return those of some types."""
    return (resource for resource in resources if resource.type in types)
