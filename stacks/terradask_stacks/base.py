"""What both stacks share: the provider, versions, tags."""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.aws import (
    AwsProvider,
    S3Backend,
    TerraformStack,
)
from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION, REQUIRED_TERRAFORM
from terradask_modules.names import TAG_RUN_PREFIX, TAG_WORKSPACE
from terradask_stacks.settings import WorkspaceSettings


def workspace_tags(workspace: WorkspaceSettings) -> dict[str, str]:
    """Return the tags of every resource of a workspace; terradask's own win."""
    return {**workspace.tags, TAG_WORKSPACE: workspace.name}


def configure(
    stack: TerraformStack,
    *,
    region: str,
    bucket: str,
    key: str,
    kms_key_arn: str | None,
    account: str | None,
) -> None:
    """Add where a stack's state lies, the provider, and the versions that it runs with.

    Tags are set on each resource instead of with ``default_tags``: a group's instances and a
    template's volumes wouldn't get those, and a reviewer sees each resource's tags in the plan.

    Parameters
    ----------
    account
        The only account to work in; None for that of whatever credentials are used. How a caller
        gets into it is in no stack.
    """
    allowed = None if account is None else [account]
    S3Backend(
        stack,
        bucket=bucket,
        key=key,
        region=region,
        skip_region_validation=True,
        # As the bucket would by itself: policies may demand that writes say so.
        encrypt=True,
        kms_key_id=kms_key_arn,
        allowed_account_ids=allowed,
    )
    # The framework's backend doesn't support native locking.
    stack.add_override("terraform.backend.s3.use_lockfile", True)
    AwsProvider(
        stack,
        "aws",
        region=region,
        # The provider knows the regions of its day; the SDK, which checks them first, knows newer.
        skip_region_validation=True,
        ignore_tags=[{"keyPrefixes": [TAG_RUN_PREFIX]}],
        allowed_account_ids=allowed,
    )
    stack.add_override(
        "terraform.required_providers.aws", {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}
    )
    stack.add_override("terraform.required_version", REQUIRED_TERRAFORM)


def merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge tags, later ones win, sorted by key."""
    result: dict[str, str] = {}
    for layer in layers:
        result.update(layer)
    return dict(sorted(result.items()))
