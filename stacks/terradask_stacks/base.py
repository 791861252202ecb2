"""What both stacks share: the provider, versions, tags."""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.aws import AwsProvider, S3Backend, TerraformStack
from terradask_modules.names import TAG_WORKSPACE
from terradask_stacks.bare_stack import foundation
from terradask_stacks.settings import WorkspaceSettings


def workspace_tags(workspace: WorkspaceSettings) -> dict[str, str]:
    """Return the tags of every resource of a workspace; terradask's own win."""
    return {**workspace.tags, TAG_WORKSPACE: workspace.name}


def configure(
    stack: TerraformStack,
    workspace: WorkspaceSettings,
    *,
    bucket: str,
    key: str,
    kms_key_arn: str | None,
) -> None:
    """Add where a stack's state lies, the provider, and the versions that it runs with.

    Tags are set on each resource instead of with ``default_tags``: a group's instances and a
    template's volumes wouldn't get those, and a reviewer sees each resource's tags in the plan.
    """
    found = foundation(workspace, bucket=bucket, key=key, kms_key_arn=kms_key_arn)
    # The framework's backend doesn't support native locking.
    S3Backend(stack, bucket=bucket, key=key)
    stack.add_override("terraform", found["terraform"])
    (provider,) = found["provider"]["aws"]
    ignored = [{"keyPrefixes": one["key_prefixes"]} for one in provider["ignore_tags"]]
    AwsProvider(stack, "aws", **{**provider, "ignore_tags": ignored})


def merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge tags, later ones win, sorted by key."""
    found = {key: value for layer in layers for key, value in layer.items()}
    return dict(sorted(found.items()))
