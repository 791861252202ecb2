"""Read Auto Scaling groups in AWS's descriptions: owner, state and outdated prepared hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed_groups
from terradask._aws.tags import as_text, found_tags, tag_filters, tags_of
from terradask.errors import ClusterError, ForeignResources
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE, group_name, is_template_of

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

    from terradask._aws.session import Aws

#: Of an ended instance; the last also of a leaving one. AWS (asg-protection)
_LEFT = ("not found", "not part of", "not in inservice")


def tagged_groups(
    client: Any, *, workspace: str, cluster: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a cluster's groups, found by its tags: the cluster's name for it, AWS's description."""
    tags = {TAG_WORKSPACE: workspace, TAG_CLUSTER: cluster}
    begins = group_name(workspace, cluster, "")
    for group in listed_groups(client, Filters=tag_filters(tags)):
        name = group["AutoScalingGroupName"]
        if name.startswith(begins) and tags.items() <= tags_of(group.get("Tags")).items():
            yield name.removeprefix(begins), group


def groups_gone(cluster: str, groups: Iterable[str]) -> ClusterError:
    """Return the error for groups that no longer exist."""
    return ClusterError(
        f"Groups of cluster {cluster!r} no longer exist: it was destroyed, deployed with other "
        "groups, or they were deleted by hand.",
        cluster=cluster,
        given=", ".join(sorted(groups)),
        advice=(
            f"terradask list shows whether it is deployed; terradask apply {cluster} makes its "
            "groups again: then attach to it again"
        ),
    )


def is_untagged(found: Mapping[str, Any], expected: Mapping[str, str]) -> bool:
    """Return whether a group under a cluster's name belongs to the cluster and has lost its tags:
    it has none of the expected tags, and launches from the workspace's or the cluster's template.
    """
    if not expected.keys().isdisjoint(tags_of(found.get("Tags"))):
        return False
    policy = _policy(found)
    if any(each.get("LaunchTemplateSpecification") for each in policy.get("Overrides", ())):
        return False
    name = _template(found).get("LaunchTemplateName", "")
    return is_template_of(name, expected[TAG_WORKSPACE], expected[TAG_CLUSTER])


def _policy(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}


def _template(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a group's launch template; a group in a capacity block has no policy."""
    return _policy(group).get("LaunchTemplateSpecification") or group.get("LaunchTemplate") or {}


def foreign_groups(
    cluster: str, found: Mapping[str, Mapping[str, str]], expected: Mapping[str, str]
) -> ForeignResources:
    """Return the error for groups, AWS's name -> tags, that aren't the cluster's."""
    return ForeignResources(
        f"An Auto Scaling group under the name of cluster {cluster!r} isn't this cluster's; "
        "nothing was changed.",
        cluster=cluster,
        resources=[
            {"type": "aws_autoscaling_group", "id": name, "why": found_tags(tags, expected)}
            for name, tags in found.items()
        ],
        allowed=f"the tags {as_text(expected)}",
        advice=(
            "a group of another workspace: give the cluster another name; this cluster's own: "
            "restore its tags (aws autoscaling create-or-update-tags), and find who changed them"
        ),
    )


def tags_missing(cluster: str, name: str, expected: Mapping[str, str]) -> ClusterError:
    """Return the error for a group that the caller can't change, since its tags are missing."""
    return ClusterError(
        f"AWS refuses to change a group of cluster {cluster!r}: its tags were removed, and "
        "callers' permissions depend on them.",
        cluster=cluster,
        given=f"Auto Scaling group {name}",
        allowed=f"the tags {as_text(expected)}",
        advice=(
            "an administrator of the account can restore them: aws autoscaling "
            f"create-or-update-tags, or terradask apply {cluster}; find out what removed them"
        ),
    )


def has_left(error: ClientError) -> bool:
    """Return whether AWS refuses because an instance is no longer in service in its group."""
    detail = error.response["Error"]
    text = detail.get("Message", "").lower()
    return detail.get("Code") == "ValidationError" and any(each in text for each in _LEFT)


# ---- prepared hosts: the warm pools of groups ----------------------------------------------------


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
        if _version(instance.get("LaunchTemplate") or {}) != _version(_template(group))
    ]
    if outdated:
        aws.client("ec2").terminate_instances(InstanceIds=outdated)
    return outdated


def _version(template: Mapping[str, Any]) -> tuple[Any, Any]:
    return template.get("LaunchTemplateId"), template.get("Version")
