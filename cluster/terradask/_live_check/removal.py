"""Remove a throw-away workspace, whatever is left of it, and prove that nothing is."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.listing import listed
from terradask._aws.tags import tag_filters, tags_of
from terradask._cleanup.delete import delete_resource
from terradask._cleanup.resources import Resource
from terradask._cleanup.search import (
    describe_secret,
    find_bucket,
    find_everything_in_ec2,
    find_groups,
    find_log_group,
    find_secrets,
)
from terradask._deployments.instances import find_instances
from terradask._live_check.network import UserRole, make_bucket_of_state
from terradask._live_check.place import NAME, UNTIL_TAG, SmokeWorkspace
from terradask._live_check.smoke_settings import CLUSTER
from terradask._live_check.steps import Step, StepResult
from terradask.errors import BaselineError, ClusterNotFound, InUse, TerradaskError
from terradask_modules.kinds import KINDS
from terradask_modules.names import TAG_WORKSPACE, log_group_name, resource_name
from terradask_modules.where import Where

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._workspace.workspace import Workspace


def removal_steps(place: SmokeWorkspace, workspace: Workspace) -> list[Step]:
    """Return what removes everything of one throw-away workspace, as the caller and not as the
    check's role. Each may find that there is nothing to do.
    """

    def nothing_left(_result: StepResult) -> None:
        left = remains(workspace)
        if left:
            raise TerradaskError(
                "something of the check is left in the account",
                given=", ".join(left),
                allowed="nothing with its tag or name",
                advice="run terradask doctor --live again: it removes that first",
            )
        for bucket in _buckets_of_state(workspace):
            delete_resource(workspace.aws, bucket)
        place.forget()

    return [
        Step("remove-cluster", "no cluster is left", lambda _: remove_cluster(workspace, CLUSTER)),
        Step("remove-role", "the role is removed", lambda _: UserRole(workspace).remove()),
        Step("remove-network", "the network is destroyed", lambda _: remove_network(workspace)),
        Step("nothing-left", "by tag and name, nothing is left", nothing_left),
    ]


def remove_cluster(workspace: Workspace, name: str) -> None:
    """Destroy a cluster, if there is one."""
    with suppress(ClusterNotFound, BaselineError):
        workspace.destroy_cluster(name)


def remove_network(workspace: Workspace) -> None:
    """Destroy the network, if there is one."""
    # A check on another machine may not have come so far.
    make_bucket_of_state(workspace)
    with suppress(BaselineError, InUse):
        workspace.destroy_network()


def _buckets_of_state(workspace: Workspace) -> list[Resource]:
    name = str(workspace.settings.state.bucket)
    return find_bucket(workspace.aws.client("s3"), name, workspace.account_id)


def remains(workspace: Workspace) -> list[str]:
    """Return what is left of a workspace, by its tag and by its names.

    Permissions needed: ``ec2:Describe*``, ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:ListSecrets``, ``logs:DescribeLogGroups``, ``logs:ListTagsForResource``,
    ``s3:ListBucket``, ``iam:ListRoles``, ``iam:ListPolicies``.
    """
    aws, name = workspace.aws, workspace.settings.workspace.name
    where = Where(
        partition=aws.partition, region=aws.region, account=aws.account_id, workspace=name
    )
    written = [kind.writer.log_group(name) for kind in KINDS.values() if kind.writer is not None]
    found = [
        *find_everything_in_ec2(aws.client("ec2"), where),
        *find_groups(aws.client("autoscaling"), Filters=tag_filters(where.tags)),
        *find_bucket(aws.client("s3"), workspace.bucket, aws.account_id),
        *(
            one
            for group in (log_group_name(name), *written)
            for one in find_log_group(aws.client("logs"), group)
        ),
    ]
    left = [f"{one.type} {one.id}" for one in found]
    left += [f"instance {one.id}" for one in find_instances(aws, workspace=name)]
    for secret in find_secrets(aws.client("secretsmanager"), where):
        # The list is up to five minutes old.
        if describe_secret(aws.client("secretsmanager"), secret.id) is not None:
            left.append(f"secret {secret.id}")
    begins = f"{workspace.settings.network.role_name_prefix}{resource_name(name, '')}"
    for method, listing, key, question in (
        ("list_roles", "Roles", "RoleName", {}),
        ("list_policies", "Policies", "PolicyName", {"Scope": "Local"}),
    ):
        left += [
            f"{listing.lower()} {one[key]}"
            for one in listed(aws.client("iam"), method, listing, **question)
            if one[key].startswith((begins, resource_name(name, "")))
        ]
    return sorted(left)


def left_by_tag(aws: Aws, base: Path) -> Iterator[SmokeWorkspace]:
    """Yield workspaces of checks that are over and that no folder of this machine knows.

    Permission needed: ``ec2:DescribeVpcs``.
    """
    now = datetime.datetime.now(datetime.UTC)
    filters = tag_filters({TAG_WORKSPACE: "smoke-*"})
    for vpc in listed(aws.client("ec2"), "describe_vpcs", "Vpcs", Filters=filters):
        tags = tags_of(vpc.get("Tags"))
        name, until = tags[TAG_WORKSPACE], tags.get(UNTIL_TAG, "")
        known = NAME.fullmatch(name) is None or (base / name).exists()
        with suppress(ValueError):
            if not known and datetime.datetime.fromisoformat(until) < now:
                yield SmokeWorkspace.begin(
                    base,
                    account=aws.account_id,
                    region=aws.region,
                    limit=datetime.timedelta(),
                    name=name,
                )
