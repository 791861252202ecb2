"""What an interruption can leave of a cluster that no state knows.

When Terraform is interrupted, the provider drops the request that is under way; AWS may have done what it asked for all the same. Then a
group or a secret is there under the cluster's name, and the state doesn't have it: it stands in the way of the next attempt, and no
``terraform destroy`` removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from terradask._aws.autoscaling import tagged_groups
from terradask.errors import ClusterError
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE, secret_id, secrets_prefix

if TYPE_CHECKING:
    from terradask._aws.session import Aws

_GROUP = "aws_autoscaling_group"
_SECRET = "aws_secretsmanager_secret"  # noqa: S105  a type of Terraform's


@dataclass(frozen=True)
class Stray:
    """A resource of the cluster's that exists.

    Parameters
    ----------
    address
        What Terraform would call it.
    name
        Its name in AWS.
    busy
        Whether it has, or is to have, instances.
    """

    address: str
    name: str
    busy: bool = False


def existing(aws: Aws, *, workspace: str, cluster: str) -> list[Stray]:
    """Return the groups that carry a cluster's tags, and the secret that exists under its name with them.

    Notes
    -----
    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``, ``secretsmanager:DescribeSecret``.
    """
    # Clients are made here: boto3's sessions are not safe while they make one.
    scaling, secrets = aws.client("autoscaling"), aws.client("secretsmanager")
    tags = {TAG_WORKSPACE: workspace, TAG_CLUSTER: cluster}
    with aws.explained(), ThreadPoolExecutor(2) as pool:
        groups = pool.submit(_groups, scaling, workspace, cluster)
        secret = pool.submit(_secret, secrets, workspace, cluster, tags)
        return [*groups.result(), *secret.result()]


def clusters(aws: Aws, *, workspace: str) -> set[str]:
    """Return the names of the clusters of which a group or a secret exists, by their tags.

    Notes
    -----
    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``, ``secretsmanager:ListSecrets``, ``secretsmanager:DescribeSecret``.
    """
    scaling, secrets = aws.client("autoscaling"), aws.client("secretsmanager")
    with aws.explained():
        groups = scaling.get_paginator("describe_auto_scaling_groups").paginate(
            Filters=[{"Name": f"tag:{TAG_WORKSPACE}", "Values": [workspace]}]
        )
        found = [_tags(group) for page in groups for group in page["AutoScalingGroups"] if not group.get("Status")]
        names = {tags[TAG_CLUSTER] for tags in found if tags.get(TAG_WORKSPACE) == workspace and TAG_CLUSTER in tags}
        keys = secrets.get_paginator("list_secrets").paginate(Filters=[{"Key": "name", "Values": [secrets_prefix(workspace)]}])
        listed = {secret["Name"].removeprefix(secrets_prefix(workspace)) for page in keys for secret in page["SecretList"]}
        # The list is up to five minutes old, and shows what is deleted.
        return names | {name for name in listed - names if _secret(secrets, workspace, name, {TAG_WORKSPACE: workspace, TAG_CLUSTER: name})}


def among(found: Iterable[Stray], addresses: Iterable[str]) -> list[Stray]:
    """Return those that are to be created, though they exist."""
    wanted = set(addresses)
    return [stray for stray in found if stray.address in wanted]


def remove(aws: Aws, strays: Iterable[Stray], *, cluster: str, force: bool) -> None:
    """Remove strays.

    Raises
    ------
    ClusterError
        Naming the group.

    Notes
    -----
    Permissions needed: ``autoscaling:DeleteAutoScalingGroup``, ``secretsmanager:DeleteSecret``.
    """
    strays = list(strays)
    busy = [stray.name for stray in strays if stray.busy]
    if busy and not force:
        raise ClusterError(
            f"groups of cluster {cluster!r} have instances, but Terraform's state doesn't know them: the state may have been lost",
            cluster=cluster,
            given=", ".join(busy),
            advice=f"terradask destroy {cluster} ends them; or restore clusters/{cluster}/terraform.tfstate from the bucket's versions",
        )
    with aws.explained():
        for stray in strays:
            if stray.address.startswith(_GROUP):
                aws.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=stray.name, ForceDelete=True)
            else:
                aws.client("secretsmanager").delete_secret(SecretId=stray.name, ForceDeleteWithoutRecovery=True)


def _groups(client: Any, workspace: str, cluster: str) -> list[Stray]:
    return [
        Stray(f"{_GROUP}.{name}", group["AutoScalingGroupName"], bool(group["DesiredCapacity"] or group["Instances"]))
        for name, group in tagged_groups(client, workspace=workspace, cluster=cluster)
    ]


def _secret(client: Any, workspace: str, cluster: str, tags: Mapping[str, str]) -> list[Stray]:
    name = secret_id(workspace, cluster)
    try:
        answer = client.describe_secret(SecretId=name)
    except client.exceptions.ResourceNotFoundException:
        return []
    if answer.get("DeletedDate") or not _has(answer.get("Tags"), tags):
        return []
    return [Stray(f"{_SECRET}.keys", name)]


def _has(found: Iterable[Mapping[str, Any]] | None, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= _tags({"Tags": found}).items()


def _tags(described: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in described.get("Tags") or ()}
