"""Read the statements of all IAM policies in a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terradask._policy.document import PlanDocument, Resource, Unknown
from terradask_modules.iam import listed, statements_of

#: Resources whose ``policy`` is identity-based: what a principal may do.
IDENTITY_POLICIES = (
    "aws_iam_role_policy",
    "aws_iam_policy",
    "aws_iam_user_policy",
    "aws_iam_group_policy",
)
#: Resources whose ``policy`` is resource-based: which principals may use them.
RESOURCE_POLICIES = (
    "aws_s3_bucket_policy",
    "aws_secretsmanager_secret",
    "aws_secretsmanager_secret_policy",
    "aws_kms_key",
    "aws_kms_key_policy",
    "aws_sqs_queue_policy",
    "aws_sns_topic_policy",
)


@dataclass(frozen=True)
class Statement:
    """One Allow statement."""

    #: The resource with the policy.
    address: str
    #: Its name, or its number.
    sid: str
    #: `actions`, `resources`: the allowed actions, and on which resources.
    actions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    #: The allowed principals, in a resource-based policy.
    principals: tuple[str, ...] = ()
    #: Keys and values by operator.
    conditions: Mapping[str, Mapping[str, Any]] | None = None
    #: The negated elements, such as ``NotAction``.
    inverted: tuple[str, ...] = ()

    def condition(self, *operators: str) -> dict[str, list[str]]:
        """Return keys and values of the conditions with these operators."""
        found: dict[str, list[str]] = {}
        for operator, pairs in (self.conditions or {}).items():
            if operator in operators and isinstance(pairs, Mapping):
                for key, values in pairs.items():
                    found[key] = [str(value) for value in listed(values)]
        return found


@dataclass(frozen=True)
class Unread:
    """A policy that can't be read."""

    #: The resource.
    address: str
    #: The attribute that holds it.
    attribute: str
    #: Why not.
    why: str


def identity_statements(document: PlanDocument) -> Iterator[Statement | Unread]:
    """Yield the statements of identity-based policies."""
    for resource in document.of(*IDENTITY_POLICIES):
        yield from _statements(resource, "policy", resource.values.get("policy"))
    for role in document.of("aws_iam_role"):
        for inline in listed(role.values.get("inline_policy")):
            if isinstance(inline, Mapping) and inline.get("policy"):
                yield from _statements(role, "inline_policy", inline["policy"])


def trust_statements(document: PlanDocument) -> Iterator[Statement | Unread]:
    """Yield the statements of roles' trust policies."""
    for role in document.of("aws_iam_role"):
        yield from _statements(role, "assume_role_policy", role.values.get("assume_role_policy"))


def resource_statements(document: PlanDocument) -> Iterator[Statement | Unread]:
    """Yield the statements of policies of buckets, secrets, keys, queues and topics."""
    for resource in document.of(*RESOURCE_POLICIES):
        value = resource.values.get("policy")
        # AWS gives keys a default policy if none is set.
        if value and value != Unknown():
            yield from _statements(resource, "policy", value)


def _statements(resource: Resource, attribute: str, value: Any) -> Iterator[Statement | Unread]:
    text = value.template if isinstance(value, Unknown) else value
    if not isinstance(text, str):
        yield Unread(resource.address, attribute, "is known only after the apply")
        return
    try:
        policy = json.loads(text)
    except ValueError:
        yield Unread(
            resource.address,
            attribute,
            "is known only after the apply" if "${" in text else "is no JSON",
        )
        return
    for number, entry in enumerate(statements_of(policy)):
        if entry.get("Effect") == "Allow":
            yield _statement(resource.address, number, entry)


def _statement(address: str, number: int, entry: Mapping[str, Any]) -> Statement:
    principal = entry.get("Principal")
    principals = (
        [each for values in principal.values() for each in listed(values)]
        if isinstance(principal, Mapping)
        else listed(principal)
    )
    return Statement(
        address=address,
        sid=str(entry.get("Sid") or f"statement {number}"),
        actions=_texts(entry.get("Action")),
        resources=_texts(entry.get("Resource")),
        principals=_texts(principals),
        conditions=entry.get("Condition"),
        inverted=tuple(
            name for name in ("NotAction", "NotResource", "NotPrincipal") if name in entry
        ),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in listed(value))
