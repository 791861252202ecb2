"""Rights to see a network and plan it without changes; and rights on quotas."""

from __future__ import annotations

from terradask_modules.caller_policies._by_kind import (
    SEE_ROLES,
    by_settings,
    of_ec2,
    see_always,
    see_in_ec2,
)
from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, one_or_many
from terradask_modules.kinds import KINDS
from terradask_modules.names import SOFTWARE

#: Services with quotas that a workspace can reach.
_SERVICES = ("autoscaling", "ebs", "ec2", "vpc")

#: Destinations of hosts are checked before a plan.
_SEE_DESTINATIONS = ("DescribeManagedPrefixLists", "DescribeVpcPeeringConnections")


def read_network(scope: CallerScope) -> list[Statement]:
    """Return the rights to plan the network without changing it."""
    optional = [
        *of_ec2(see_in_ec2(kind for kind in KINDS.values() if kind.setting and scope.has(kind))),
        *(["ec2:DescribeVpcEndpointServices"] if scope.interface_endpoints else []),
        *(of_ec2(_SEE_DESTINATIONS) if scope.egress else []),
    ]
    return [
        scope.see(
            "SeeNetwork",
            [
                *optional,
                *of_ec2(
                    [
                        *see_always(),
                        "DescribeAddressesAttribute",
                        "DescribeAvailabilityZones",
                        "DescribeImages",
                        "DescribeLaunchTemplateVersions",
                        "DescribeNetworkAcls",
                        "DescribeNetworkInterfaces",
                        "DescribePrefixLists",
                        "DescribeSecurityGroupRules",
                        "DescribeVpcAttribute",
                    ]
                ),
                "logs:DescribeLogGroups",
            ],
        ),
        allow(
            "FindNewestImage",
            "ssm:GetParameter",
            [
                scope.where.aws_arn("ssm", f"parameter/aws/service/{of}/*")
                for of in ("ami-amazon-linux-latest", "deeplearning/ami")
            ],
        ),
        allow(
            "SeeRoles",
            list(SEE_ROLES),
            scope.asked_for([*scope.roles, *scope.writers]),
        ),
        allow(
            "SeeInstanceProfiles",
            "iam:GetInstanceProfile",
            scope.asked_for(scope.instance_profiles),
        ),
        *_see_boundary(scope),
        *_see_task_policies(scope),
        see_service_roles(scope),
        allow("SeeTagsOfLogGroups", "logs:ListTagsForResource", scope.log_groups),
        allow(
            "SeeBucket",
            [
                "s3:GetAccelerateConfiguration",
                "s3:GetBucketAcl",
                "s3:GetBucketCORS",
                "s3:GetBucketLogging",
                "s3:GetBucketObjectLockConfiguration",
                "s3:GetBucketOwnershipControls",
                "s3:GetBucketPolicy",
                "s3:GetBucketPublicAccessBlock",
                "s3:GetBucketRequestPayment",
                "s3:GetBucketTagging",
                "s3:GetBucketVersioning",
                "s3:GetBucketWebsite",
                "s3:GetEncryptionConfiguration",
                "s3:GetLifecycleConfiguration",
                "s3:GetReplicationConfiguration",
                "s3:ListBucket",
            ],
            scope.bucket,
        ),
        allow(
            "SeeObjectsOfNetwork",
            ["s3:GetObject", "s3:GetObjectTagging"],
            [
                f"{scope.bucket}/applied/network.json",
                f"{scope.bucket}/host/*",
                f"{scope.bucket}/{SOFTWARE}*",
                f"{scope.bucket}/workspace.json",
            ],
        ),
        *by_settings(scope, "see"),
        *_check_key(scope),
    ]


def _see_boundary(scope: CallerScope) -> list[Statement]:
    if scope.made_boundary is not None:
        return [
            allow("SeeBoundary", ["iam:GetPolicy", "iam:GetPolicyVersion"], scope.made_boundary)
        ]
    # A given boundary is only read; where tasks have rights, compared with these.
    if scope.permissions_boundary is None:
        return []
    compared = scope.hosts.data_buckets or scope.hosts.task_rights
    reading = ["iam:GetPolicy", *(["iam:GetPolicyVersion"] if compared else [])]
    return [allow("SeeBoundary", one_or_many(reading), scope.permissions_boundary)]


def _see_task_policies(scope: CallerScope) -> list[Statement]:
    if not scope.task_policies:
        return []
    # Each plan checks what they allow.
    reading = ["iam:GetPolicy", "iam:GetPolicyVersion"]
    return [allow("SeePoliciesOfTasks", reading, one_or_many(scope.task_policies))]


def see_service_roles(scope: CallerScope) -> Statement:
    """Return the right to see whether the service-linked roles exist."""
    return allow("SeeServiceRoles", "iam:GetRole", scope.asked_for(scope.service_roles))


def see_zones(scope: CallerScope) -> Statement:
    """Return the right by which `terradask doctor` checks that the region answers."""
    return scope.see("SeeZones", "ec2:DescribeAvailabilityZones")


def see_prices() -> Statement:
    """Return the right to read prices.

    The price list of every region is in a few of them, so no region limits it.
    """
    return allow("SeePrices", "pricing:GetProducts", "*")


def _check_key(scope: CallerScope) -> list[Statement]:
    key = scope.hosts.kms_key_arn
    if key is None:
        return []
    return [
        allow("CheckKeyOfVolumes", ["kms:DescribeKey", "kms:GetKeyPolicy", "kms:ListGrants"], key)
    ]


# ---- quotas --------------------------------------------------------------------------------------


def see_quotas(scope: CallerScope, *, request: bool = False) -> list[Statement]:
    """Return the rights for ``terradask quotas``, and with `request` for ``--request``."""
    asking = ["servicequotas:RequestServiceQuotaIncrease"] if request else []
    return [
        # AWS (believed): Service Quotas reads Auto Scaling's limits in the
        # caller's name, by DescribeAccountLimits.
        scope.see(
            "SeeUseOfQuotas",
            [
                "autoscaling:DescribeAccountLimits",
                "autoscaling:DescribeAutoScalingGroups",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeInstances",
                "ec2:DescribeVolumes",
                "servicequotas:GetAWSDefaultServiceQuota",
                "servicequotas:ListRequestedServiceQuotaChangeHistory",
            ],
        ),
        allow(
            "AskForQuotas" if request else "SeeQuotas",
            ["servicequotas:GetServiceQuota", *asking],
            [scope.where.arn("servicequotas", f"{service}/*") for service in _SERVICES],
        ),
    ]


def see_vcpu_quotas(scope: CallerScope) -> list[Statement]:
    """Return the rights to read vCPU quotas before a launch, beside seeing instance types."""
    return [
        scope.see(
            "SeeUseOfVcpus",
            ["ec2:DescribeInstances", "servicequotas:GetAWSDefaultServiceQuota"],
        ),
        allow(
            "SeeVcpuQuotas",
            "servicequotas:GetServiceQuota",
            scope.where.arn("servicequotas", "ec2/*"),
        ),
    ]
