"""One permission that an operation needs, before it becomes a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts", "Need"]

#: Condition keys with their values.
Facts = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Need:
    """An action on one resource.

    Parameters
    ----------
    action
        ``service:Action``.
    resource
        Its ARN, ``*`` where the action knows none.
    kind
        Its type in the service authorization reference.
    has_tags
        The tags that the resource carries; None where it doesn't exist or can't have any.
    gets_tags
        The tags that the request gives to it; None where it gives none.
    gets_keys
        Keys of tags that the request names without values, as untagging does.
    context
        Further condition keys; those that AWS doesn't send with this action are left out later.
    refusal
        What AWS says in place of its usual sentence; empty for that.
    """

    action: str
    resource: str = "*"
    kind: str = ""
    has_tags: Mapping[str, str] | None = None
    gets_tags: Mapping[str, str] | None = None
    gets_keys: tuple[str, ...] = ()
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refusal: str = ""
