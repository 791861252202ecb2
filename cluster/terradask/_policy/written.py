"""The documents that a stack writes into the workspace's bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask._policy.document import Resource, Unknown
from terradask._policy.hcl import NotLiteral, encoded


def written_document(item: Resource) -> Mapping[str, Any]:
    """Return an object's document, or an empty one; parts that only the apply tells are text."""
    content = item.values.get("content")
    text = content.template if isinstance(content, Unknown) else content
    try:
        held = encoded(text) if isinstance(text, str) else None
    except NotLiteral:
        return {}
    return held if isinstance(held, Mapping) else {}
