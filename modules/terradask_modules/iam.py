"""Makes and reads IAM policy documents. Pure: plain dictionaries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

Statement = dict[str, Any]
Condition = dict[str, dict[str, Any]]

#: AWS (documented, iam-sizes): IAM takes 6,144 characters in a managed policy and 10,240 in all
#: inline policies of a role, white space not counted, and 64 in a role's name.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
MAX_POLICY_CHARACTERS = 6_144
MAX_ROLE_POLICY_CHARACTERS = 10_240

#: Version of the policy language; earlier ones have no variables.
POLICY_VERSION = "2012-10-17"


def statement(
    effect: Literal["Allow", "Deny"],
    action: str | list[str],
    *,
    sid: str | None = None,
    principal: str | Mapping[str, Any] | None = None,
    resource: str | list[str] | None = None,
    condition: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    """Return a statement without its empty parts."""
    parts = {
        "Sid": sid,
        "Effect": effect,
        "Principal": principal,
        "Action": action,
        "Resource": resource,
        "Condition": condition or None,
    }
    return {name: value for name, value in parts.items() if value is not None}


def allow(
    sid: str, action: str | list[str], resource: str | list[str], condition: Condition | None = None
) -> Statement:
    """Return an allowing statement; its ``Sid`` is the reason."""
    return statement("Allow", action, sid=sid, resource=resource, condition=condition)


def deny(
    sid: str,
    action: str | list[str],
    resource: str | list[str],
    condition: Condition | None = None,
    *,
    all_others: bool = False,
) -> Statement:
    """Return a denying statement; with `all_others`, of all other actions."""
    one = statement("Deny", action, sid=sid, resource=resource, condition=condition)
    if all_others:
        one["NotAction"] = one.pop("Action")
    return one


def only_in_account(
    statements: Iterable[Statement], bucket_arn: str, account: str
) -> list[Statement]:
    """Limit statements' rights on a bucket and its objects to the account.

    Bucket names are unique across AWS, and ARNs of S3 contain no account.

    AWS (documented): IAM's key aws:ResourceAccount is missing in some requests to S3, such as those
    without a bucket.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-resourceaccount
    """
    own = {"StringEqualsIfExists": {"aws:ResourceAccount": account}}
    return [
        {**one, "Condition": both(one.get("Condition", {}), own)}
        if all(_is_in_bucket(each, bucket_arn) for each in listed(one["Resource"]))
        else one
        for one in statements
    ]


def _is_in_bucket(resource: str, bucket_arn: str) -> bool:
    return resource == bucket_arn or resource.startswith(f"{bucket_arn}/")


def deny_without_tls(sid: str, bucket_arn: str) -> Statement:
    """Return a bucket's statement that denies every request without TLS."""
    return statement(
        "Deny",
        "s3:*",
        sid=sid,
        principal="*",
        resource=[bucket_arn, f"{bucket_arn}/*"],
        condition={"Bool": {"aws:SecureTransport": "false"}},
    )


def policy_document(statements: Any) -> dict[str, Any]:
    """Return the document of statements: a list, or a Terraform expression for one."""
    return {"Version": POLICY_VERSION, "Statement": statements}


def policy_text(statements: Iterable[Statement]) -> str:
    """Return the document of statements as indented JSON."""
    return json.dumps(policy_document(list(statements)), indent=1)


def characters(document: Mapping[str, Any]) -> int:
    """Count a policy document's characters as AWS does."""
    return len("".join(json.dumps(document, separators=(",", ":")).split()))


def both(*conditions: Mapping[str, Mapping[str, Any]]) -> Condition:
    """Return a condition that combines all given ones."""
    joined: Condition = {}
    for condition in conditions:
        for operator, keys in condition.items():
            joined.setdefault(operator, {}).update(keys)
    return joined


def present(key: str) -> Condition:
    """Return the condition that a request has a key."""
    return {"Null": {key: "false"}}


def one_or_many(values: Iterable[str]) -> str | list[str]:
    """Return values in policies' form: a single one without a list."""
    several = list(values)
    return several[0] if len(several) == 1 else several


def listed(value: Any) -> list[Any]:
    """Return a value's items: of a list, a single one, or none."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def statements_of(document: Any) -> list[Mapping[str, Any]]:
    """Return the statements of any policy document, also of other authors'."""
    found = document.get("Statement") if isinstance(document, Mapping) else None
    return [one for one in listed(found) if isinstance(one, Mapping)]


def covers(statement: Mapping[str, Any], action: str, resource: str | None = None) -> bool:
    """Return whether a statement is about an action, and about a resource if one is given, whatever
    its effect, principals and conditions.
    """
    return any(
        fnmatchcase(action.lower(), pattern.lower()) for pattern in listed(statement.get("Action"))
    ) and (
        resource is None
        or any(fnmatchcase(resource, pattern) for pattern in listed(statement.get("Resource")))
    )
