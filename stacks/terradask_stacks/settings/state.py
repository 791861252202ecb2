"""Section ``[state]``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from terradask_modules.names import state_bucket_name
from terradask_stacks.settings.base import Section, Whole
from terradask_stacks.validators.resources import (
    check_account,
    check_bucket,
    check_key_or_alias_arn,
)


class StateSettings(Section):
    """Section ``[state]``: where the network's state is; a cluster's state is always in the
    workspace's bucket.
    """

    bucket: Annotated[str, AfterValidator(check_bucket)] | None = Field(
        default=None,
        description="Bucket of the network's state, in workspace.region, made by `terradask "
        "init --state s3`. Unset: terradask-state-<account>-<region>, made by the first plan "
        "of the network.",
        examples=["my-state-bucket"],
    )
    bucket_owner: Annotated[str, AfterValidator(check_account)] | None = Field(
        default=None,
        description="AWS account that owns bucket; refused in terradask.toml, so set "
        "TERRADASK_STATE__BUCKET_OWNER, or terradask.state.bucket-owner in your Dask "
        "configuration. Unset: your account.",
    )
    kms_key_arn: Annotated[str, AfterValidator(check_key_or_alias_arn)] | None = Field(
        default=None,
        description="KMS key that encrypts the state. Unset: S3's own keys (SSE-S3).",
        examples=["arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )
    lock_timeout_seconds: Whole = Field(
        default=60,
        ge=0,
        le=3600,
        description="Longest wait for a state's lock, in seconds.",
    )

    def bucket_for(self, account: str, region: str) -> str:
        """Return the bucket of the network's state."""
        return self.bucket or state_bucket_name(account, region)

    def owner_for(self, account: str) -> str:
        """Return the account that must have the bucket, for a caller of an account."""
        return account if self.bucket is None else self.bucket_owner or account
