"""Prepared hosts of a cluster: the warm pools of its groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from terradask._aws.group_facts import tagged_groups

if TYPE_CHECKING:
    from terradask._aws.session import Aws

__all__ = ["end_outdated"]


def end_outdated(aws: Aws, *, workspace: str, cluster: str) -> list[str]:
    """Terminate the prepared hosts of another launch template than their group's; return their ids.

    AWS prepares new ones.

    AWS (documented): A changed launch template doesn't affect instances that are in a warm pool.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``; for a group with a pool also
    ``DescribeWarmPool``, and ``ec2:TerminateInstances`` on the cluster's instances.
    """
    client = aws.client("autoscaling")
    outdated = [
        instance["InstanceId"]
        for _, group in tagged_groups(client, workspace=workspace, cluster=cluster)
        if group.get("WarmPoolConfiguration")
        for page in client.get_paginator("describe_warm_pool").paginate(
            AutoScalingGroupName=group["AutoScalingGroupName"]
        )
        for instance in page["Instances"]
        if _version(instance.get("LaunchTemplate")) != _version(_template_of(group))
    ]
    if outdated:
        aws.client("ec2").terminate_instances(InstanceIds=outdated)
    return outdated


def _template_of(group: Mapping[str, Any]) -> Mapping[str, Any] | None:
    policy = group.get("MixedInstancesPolicy") or {}
    found: Mapping[str, Any] | None = (policy.get("LaunchTemplate") or {}).get(
        "LaunchTemplateSpecification"
    )
    return found


def _version(template: Mapping[str, Any] | None) -> tuple[Any, Any]:
    template = template or {}
    return template.get("LaunchTemplateId"), template.get("Version")
