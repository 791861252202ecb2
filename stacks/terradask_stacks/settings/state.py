"""Section ``[state]``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from terradask_modules.names import state_bucket_name
from terradask_stacks.settings.base import Section
from terradask_stacks.validators.refusal import refuse
from terradask_stacks.validators.resources import check_bucket, check_key_or_alias_arn


def _account(number: str) -> str:
    if not re.fullmatch(r"[0-9]{12}", number):
        raise refuse(f"{number!r} is no number of an AWS account", allowed="twelve digits, as text")
    return number


class StateSettings(Section):
    """Section ``[state]``: where the network's state is; a cluster's state is always in the
    workspace's bucket.
    """

    bucket: Annotated[str, AfterValidator(check_bucket)] | None = Field(
        default=None,
        description="Bucket of the network's state, in workspace.region; several workspaces may "
        "share it. `terradask init --state s3` makes it. Unset: "
        "terradask-state-<account>-<region>, which is made when the network is first planned.",
    )
    bucket_owner: Annotated[str, AfterValidator(_account)] | None = Field(
        default=None,
        description="AWS account that has `bucket`. Unset: your own, which the bucket must be of. "
        "Refused in terradask.toml, whose author could name a bucket of their own: set "
        "TERRADASK_STATE__BUCKET_OWNER, or terradask.state.bucket-owner in your own Dask "
        "configuration.",
    )
    kms_key_arn: Annotated[str, AfterValidator(check_key_or_alias_arn)] | None = Field(
        default=None,
        description="KMS key that encrypts the state. Unset: S3's own keys (SSE-S3).",
    )
    lock_timeout_seconds: int = Field(
        default=60,
        ge=0,
        le=3600,
        description=(
            "Longest time to wait for a state's lock that another command holds, in seconds."
        ),
    )

    def bucket_for(self, account: str, region: str) -> str:
        """Return the bucket of the network's state."""
        return self.bucket or state_bucket_name(account, region)

    def owner_for(self, account: str) -> str:
        """Return the account that must have the bucket, for a caller of an account."""
        return account if self.bucket is None else self.bucket_owner or account


#: What a settings file can't say: it guards against the file's author.
OUTSIDE_OF_FILE = ("state", "bucket_owner")
