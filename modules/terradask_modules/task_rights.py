"""Rights of tasks outside the workspace: on data in S3, and those in the settings. Pure.

A right must not let a task raise itself (`raising`): change roles, machines, the workspace's bucket
or clusters' secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from terradask_modules.iam import Statement, allow, one_or_many
from terradask_modules.image_rights import PULL_ACTIONS, repository_arn
from terradask_modules.names import NETWORK_STATES, secrets_prefix
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
    """A bucket or prefix that tasks may use.

    Parameters
    ----------
    path
        ``bucket`` or ``bucket/prefix``.
    access
        ``write`` contains reading and deleting.
    kms_key_arn
        The customer's key that encrypts its objects, or None.
    """

    path: str
    access: Literal["read", "write"] = "write"
    kms_key_arn: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRight:
    """A statement that tasks' roles get."""

    #: Its purpose, from which its ``Sid`` is made.
    reason: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


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


def right_statements(rights: Sequence[TaskRight]) -> list[Statement]:
    """Return the statements of rights, each with its reason as ``Sid``."""
    found: dict[str, Statement] = {}
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
    return list(found.values())


# ---- what lets a task raise itself ---------------------------------------------------------------


class Raising(NamedTuple):
    """An action by which a task could raise itself."""

    action: str
    resource: str
    why: str


class _Guarded(NamedTuple):
    """Actions on resources that no task may have, but for the harmless ones."""

    actions: str
    resources: tuple[str, ...]
    why: str
    harmless: tuple[str, ...] = ()


#: In an ARN, before its last part.
_COLONS = 5
#: Stands for ``**`` in patterns of ours.
_ANYTHING = "\0"
#: Of any workspace and account; other buckets may have names of the same prefix.
_BUCKET = "arn:*:s3:::terradask-*-????????????-*-*"
_SECRETS = f"arn:*:secretsmanager:*:*:secret:{secrets_prefix('*')}**"
_GROUPS = "arn:*:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/terradask-**"
_SEE_BUCKETS = ("s3:GetBucketLocation", "s3:ListAllMyBuckets", "s3:ListBucket")

_GUARDED = (
    _Guarded("iam:*", ("**",), "it changes, passes or reads roles and policies"),
    _Guarded("organizations:*", ("**",), "it changes what the account may do"),
    _Guarded("sts:AssumeRole", ("arn:*:iam::*:role/**terradask-**",), "a role of terradask's"),
    _Guarded(
        "s3:*",
        (_BUCKET, f"{_BUCKET}/**"),
        "it reaches a workspace's bucket, with what hosts run and the states",
        _SEE_BUCKETS,
    ),
    _Guarded(
        "s3:*AccessPoint*",
        ("arn:*:s3:*:*:accesspoint/**",),
        "an access point opens any bucket",
        ("s3:Get*", "s3:List*"),
    ),
    _Guarded(
        "secretsmanager:*",
        (_SECRETS,),
        "it reaches the secrets of clusters",
        (
            "secretsmanager:BatchGetSecretValue",
            "secretsmanager:GetRandomPassword",
            "secretsmanager:ListSecrets",
        ),
    ),
    _Guarded(
        "autoscaling:*", (_GROUPS,), "it changes clusters' groups", ("autoscaling:Describe*",)
    ),
    _Guarded(
        "ec2:*",
        ("**",),
        "it changes machines, their templates, disks or firewalls",
        ("ec2:Describe*",),
    ),
    _Guarded("ec2-instance-connect:*", ("**",), "it logs in to machines"),
    _Guarded(
        "ssm:*",
        ("**",),
        "it runs commands on machines",
        ("ssm:*Parameter*", "ssm:Describe*", "ssm:Get*", "ssm:List*"),
    ),
    _Guarded(
        "kms:*",
        ("**",),
        "it changes keys, their policies or grants",
        (
            "kms:Decrypt",
            "kms:DescribeKey",
            "kms:Encrypt",
            "kms:GenerateDataKey*",
            "kms:GenerateMac",
            "kms:GetPublicKey",
            "kms:ReEncrypt*",
            "kms:Sign",
            "kms:Verify*",
        ),
    ),
)


def raising(
    actions: Iterable[str],
    resources: Sequence[str],
    *,
    buckets: Iterable[str] = (),
    repositories: Iterable[str] = (),
) -> Iterator[Raising]:
    """Yield the actions of a statement by which a task could raise itself, whatever its conditions:
    only their service could evaluate these.

    Wildcards count as all that they match. ``buckets`` are those of networks' states, and
    ``repositories`` those of images that hosts run.
    """
    guarded = (
        *_GUARDED,
        *(
            _Guarded(
                "s3:*",
                (f"arn:*:s3:::{bucket}", f"arn:*:s3:::{bucket}/{NETWORK_STATES}**"),
                "it reaches the networks' states",
                _SEE_BUCKETS,
            )
            for bucket in buckets
        ),
        *(
            _Guarded(
                "ecr:*",
                (repository_arn(repository),),
                "it changes images that hosts run",
                (*PULL_ACTIONS, "ecr:Describe*", "ecr:Get*", "ecr:List*"),
            )
            for repository in repositories
        ),
    )
    for action in actions:
        for resource in resources:
            found = _why(guarded, action, resource)
            if found is not None:
                yield Raising(action, resource, found)


def _why(guarded: Sequence[_Guarded], action: str, resource: str) -> str | None:
    for one in guarded:
        if (
            overlap(action.lower(), one.actions.lower())
            and not any(_lies_within(action.lower(), each.lower()) for each in one.harmless)
            and any(_reaches(resource, each) for each in one.resources)
        ):
            return one.why
    if overlap(action.lower(), "sts:assumerole") and re.search(r"[*?]", resource):
        return "it takes any role that matches"
    return None


def _reaches(resource: str, guard: str) -> bool:
    parts, guards = resource.split(":", _COLONS), guard.split(":", _COLONS)
    if len(parts) != len(guards):
        # The end of an ARN may be left out: a wildcard stands for all of it.
        return overlap(resource, guard)
    return all(overlap(one, other) for one, other in zip(parts, guards, strict=True))


def overlap(text: str, guard: str) -> bool:
    """Return whether a pattern of a policy and one of ours match something in common.

    A policy's ``*`` may match anything, as IAM's may; of ours, ``*`` ends at a colon or slash, and
    ``**`` doesn't.
    """
    signs = guard.replace("**", _ANYTHING)
    #: Places in the guard that can be reached by what is read of the text.
    reached = _past_stars(signs, {0})
    for sign in text:
        if sign == "*":
            reached = set(range(min(reached), len(signs) + 1)) if reached else set()
            continue
        after = set()
        for place in reached:
            held = signs[place : place + 1]
            if held == _ANYTHING or (held == "*" and sign not in ":/"):
                after.add(place)
            elif held and ("?" in (sign, held) or sign == held):
                after.add(place + 1)
        reached = _past_stars(signs, after)
    return len(signs) in reached


def _past_stars(signs: str, places: set[int]) -> set[int]:
    found: set[int] = set()
    for place in places:
        stars = len(signs) - place - len(signs[place:].lstrip(f"*{_ANYTHING}"))
        found.update(range(place, place + stars + 1))
    return found


def _lies_within(text: str, pattern: str) -> bool:
    """Return whether a pattern matches all that a text with wildcards does."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
