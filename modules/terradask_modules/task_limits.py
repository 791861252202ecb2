"""Limits of tasks' rights: nothing by which a task could raise itself. Pure.

Rights in the settings are checked before a plan (`raising`). A managed policy can change later, so
a role with one denies the same by its own policy (`guard_statements`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from terradask_modules.iam import Statement, deny, listed, statements_of
from terradask_modules.image_rights import PULL_ACTIONS, repository_arn
from terradask_modules.names import (
    ACCOUNTS,
    ENVIRONMENTS,
    HISTORY,
    NETWORK_STATES,
    REPORTED_EVENTS,
    REPORTS,
    SOFTWARE,
    TAG_WORKSPACE,
    WORKSPACE_KEY,
    secrets_prefix,
    state_bucket_name,
)
from terradask_modules.where import Where


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


def could_allow(document: Mapping[str, Any], action: str, resource: str) -> bool:
    """Return whether a statement of a policy document could allow anything of an action on a
    resource, both with wildcards; its conditions are left open.
    """
    action, resource = (text.replace("*", "**") for text in (action.lower(), resource))
    return any(
        one.get("Effect") == "Allow"
        and (
            "NotAction" in one
            or any(overlap(str(each).lower(), action) for each in listed(one.get("Action")))
        )
        and (
            "NotResource" in one
            or any(_reaches(str(each), resource) for each in listed(one.get("Resource")))
        )
        for one in statements_of(document)
    )


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


# ---- the same, by the role's own policy ----------------------------------------------------------

#: The bucket's objects that no host writes.
_OF_CALLERS = (
    f"{ACCOUNTS}*",
    "applied/*",
    "clusters/*/cluster.json",
    "clusters/*/events/*",
    "clusters/*/run.json",
    "clusters/*/software.lock",
    "clusters/*/terraform.tfstate*",
    "clusters/*/wheels/*",
    f"{HISTORY}*",
    "host/*",
    f"{REPORTS}*/{REPORTED_EVENTS}",
    f"{SOFTWARE}*",
    "unlocks/*",
    WORKSPACE_KEY,
)
#: Those that only schedulers' hosts write.
_OF_SCHEDULERS = (
    "clusters/*/closing.json",
    "clusters/*/environment.json",
    "clusters/*/scheduler.json",
    f"{ENVIRONMENTS}*",
    f"{REPORTS}*",
)

#: By these a task could raise itself anywhere.
_NEVER = (
    "ec2-instance-connect:*",
    "iam:*",
    "kms:CreateGrant",
    "kms:PutKeyPolicy",
    "organizations:*",
    "ssm:SendCommand",
    "ssm:StartSession",
)


def guard_statements(where: Where, role: str, own: Iterable[str]) -> list[Statement]:
    """Return what a host's role denies whatever policies are attached to it.

    ``own`` are the actions of its other statements, which stay allowed on the workspace's
    resources. No pattern separates the objects of another cluster that hosts write: the boundary
    limits those.
    """
    actions = sorted(set(own))
    in_bucket = [action for action in actions if action.startswith("s3:")]
    bucket = where.bucket_arn
    unwritten = [*_OF_CALLERS, *(_OF_SCHEDULERS if role == "worker" else ())]
    states = where.s3_arn(state_bucket_name(where.account, where.region))
    return [
        deny("NeverRaise", list(_NEVER), "*"),
        deny(
            "NeverOfWorkspaces",
            actions,
            "*",
            {"Null": {f"aws:ResourceTag/{TAG_WORKSPACE}": "false"}},
            all_others=True,
        ),
        deny("NeverInBucket", in_bucket, [bucket, f"{bucket}/*"], all_others=True),
        deny("NeverWrite", "s3:PutObject", [f"{bucket}/{key}" for key in unwritten]),
        deny("NeverStates", "s3:GetObject", f"{bucket}/clusters/*/terraform.tfstate*"),
        deny("NeverStatesOfNetworks", "s3:*", [states, f"{states}/*"]),
        *(
            deny(
                f"NeverKeysOfOther{tag.rpartition(':')[2].title()}s",
                "secretsmanager:*",
                where.arn("secretsmanager", f"secret:{secrets_prefix('*')}*"),
                {"StringNotEquals": {f"aws:ResourceTag/{tag}": value}},
            )
            for tag, value in where.tags.items()
        ),
    ]
