"""Leftovers of an interrupted cluster that no state knows: groups and a secret.

When Terraform is interrupted, the provider drops its current request, but AWS may have completed
it. Then a group or a secret exists under the cluster's name but not in the state: it blocks the
next attempt, and no ``terraform destroy`` removes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from terradask._aws.autoscaling import tagged_groups
from terradask._cleanup.delete import delete_resource
from terradask._cleanup.resources import AUTOSCALING_GROUP, SECRET, Owner, Resource, clusters_of
from terradask._cleanup.search import find_groups, find_secret, find_secrets
from terradask.errors import ClusterError
from terradask_modules.names import secrets_prefix

if TYPE_CHECKING:
    from terradask._aws.session import Aws


@dataclass(frozen=True)
class Leftover:
    """An existing resource of the cluster."""

    #: Its address in Terraform.
    address: str
    #: The resource in AWS.
    resource: Resource
    #: Whether it has instances, or a size above zero.
    busy: bool = False


def existing(aws: Aws, *, workspace: str, cluster: str) -> list[Leftover]:
    """Return the groups that carry a cluster's tags, and the secret under its name that carries
    them.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:DescribeSecret``.
    """
    scaling, secrets = aws.client("autoscaling"), aws.client("secretsmanager")
    with ThreadPoolExecutor(2) as pool:
        listed = pool.submit(
            lambda: list(tagged_groups(scaling, workspace=workspace, cluster=cluster))
        )
        secret = pool.submit(find_secret, secrets, Owner(workspace, cluster))
        groups = [
            Leftover(
                f"{AUTOSCALING_GROUP}.{name}",
                Resource(AUTOSCALING_GROUP, group["AutoScalingGroupName"]),
                bool(group["DesiredCapacity"] or group["Instances"]),
            )
            for name, group in listed.result()
        ]
        found = secret.result()
    return groups if found is None else [*groups, Leftover(f"{SECRET}.keys", found)]


def clusters(aws: Aws, *, workspace: str) -> set[str]:
    """Return the names of the clusters that have a group or a secret, by their tags.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``, ``secretsmanager:ListSecrets``,
    ``secretsmanager:DescribeSecret``.
    """
    scaling, secrets = aws.client("autoscaling"), aws.client("secretsmanager")
    names = clusters_of(find_groups(scaling, workspace=workspace), workspace)
    listed = {
        secret.id.removeprefix(secrets_prefix(workspace))
        for secret in find_secrets(secrets, workspace=workspace)
    }
    return names | {name for name in listed - names if find_secret(secrets, Owner(workspace, name))}


def among(found: Iterable[Leftover], addresses: Iterable[str]) -> list[Leftover]:
    """Return those that are planned for creation but exist already."""
    wanted = set(addresses)
    return [leftover for leftover in found if leftover.address in wanted]


def remove(aws: Aws, leftovers: Iterable[Leftover], *, cluster: str, force: bool) -> None:
    """Remove leftovers.

    Raises `ClusterError`.

    Permissions needed: ``autoscaling:DeleteAutoScalingGroup``, ``secretsmanager:DeleteSecret``.
    """
    leftovers = list(leftovers)
    busy = [leftover.resource.id for leftover in leftovers if leftover.busy]
    if busy and not force:
        raise ClusterError(
            (
                f"groups of cluster {cluster!r} have instances, but Terraform's state doesn't know "
                "them: the state may have been lost"
            ),
            cluster=cluster,
            given=", ".join(busy),
            advice=(
                f"terradask destroy {cluster} ends them; or restore "
                f"clusters/{cluster}/terraform.tfstate from the bucket's versions"
            ),
        )
    for leftover in leftovers:
        delete_resource(aws, leftover.resource)
