"""Tags as AWS lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def tags_of(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return tags as a mapping, from the list in which AWS describes them; none where it leaves the
    list out.
    """
    return {tag["Key"]: tag.get("Value", "") for tag in listed or ()}
