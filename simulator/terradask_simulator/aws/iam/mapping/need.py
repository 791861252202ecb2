"""One permission that an operation needs, before it becomes a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts", "Need", "pass_role"]

#: Condition keys with their values.
Facts = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Need:
    """An action on one resource, whose type is that in the service authorization reference."""

    action: str
    resource: str = "*"
    kind: str = ""
    #: None where it doesn't exist or can't have any.
    has_tags: Mapping[str, str] | None = None
    gets_tags: Mapping[str, str] | None = None
    #: Keys of tags that the request names without values, as untagging does.
    gets_keys: tuple[str, ...] = ()
    #: Further condition keys; those that AWS doesn't send with this action are left out later.
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What AWS says in place of its usual sentence.
    refusal: str = ""


def pass_role(role_arn: str, service: str, refusal: str = "") -> Need:
    """Return what it needs to hand a role to a service."""
    facts = {"iam:PassedToService": (f"{service}.amazonaws.com",)}
    return Need("iam:PassRole", role_arn or "*", "role", context=facts, refusal=refusal)
