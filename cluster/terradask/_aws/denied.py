"""Read AWS's text of a refusal: action, resource, and the kind of policy that refuses.

AWS (documented, denied-texts): IAM's refusals name the kind of policy that has an explicit deny or
no allow. https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
"""

from __future__ import annotations

import re

ACTION = re.compile(r"not authorized to perform:? ([\w-]+:[\w*]+)", re.ASCII)
_RESOURCE = re.compile(r"on resource: \"?(arn:[^\s\"]+)")

#: Phrase -> who refuses.
_PHRASES = (
    ("permissions boundary", "boundary"),
    ("service control policy", "organization"),
    ("resource control policy", "organization"),
    ("vpc endpoint policy", "endpoint"),
    ("session policy", "session"),
    ("role trust policy", "trust"),
    ("resource-based polic", "their_policy"),
    ("identity-based policy", "role"),
    ("lake formation permission", "lake_formation"),
)


def refused_action(text: str) -> str | None:
    """Return the action that AWS names."""
    return first(ACTION, text)


def refused_resource(text: str) -> str | None:
    """Return the ARN that AWS names."""
    return first(_RESOURCE, text)


def refuser(text: str) -> str | None:
    """Return the kind of policy that refuses; None where the text leaves it open."""
    plain = text.lower()
    return next((who for phrase, who in _PHRASES if phrase in plain), None)


def first(pattern: re.Pattern[str], text: str) -> str | None:
    """Return a pattern's first group without the sentence's end; None without a match."""
    found = pattern.search(text)
    return None if found is None else found[1].rstrip(".,")
