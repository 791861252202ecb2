"""Rights of tasks outside the workspace: on data in S3, and those in the settings. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from terradask_modules.iam import Statement, allow, one_or_many, statements_of
from terradask_modules.partitions import dns_suffix, partition_of
from terradask_modules.where import Where

#: Rights on a customer's key for reading and writing.
USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")

_WRITE_DATA = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
#: Access -> the Sid, actions on objects; the Sid, actions on the key.
_DATA: Mapping[str, tuple[str, tuple[str, ...], str, tuple[str, ...]]] = {
    "write": ("UseData", _WRITE_DATA, "UseDataKeys", USE_KEY),
    "read": ("ReadData", ("s3:GetObject",), "ReadDataKeys", ("kms:Decrypt",)),
}


@dataclass(frozen=True, kw_only=True)
class DataBucket:
    """A bucket or prefix that tasks may use."""

    #: ``bucket`` or ``bucket/prefix``.
    path: str
    #: ``write`` contains reading and deleting.
    access: Literal["read", "write"] = "write"
    #: The customer's key that encrypts its objects, or None.
    kms_key_arn: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRight:
    """A statement that tasks' roles get."""

    #: Its purpose, from which its ``Sid`` is made.
    reason: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The clusters whose tasks alone have it. None: all.
    clusters: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TaskPolicy:
    """A managed policy that is attached to tasks' roles."""

    arn: str
    #: The allowing statements of its document, as it was read. Empty: not read.
    statements: tuple[Statement, ...] = ()
    #: The clusters whose tasks alone have it. None: all.
    clusters: tuple[str, ...] | None = None

    @property
    def address(self) -> str:
        """Its part of the address of an attachment, behind the role."""
        name = re.sub("[^A-Za-z0-9_-]", "-", self.arn.rpartition("/")[2])
        return f"{name}-{hashlib.sha256(self.arn.encode()).hexdigest()[:8]}"


_OfTasks = TypeVar("_OfTasks", TaskRight, TaskPolicy)


def shared(entries: Iterable[_OfTasks]) -> list[_OfTasks]:
    """Return the entries for tasks of all clusters."""
    return [one for one in entries if one.clusters is None]


def of_cluster(entries: Iterable[_OfTasks], cluster: str) -> list[_OfTasks]:
    """Return the entries for tasks of one cluster alone."""
    return [one for one in entries if cluster in (one.clusters or ())]


def clusters_of(entries: Iterable[TaskRight | TaskPolicy]) -> list[str]:
    """Return the clusters that entries are for alone."""
    return sorted({cluster for one in entries for cluster in one.clusters or ()})


def data_statements(where: Where, buckets: Sequence[str | DataBucket]) -> list[Statement]:
    """Return the rights on data; a text is a bucket that tasks may write.

    A statement for each set of actions: a role's policies are limited in length.
    """
    used = sorted(
        (DataBucket(path=one) if isinstance(one, str) else one for one in buckets),
        key=lambda one: one.path,
    )
    if not used:
        return []
    paths = [one.path.partition("/") for one in used]
    #: Prefix -> its buckets: a condition limits lists, and holds for all of a statement.
    listed: dict[str, list[str]] = {}
    for bucket, _, prefix in paths:
        listed.setdefault(prefix, []).append(where.s3_arn(bucket))
    all_buckets = dict.fromkeys(arn for arns in listed.values() for arn in arns)
    return [
        allow("LocateData", "s3:GetBucketLocation", one_or_many(list(all_buckets))),
        *_object_statements(where, used),
        *(
            allow(
                f"ListData{number}",
                "s3:ListBucket",
                one_or_many(arns),
                {"StringLike": {"s3:prefix": [prefix, f"{prefix}/*"]}} if prefix else None,
            )
            for number, (prefix, arns) in enumerate(sorted(listed.items()))
        ),
        *_key_statements(used),
    ]


def _object_statements(where: Where, used: Sequence[DataBucket]) -> Iterator[Statement]:
    for access, (sid, actions, _, _) in _DATA.items():
        objects = [where.s3_arn(f"{one.path}/*") for one in used if one.access == access]
        if objects:
            yield allow(sid, one_or_many(actions), one_or_many(objects))


def _key_statements(used: Sequence[DataBucket]) -> Iterator[Statement]:
    """Yield the rights on keys, only through S3, in the region that a key and its bucket are in."""
    for access, (_, _, sid, actions) in _DATA.items():
        keys = {one.kms_key_arn for one in used if one.kms_key_arn and one.access == access}
        for region in sorted({key.split(":")[3] for key in keys}):
            through = f"s3.{region}.{dns_suffix(partition_of(region))}"
            yield allow(
                f"{sid}{region.title().replace('-', '')}",
                one_or_many(actions),
                one_or_many(sorted(key for key in keys if key.split(":")[3] == region)),
                {"StringEquals": {"kms:ViaService": through}},
            )


def right_statements(rights: Sequence[TaskRight], cluster: str | None = None) -> list[Statement]:
    """Return the statements for tasks of all clusters, or of one alone: each has its reason as
    ``Sid``, unique among all.
    """
    found: dict[str, Statement] = {}
    wanted = shared(rights) if cluster is None else of_cluster(rights, cluster)
    for right in rights:
        words = re.findall("[A-Za-z0-9]+", right.reason)
        name = f"Task{''.join(word[0].upper() + word[1:] for word in words)}"[:48]
        names = (f"{name}{number or ''}" for number in range(len(rights)))
        sid = next(one for one in names if one not in found)
        found[sid] = allow(
            sid,
            one_or_many(right.actions),
            one_or_many(right.resources),
            {operator: dict(keys) for operator, keys in right.conditions.items()},
        )
    return [one for one, right in zip(found.values(), rights, strict=True) if right in wanted]


def policy_statements(policies: Iterable[TaskPolicy]) -> list[Statement]:
    """Return what attached policies allow, without their ``Sid``s, which others may have."""
    return [
        {name: value for name, value in one.items() if name != "Sid"}
        for policy in policies
        for one in policy.statements
    ]


def allowed_in(document: Mapping[str, Any]) -> list[Statement]:
    """Return the allowing statements of a managed policy's document."""
    return [dict(one) for one in statements_of(document) if one.get("Effect") == "Allow"]
