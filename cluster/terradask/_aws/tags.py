"""Tags as AWS lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def tags_of(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return tags as a mapping, from AWS's list; none if AWS leaves the list out."""
    return {tag["Key"]: tag.get("Value", "") for tag in listed or ()}


def tag_filters(tags: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return the filters of AWS's lists that find what has these tags; None is any value."""
    return [
        {"Name": "tag-key", "Values": [key]}
        if value is None
        else {"Name": f"tag:{key}", "Values": [value]}
        for key, value in tags.items()
    ]


def as_text(tags: Mapping[str, str]) -> str:
    """Return tags as a message shows them."""
    return ", ".join(f"{key}={value}" for key, value in sorted(tags.items()))


def found_tags(tags: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """Return which of the expected tags a resource has, as a message says it."""
    found = {key: tags[key] for key in expected if key in tags}
    return f"it carries {as_text(found) or 'none of these tags'}"
