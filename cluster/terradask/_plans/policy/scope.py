"""The workspace of a plan, and the resources in its settings, for comparing names, ARNs and ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from terradask_modules.egress import Egress
from terradask_modules.partitions import SUFFIXES, dns_suffix, partition_of
from terradask_modules.task_rights import DataBucket, TaskPolicy, TaskRight

_BUCKET = re.compile(
    r"terradask-(?P<workspace>[a-z][a-z0-9-]*)-(?P<account>\d{12})-(?P<region>[a-z]{2,4}-[a-z0-9-]+)"
)
#: Patterns of parts of names that the plan doesn't contain.
_ANY = {
    "workspace": "[a-z][a-z0-9-]{0,19}",
    "account": r"\d{12}",
    "region": "[a-z]{2,4}-[a-z0-9-]+",
    "partition": "aws(?:-[a-z]+)*",
    "suffix": f"(?:{'|'.join(map(re.escape, SUFFIXES))})",
    "cluster": "[a-z][a-z0-9-]{0,31}",
    "sha256": "[0-9a-f]{64}",
}


@dataclass(frozen=True)
class WorkspaceRules:
    """Facts of the settings that a plan alone can't prove; None is unknown."""

    #: Its name.
    workspace: str | None = None
    #: The region.
    region: str | None = None
    #: The AWS account.
    account: str | None = None
    #: ARNs in the settings: KMS keys, and the topic that hosts publish to.
    given: frozenset[str] | None = None
    #: `network.data_buckets`; a text is a bucket, or a bucket and a prefix, that hosts may write.
    data_buckets: tuple[str | DataBucket, ...] | None = None
    #: `network.container_repositories`.
    container_repositories: tuple[str, ...] | None = None
    #: The statements of `network.task_rights`.
    task_rights: tuple[TaskRight, ...] | None = None
    #: `network.egress`, and what other settings need, with the blocks of a given VPC.
    egress: tuple[Egress, ...] | None = None
    #: The managed policies among these, with what they allow.
    task_policies: tuple[TaskPolicy, ...] | None = None
    #: `network.mounts`, as hosts get them.
    mounts: tuple[Mapping[str, str], ...] | None = None


@dataclass(frozen=True)
class Scope:
    """The workspace of one plan."""

    workspace: str | None = None
    account: str | None = None
    region: str | None = None
    cluster: str | None = None
    #: SHA-256 of the host program's wheel, if the plan uploads it.
    sha256: str | None = None

    @property
    def partition(self) -> str | None:
        """Its AWS partition."""
        return None if self.region is None else partition_of(self.region)

    @cached_property
    def patterns(self) -> Mapping[str, str]:
        """Regular expressions of its parts by name."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        known["partition"] = self.partition
        known["suffix"] = dns_suffix(self.partition) if self.partition else None
        found = {name: re.escape(value) if value else _ANY[name] for name, value in known.items()}
        found["bucket"] = "terradask-{workspace}-{account}-{region}".format(**found)
        return found


def scope_of(resources: Sequence[Any], data: Sequence[Any], rules: WorkspaceRules) -> Scope:
    """Return a plan's workspace, from the settings or from the bucket in the plan."""
    buckets = [each for each in resources if each.type == "aws_s3_bucket"]
    objects = [each for each in resources if each.type == "aws_s3_object"]
    sources = [each for each in data if each.type == "aws_s3_object"]
    names = (each.values.get("bucket") for each in (*buckets, *sources, *objects))
    named = next(filter(None, map(_bucket, names)), {})
    keys = [str(each.values.get("key")) for each in objects if not buckets]
    hashes = [each.values.get("source_hash") for each in objects]
    return Scope(
        workspace=rules.workspace or named.get("workspace"),
        account=rules.account or named.get("account"),
        region=rules.region or named.get("region"),
        cluster=next((key.split("/")[1] for key in keys if key.startswith("clusters/")), None),
        sha256=next((each for each in hashes if isinstance(each, str)), None),
    )


def _bucket(name: Any) -> dict[str, str] | None:
    found = _BUCKET.fullmatch(name) if isinstance(name, str) else None
    return found.groupdict() if found else None
