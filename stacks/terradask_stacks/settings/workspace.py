"""Section ``[workspace]``."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from terradask_modules.partitions import partition_of
from terradask_modules.where import Where
from terradask_stacks.settings.base import Section, Tags
from terradask_stacks.validators.names import validate_workspace_name
from terradask_stacks.validators.refusal import refuse, refusing
from terradask_stacks.validators.resources import check_region


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
    )
    sweep_grace_seconds: int = Field(
        default=30,
        ge=1,
        description="Time for which `terradask sweep` keeps resources that seem orphaned, in "
        "seconds. A running command may not have recorded them yet.",
    )

    def where(self, account: str, partition: str | None = None) -> Where:
        """Return the workspace in an account; the partition is the region's, if it isn't locked."""
        return Where(
            partition=partition or partition_of(self.region),
            region=self.region,
            account=account,
            workspace=self.name,
        )
