"""Read the statements of IAM policies in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask._policy.document import Unknown
from terradask._policy.hcl import NotLiteral, encoded
from terradask_modules.iam import listed

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
    "aws_sns_topic",
    "aws_sns_topic_policy",
)


@dataclass(frozen=True)
class Statement:
    """One statement."""

    #: ``Allow`` or ``Deny``.
    effect: str
    #: Its name, or its number.
    sid: str
    actions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    #: Keys and values by operator.
    conditions: Mapping[str, Mapping[str, Any]] | None = None
    #: The negated elements, such as ``NotAction``.
    inverted: tuple[str, ...] = ()

    def condition(self, operator: str) -> dict[str, list[str]]:
        """Return keys and values of the conditions with an operator."""
        pairs = (self.conditions or {}).get(operator)
        if not isinstance(pairs, Mapping):
            return {}
        return {key: [str(value) for value in listed(values)] for key, values in pairs.items()}


def read_policy(value: Any) -> list[Statement | str] | str:
    """Return a policy's statements, with expressions as text; or why it can't be read."""
    text = value.template if isinstance(value, Unknown) else value
    if not isinstance(text, str):
        return "is known only after the apply"
    try:
        policy = encoded(text)
    except NotLiteral:
        return "is known only after the apply" if "${" in text else "is no JSON"
    entries = listed(policy.get("Statement")) if isinstance(policy, Mapping) else []
    return [
        _statement(number, entry) if isinstance(entry, Mapping) else str(entry)
        for number, entry in enumerate(entries)
    ]


def _statement(number: int, entry: Mapping[str, Any]) -> Statement:
    return Statement(
        effect=str(entry.get("Effect")),
        sid=str(entry.get("Sid") or f"statement {number}"),
        actions=_texts(entry.get("Action")),
        resources=_texts(entry.get("Resource")),
        conditions=entry.get("Condition"),
        inverted=tuple(
            name for name in ("NotAction", "NotResource", "NotPrincipal") if name in entry
        ),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in listed(value))
