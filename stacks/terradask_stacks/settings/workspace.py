"""Section ``[workspace]``."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from terradask_modules.partitions import partition_of
from terradask_modules.where import Where
from terradask_stacks.settings.base import Section, Tags, Whole
from terradask_stacks.validators.names import validate_workspace_name
from terradask_stacks.validators.refusal import refuse, refusing
from terradask_stacks.validators.resources import (
    check_account,
    check_external_id,
    check_region,
    check_role_arn,
)


def _address_service(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        usable = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
        usable = usable and bool(host) and "@" not in parts.netloc and not re.search(r"\s", url)
    except ValueError:
        usable = False
    if not usable:
        raise refuse(
            "it can't be used as a service that returns this machine's address",
            allowed="an https URL without credentials; http on this machine's loopback alone",
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class WorkspaceSettings(Section):
    """Section ``[workspace]``: name, region and tags of all resources."""

    name: Annotated[str, AfterValidator(refusing(validate_workspace_name))] = Field(
        default="default",
        description=(
            "Name of the workspace: one network baseline and its clusters. Part of every "
            "resource's name."
        ),
    )
    region: Annotated[str, AfterValidator(check_region)] = Field(
        default="us-east-1", description="AWS region in which everything is made."
    )
    role_arn: Annotated[str, AfterValidator(check_role_arn)] | None = Field(
        default=None,
        description="IAM role that every call assumes, in the account where everything is made. "
        "Unset: your own credentials' account.",
        examples=["arn:aws:iam::210987654321:role/terradask"],
    )
    external_id: Annotated[str, AfterValidator(check_external_id)] | None = Field(
        default=None,
        description="External ID that the trust policy of role_arn asks for. Unset: none.",
        examples=["dask-clusters"],
    )
    profile: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Profile of your AWS configuration, in place of AWS_PROFILE and of "
        "credentials in variables; with role_arn, it assumes that role. Unset: as AWS's SDK finds "
        "credentials.",
        examples=["clusters"],
    )
    trusted_accounts: list[Annotated[str, AfterValidator(check_account)]] = Field(
        default=[],
        description="Accounts of roles that a terradask.toml may name, beside your own; refused "
        "in terradask.toml, so set TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS, or "
        "terradask.workspace.trusted-accounts in your Dask configuration.",
    )
    isolation: Literal["workspace", "cluster"] = Field(
        default="workspace",
        description="workspace: clusters share roles and security groups. cluster: each "
        "cluster has its own, and its hosts can't reach other clusters' hosts, keys or "
        "objects.",
    )
    own_address_url: Annotated[str, AfterValidator(_address_service)] = Field(
        default="https://checkip.amazonaws.com",
        description="https service that returns a caller's public address, without a "
        "redirect. Cluster(allow_ingress_from='me') asks it.",
    )
    tags: Tags = Field(
        default={},
        description="Tags on every resource, such as a team or a cost centre. Not allowed: "
        "commas, and keys that differ in case alone.",
        examples=[{"team": "research"}],
    )
    sweep_grace_seconds: Whole = Field(
        default=30,
        ge=1,
        description="Time for which `terradask sweep` keeps resources that seem orphaned, in "
        "seconds. A running command may not have recorded them yet.",
    )

    @property
    def account(self) -> str | None:
        """The account of the role that every call assumes; None without one."""
        return None if self.role_arn is None else self.role_arn.split(":")[4]

    @model_validator(mode="after")
    def _role_is_complete(self) -> WorkspaceSettings:
        if self.role_arn is None:
            if self.external_id is not None:
                raise refuse(
                    "external_id is set without role_arn, the role that it is for",
                    allowed="both, or neither",
                    advice="set workspace.role_arn, or remove external_id",
                )
            return self
        partition = self.role_arn.split(":")[1]
        if partition != partition_of(self.region):
            raise refuse(
                f"role_arn is of the partition {partition}, and region is {self.region}",
                allowed=f"a role of the partition {partition_of(self.region)}: no credentials are "
                "valid in two",
                advice="name a role of that partition",
            )
        return self

    def where(self, account: str, partition: str | None = None) -> Where:
        """Return the workspace in an account; the partition is the region's, if it isn't locked."""
        return Where(
            partition=partition or partition_of(self.region),
            region=self.region,
            account=account,
            workspace=self.name,
        )
