"""Actions by the kind of what they make or change: the network, and clusters with things of their
own, need the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable

#: What EC2 makes, by kind: how.
MADE_ALONE = {
    "elastic-ip": "AllocateAddress",
    "internet-gateway": "CreateInternetGateway",
    "launch-template": "CreateLaunchTemplate",
    "vpc": "CreateVpc",
}
#: Made within a VPC; the request names nothing else.
MADE_IN_VPC = {
    "egress-only-internet-gateway": "CreateEgressOnlyInternetGateway",
    "route-table": "CreateRouteTable",
    "security-group": "CreateSecurityGroup",
    "subnet": "CreateSubnet",
    "vpc-flow-log": "CreateFlowLogs",
}
#: Made of other resources of the network.
MADE_OF_OTHERS = {"natgateway": "CreateNatGateway", "vpc-endpoint": "CreateVpcEndpoint"}
#: By which rules of a security group are made.
RULES = ("AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress")
#: What is done to it afterwards.
CHANGES = {
    "egress-only-internet-gateway": ("DeleteEgressOnlyInternetGateway",),
    "elastic-ip": ("DisassociateAddress", "ReleaseAddress"),
    "internet-gateway": ("AttachInternetGateway", "DeleteInternetGateway", "DetachInternetGateway"),
    "launch-template": (
        "CreateLaunchTemplateVersion",
        "DeleteLaunchTemplate",
        "ModifyLaunchTemplate",
    ),
    "natgateway": ("DeleteNatGateway",),
    "route-table": (
        "AssociateRouteTable",
        "CreateRoute",
        "DeleteRoute",
        "DeleteRouteTable",
        "DisassociateRouteTable",
        "ReplaceRoute",
    ),
    "security-group": (
        *RULES,
        "DeleteSecurityGroup",
        "ModifySecurityGroupRules",
        "RevokeSecurityGroupEgress",
        "RevokeSecurityGroupIngress",
    ),
    "subnet": ("DeleteSubnet",),
    "vpc": ("DeleteVpc", "ModifyVpcAttribute"),
    "vpc-endpoint": ("DeleteVpcEndpoints", "ModifyVpcEndpoint"),
    "vpc-flow-log": ("DeleteFlowLogs",),
}
#: What is done to a network that has, gets or loses IPv6 addresses.
DUAL_STACK_CHANGES = {
    "subnet": ("AssociateSubnetCidrBlock", "DisassociateSubnetCidrBlock", "ModifySubnetAttribute"),
    "vpc": ("AssociateVpcCidrBlock", "DisassociateVpcCidrBlock"),
}

SEE_ROLES = (
    "iam:GetRole",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
)
#: What a role's permissions boundary can be a condition of.
MAKE_ROLES = (
    "iam:CreateRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:PutRolePolicy",
)
#: The same, where a boundary is demanded: it can be put on a role, and there is no right to take it
#: away.
MAKE_BOUNDED_ROLES = (
    "iam:CreateRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:PutRolePermissionsBoundary",
    "iam:PutRolePolicy",
)
TAG_AND_REMOVE_ROLES = (
    "iam:DeleteRole",
    "iam:ListInstanceProfilesForRole",
    "iam:TagRole",
    "iam:UntagRole",
)
KEEP_INSTANCE_PROFILES = (
    "iam:AddRoleToInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:DeleteInstanceProfile",
    "iam:RemoveRoleFromInstanceProfile",
    "iam:TagInstanceProfile",
    "iam:UntagInstanceProfile",
)


def of_ec2(actions: Iterable[str]) -> list[str]:
    """Return EC2's actions in order, as policies name them."""
    return sorted(f"ec2:{action}" for action in actions)
