"""Every type of resource that terradask makes or finds, and what it knows of each. Pure data.

The order is that in which they are made: each stands on earlier ones only. Resources are adopted in
this order, and deleted in the opposite one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Listed:
    """How EC2 lists it by tags: boto3's method, the key of the list, the key of the id."""

    call: str
    listing: str
    id: str

    @property
    def by_id(self) -> str:
        """The filter that finds it by its id; launch templates have none."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", self.id).lower()


@dataclass(frozen=True)
class Named:
    """How it is asked for where no list has tags: boto3's method, its parameter, the key of the
    answer; none where it takes more than a call.
    """

    call: str = ""
    argument: str = ""
    key: str = ""
    #: What is asked for, where that isn't the name; a path has slashes on both sides.
    arn: str = ""


@dataclass(frozen=True)
class Deletion:
    """How it is deleted: boto3's method, and its parameter for the id."""

    call: str
    argument: str
    _: KW_ONLY
    in_list: bool = False
    more: Mapping[str, bool] = field(default_factory=dict)
    #: `gone`, `in_use`: the codes by which AWS says so, beside those that many types have.
    gone: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()


@dataclass(frozen=True)
class Charge:
    """What AWS charges for one: what it is called, and what isn't in its price."""

    what: str = ""
    note: str | None = None
    #: The product of the price list that it is one of; None if it costs by its use alone, or
    #: nothing.
    product: Literal["nat-gateway", "public-ipv4", "secret"] | None = None


@dataclass(frozen=True)
class Rights:
    """What EC2 calls the actions on one."""

    #: Its type in ARNs.
    type: str
    make: str
    #: In or of what it is made: nothing else, a VPC, other resources of the network.
    within: Literal["nothing", "vpc", "others"]
    #: What is done to it afterwards, its deletion included.
    change: tuple[str, ...]
    #: The same, in a network that has, gets or loses IPv6 addresses.
    dual_stack: tuple[str, ...] = ()


#: Of what AWS doesn't charge for (https://aws.amazon.com/vpc/pricing,
#: https://aws.amazon.com/autoscaling/pricing, https://aws.amazon.com/iam), or charges for with the
#: bucket that it belongs to.
FREE = Charge()


@dataclass(frozen=True)
class ResourceKind:
    """One type of resource."""

    #: Terraform's name of it.
    terraform: str
    _: KW_ONLY
    #: boto3's name of its service.
    service: str = "ec2"
    #: None: as only this type is, or with what it is part of.
    find: Listed | Named | None = None
    #: Searched only where it is configured: the caller may lack the permission otherwise.
    is_optional: bool = False
    #: None: with what it is part of.
    delete: Deletion | None = None
    #: The type that it is deleted with, and the key of that one's id in its description.
    part_of: tuple[str, str] | None = None
    #: How `terradask._cleanup.adopt` finds one that a state lacks, to import it. None: not at all.
    adopt: str | None = None
    #: Its name among the orphans of a sweep.
    orphan: str = ""
    #: The key of its date in AWS; None if AWS has none.
    born: str | None = None
    #: None: not made by EC2, or not by a caller.
    rights: Rights | None = None
    #: None: it depends on its attributes, or isn't known.
    price: Charge | None = None
    #: Which clusters have their own: each can, those with own templates, isolated ones.
    clusters: Literal["each", "templates", "isolated"] | None = None
    #: Whether AWS makes it for an instance, and removes it with that.
    is_of_host: bool = False


def action_of(call: str) -> str:
    """Return the action of a method of boto3, as policies name it, without its service."""
    return call.title().replace("_", "")


def _in_ec2(
    terraform: str,
    noun: str = "",
    *,
    id: str = "",
    in_list: bool = False,
    gone: tuple[str, ...] = (),
    in_use: tuple[str, ...] = (),
    type: str = "",
    make: str = "",
    within: Literal["nothing", "vpc", "others"] | None = None,
    change: tuple[str, ...] = (),
    dual_stack: tuple[str, ...] = (),
    **more: Any,
) -> ResourceKind:
    """Return a kind whose calls and keys follow from its name, as most of EC2's do."""
    noun = noun or terraform.removeprefix("aws_")
    camel = noun.title().replace("_", "")
    id = id or f"{camel}Id"
    plural = "s" if in_list else ""
    delete = Deletion(
        f"delete_{noun}{plural}", id + plural, in_list=in_list, gone=gone, in_use=in_use
    )
    find = Listed(f"describe_{noun}s", f"{camel}s", id)
    rights = None
    if within is not None:
        changes = (action_of(delete.call), *change)
        rights = Rights(
            type or noun.replace("_", "-"), make or f"Create{camel}", within, changes, dual_stack
        )
    return ResourceKind(terraform, find=find, delete=delete, rights=rights, **more)


_KINDS = (
    # Deleted last: while it exists, the network can be found.
    ResourceKind(
        "aws_s3_bucket",
        service="s3",
        delete=Deletion(
            "delete_bucket", "Bucket", gone=("NoSuchBucket",), in_use=("BucketNotEmpty",)
        ),
        adopt="named",
        price=Charge("S3 storage", "by the GB and request"),
    ),
    ResourceKind("aws_s3_object", price=FREE),
    _in_ec2(
        "aws_vpc",
        adopt="vpc",
        within="nothing",
        change=("ModifyVpcAttribute",),
        dual_stack=("AssociateVpcCidrBlock", "DisassociateVpcCidrBlock"),
        price=FREE,
    ),
    _in_ec2(
        "aws_route_table",
        adopt="in_vpc",
        within="vpc",
        change=(
            "AssociateRouteTable",
            "CreateRoute",
            "DeleteRoute",
            "DisassociateRouteTable",
            "ReplaceRoute",
        ),
        price=FREE,
    ),
    ResourceKind("aws_route", adopt="route", price=FREE),
    _in_ec2(
        "aws_subnet",
        adopt="in_vpc",
        within="vpc",
        dual_stack=(
            "AssociateSubnetCidrBlock",
            "DisassociateSubnetCidrBlock",
            "ModifySubnetAttribute",
        ),
        price=FREE,
    ),
    ResourceKind("aws_route_table_association", adopt="association", price=FREE),
    _in_ec2(
        "aws_security_group",
        id="GroupId",
        adopt="security_group",
        orphan="security-group",
        within="vpc",
        change=(
            "AuthorizeSecurityGroupEgress",
            "AuthorizeSecurityGroupIngress",
            "ModifySecurityGroupRules",
            "RevokeSecurityGroupEgress",
            "RevokeSecurityGroupIngress",
        ),
        price=FREE,
        clusters="isolated",
    ),
    _in_ec2(
        "aws_ebs_volume",
        "volume",
        is_optional=True,
        orphan="volume",
        born="CreateTime",
        is_of_host=True,
    ),
    _in_ec2("aws_network_interface", is_optional=True, orphan="network-interface", is_of_host=True),
    _in_ec2(
        "aws_egress_only_internet_gateway",
        is_optional=True,
        adopt="in_vpc",
        within="vpc",
        price=FREE,
    ),
    _in_ec2(
        "aws_internet_gateway",
        gone=("Gateway.NotAttached",),
        adopt="in_vpc",
        within="nothing",
        change=("AttachInternetGateway", "DetachInternetGateway"),
        price=FREE,
    ),
    ResourceKind(
        "aws_eip",
        find=Listed("describe_addresses", "Addresses", "AllocationId"),
        # EC2 returns ``AuthFailure`` for an address whose NAT gateway is still being deleted.
        delete=Deletion(
            "release_address", "AllocationId", in_use=("InvalidIPAddress.InUse", "AuthFailure")
        ),
        adopt="tagged",
        rights=Rights(
            "elastic-ip", "AllocateAddress", "nothing", ("DisassociateAddress", "ReleaseAddress")
        ),
        price=Charge("public IPv4 address", product="public-ipv4"),
    ),
    ResourceKind(
        "aws_sns_topic",
        service="sns",
        find=Named(arn="arn:{partition}:sns:{region}:{account}:{name}"),
        delete=Deletion("delete_topic", "TopicArn"),
        adopt="named",
        price=Charge("messages of ends", "by the message and mail"),
    ),
    ResourceKind("aws_sns_topic_subscription", price=FREE),
    ResourceKind(
        "aws_cloudwatch_log_group",
        service="logs",
        find=Named(),
        delete=Deletion("delete_log_group", "logGroupName"),
        adopt="named",
        price=Charge("logs", "by the GB taken in and kept"),
    ),
    # A role's boundary.
    ResourceKind(
        "aws_iam_policy",
        service="iam",
        find=Named(
            "get_policy", "PolicyArn", "Policy", "arn:{partition}:iam::{account}:policy{path}{name}"
        ),
        delete=Deletion("delete_policy", "PolicyArn"),
        adopt="named",
        price=FREE,
    ),
    ResourceKind(
        "aws_iam_role",
        service="iam",
        find=Named("get_role", "RoleName", "Role"),
        delete=Deletion("delete_role", "RoleName"),
        adopt="named",
        orphan="role",
        price=FREE,
        born="CreateDate",
        clusters="isolated",
    ),
    ResourceKind(
        "aws_iam_role_policy",
        service="iam",
        delete=Deletion("delete_role_policy", "PolicyName"),
        part_of=("aws_iam_role", "RoleName"),
        price=FREE,
        clusters="isolated",
    ),
    ResourceKind(
        "aws_iam_instance_profile",
        service="iam",
        find=Named("get_instance_profile", "InstanceProfileName", "InstanceProfile"),
        delete=Deletion("delete_instance_profile", "InstanceProfileName"),
        adopt="named",
        orphan="instance-profile",
        price=FREE,
        born="CreateDate",
        clusters="isolated",
    ),
    _in_ec2(
        "aws_placement_group",
        id="GroupName",
        is_optional=True,
        gone=("InvalidPlacementGroup.Unknown",),
        in_use=("InvalidPlacementGroup.InUse",),
        orphan="placement-group",
        within="nothing",
        price=FREE,
        clusters="each",
    ),
    _in_ec2(
        "aws_launch_template",
        adopt="named",
        orphan="launch-template",
        within="nothing",
        change=("CreateLaunchTemplateVersion", "ModifyLaunchTemplate"),
        price=FREE,
        born="CreateTime",
        clusters="templates",
    ),
    _in_ec2(
        "aws_vpc_endpoint",
        in_list=True,
        adopt="in_vpc",
        within="others",
        change=("ModifyVpcEndpoint",),
    ),
    _in_ec2(
        "aws_flow_log",
        in_list=True,
        is_optional=True,
        adopt="flow_log",
        type="vpc-flow-log",
        make="CreateFlowLogs",
        within="vpc",
        price=Charge("flow logs", "by the GB"),
    ),
    _in_ec2(
        "aws_nat_gateway",
        gone=("NatGatewayNotFound",),
        adopt="in_vpc",
        type="natgateway",
        within="others",
        price=Charge("NAT gateway", "and each GB that goes through it", "nat-gateway"),
    ),
    ResourceKind(
        "aws_vpc_security_group_egress_rule",
        delete=Deletion("revoke_security_group_egress", "SecurityGroupRuleIds", in_list=True),
        part_of=("aws_security_group", "GroupId"),
        adopt="rule",
        price=FREE,
        clusters="isolated",
    ),
    ResourceKind(
        "aws_vpc_security_group_ingress_rule",
        delete=Deletion("revoke_security_group_ingress", "SecurityGroupRuleIds", in_list=True),
        part_of=("aws_security_group", "GroupId"),
        adopt="rule",
        price=FREE,
        clusters="isolated",
    ),
    ResourceKind(
        "aws_secretsmanager_secret",
        service="secretsmanager",
        # At once, even if it is scheduled for deletion: its name can then be used again.
        delete=Deletion("delete_secret", "SecretId", more={"ForceDeleteWithoutRecovery": True}),
        orphan="secret",
        price=Charge("secret", "and each call", "secret"),
        born="CreatedDate",
    ),
    ResourceKind(
        "aws_autoscaling_group",
        service="autoscaling",
        # With its instances.
        delete=Deletion(
            "delete_auto_scaling_group", "AutoScalingGroupName", more={"ForceDelete": True}
        ),
        orphan="group",
        born="CreatedTime",
    ),
)

#: Terraform's type -> its kind; each after those that it stands on.
KINDS: dict[str, ResourceKind] = {kind.terraform: kind for kind in _KINDS}
