"""What comparing AWS's quotas with the settings, or with one launch, needs, and asking for more."""

from __future__ import annotations

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow

#: Services that have quotas which a workspace can reach.
_SERVICES = ("autoscaling", "ebs", "ec2", "vpc")


def see_quotas(scope: CallerScope, *, request: bool = False) -> list[Statement]:
    """Return what ``terradask quotas`` needs, and with `request` what ``--request`` needs."""
    asking = ["servicequotas:RequestServiceQuotaIncrease"] if request else []
    return [
        # Service Quotas asks Auto Scaling for its limits in the caller's name.
        allow(
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
            "*",
            scope.in_region,
        ),
        allow(
            "AskForQuotas" if request else "SeeQuotas",
            ["servicequotas:GetServiceQuota", *asking],
            _quotas(scope),
        ),
    ]


def see_vcpu_quotas(scope: CallerScope) -> list[Statement]:
    """Return what looking at quotas of vCPUs before a launch needs, beside seeing
    instance types.
    """
    return [
        # Describe calls know no resources.
        allow(
            "SeeUseOfVcpus",
            ["ec2:DescribeInstances", "servicequotas:GetAWSDefaultServiceQuota"],
            "*",
            scope.in_region,
        ),
        allow(
            "SeeVcpuQuotas",
            "servicequotas:GetServiceQuota",
            scope.where.arn("servicequotas", "ec2/*"),
        ),
    ]


def _quotas(scope: CallerScope) -> list[str]:
    return [scope.where.arn("servicequotas", f"{service}/*") for service in _SERVICES]
