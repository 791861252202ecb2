"""One permission that an operation needs, before it becomes a request to policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts", "Need", "pass_role"]

#: Condition keys with their values.
Facts = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Need:
    """An action on one resource, with its type in the service authorization reference."""

    action: str
    resource: str = "*"
    kind: str = ""
    #: None if the resource doesn't exist or can't have tags.
    has_tags: Mapping[str, str] | None = None
    gets_tags: Mapping[str, str] | None = None
    #: Tag keys without values in the request, as in untagging.
    gets_keys: tuple[str, ...] = ()
    #: Further condition keys; those that AWS doesn't send with this action are removed later.
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: AWS's message in place of its usual one.
    refusal: str = ""


def pass_role(role_arn: str, service: str, refusal: str = "") -> Need:
    """Return the permission to pass a role to a service."""
    facts = {"iam:PassedToService": (f"{service}.amazonaws.com",)}
    return Need("iam:PassRole", role_arn or "*", "role", context=facts, refusal=refusal)
