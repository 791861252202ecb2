"""Convert tags from and to AWS's lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def tags_of(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return tags as a mapping from AWS's list, which may be missing."""
    return {tag["Key"]: tag.get("Value", "") for tag in listed or ()}


def tag_filters(tags: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return the filters of AWS's lists for these tags; None matches any value."""
    return [
        {"Name": "tag-key", "Values": [key]}
        if value is None
        else {"Name": f"tag:{key}", "Values": [value]}
        for key, value in tags.items()
    ]


def as_text(tags: Mapping[str, str]) -> str:
    """Return tags as text for messages."""
    return ", ".join(f"{key}={value}" for key, value in sorted(tags.items()))


def found_tags(tags: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """Return the expected tags that a resource has, as text for messages."""
    found = {key: tags[key] for key in expected if key in tags}
    return f"it carries {as_text(found) or 'none of these tags'}"
