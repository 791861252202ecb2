"""Remove a throw-away workspace, whatever is left of it, and prove that nothing is."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.answers import unless
from terradask._aws.listing import listed
from terradask._aws.tags import tag_filters, tags_of
from terradask._cleanup.named_resources import find_bucket, find_log_group
from terradask._cleanup.resources import Owner
from terradask._cleanup.search import find_everything_in_ec2, find_groups, find_secrets
from terradask._deployments.instances import find_instances
from terradask._live_check.network import UserRole
from terradask._live_check.place import NAME, UNTIL_TAG, SmokeWorkspace
from terradask._live_check.smoke_settings import CLUSTER
from terradask._live_check.steps import Notes, Step
from terradask.errors import BaselineError, ClusterNotFound, LiveCheckFailed
from terradask_modules.names import (
    TAG_WORKSPACE,
    flow_log_group_name,
    log_group_name,
    resource_name,
)

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._workspace.workspace import Workspace


@dataclass(frozen=True)
class Removal:
    """Removes everything of one throw-away workspace, as the caller and not as the check's role."""

    place: SmokeWorkspace
    workspace: Workspace

    def steps(self) -> list[Step]:
        """Return the steps; each may find that there is nothing to do."""
        return [
            Step("remove-cluster", "no cluster is left", self._remove_cluster),
            Step("remove-role", "the role is removed", self._remove_role),
            Step("remove-network", "the network is destroyed", self._remove_network),
            Step("nothing-left", "by tag and name, nothing is left", self._nothing_left),
        ]

    def _remove_cluster(self, notes: Notes) -> None:
        with suppress(ClusterNotFound, BaselineError):
            self.workspace.destroy_cluster(CLUSTER)

    def _remove_role(self, notes: Notes) -> None:
        UserRole(self.workspace).remove()

    def _remove_network(self, notes: Notes) -> None:
        with suppress(BaselineError):
            self.workspace.destroy_network()

    def _nothing_left(self, notes: Notes) -> None:
        left = sorted(remains(self.workspace))
        if left:
            raise LiveCheckFailed(
                "something of the check is left in the account",
                given=", ".join(left),
                allowed="nothing with its tag or name",
                advice="run terradask doctor --live again: it removes that first",
            )
        self.place.forget()


def remains(workspace: Workspace) -> Iterator[str]:
    """Yield what is left of a workspace, by its tag and by its names.

    Permissions needed: ``ec2:Describe*``, ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:ListSecrets``, ``logs:DescribeLogGroups``, ``logs:ListTagsForResource``,
    ``s3:ListBucket``, ``iam:ListRoles``, ``iam:ListPolicies``.
    """
    aws, name = workspace.aws, workspace.settings.workspace.name
    owner = Owner(name)
    found = [
        *find_everything_in_ec2(aws.client("ec2"), name),
        *find_groups(aws.client("autoscaling"), Filters=owner.filters),
        *find_bucket(aws.client("s3"), workspace.bucket, aws.account_id),
        *(
            one
            for group in (log_group_name(name), flow_log_group_name(name))
            for one in find_log_group(aws.client("logs"), group)
        ),
    ]
    yield from (f"{one.type} {one.id}" for one in found)
    yield from (f"instance {one.id}" for one in find_instances(aws, workspace=name))
    for secret in find_secrets(aws.client("secretsmanager"), workspace=name):
        # The list is up to five minutes old.
        with unless("ResourceNotFoundException"):
            aws.client("secretsmanager").describe_secret(SecretId=secret.id)
            yield f"secret {secret.id}"
    begins = f"{workspace.settings.network.role_name_prefix}{resource_name(name, '')}"
    for method, listing, key, question in (
        ("list_roles", "Roles", "RoleName", {}),
        ("list_policies", "Policies", "PolicyName", {"Scope": "Local"}),
    ):
        for one in listed(aws.client("iam"), method, listing, **question):
            if one[key].startswith((begins, resource_name(name, ""))):
                yield f"{listing.lower()} {one[key]}"


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
