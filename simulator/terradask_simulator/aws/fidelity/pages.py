"""Split responses into pages, which moto returns complete or truncated."""

from __future__ import annotations

import base64
from typing import Any

__all__ = ["cut", "page"]


def page(
    member: str, found: list[Any], response: Any, *, smallest: int, most: int
) -> dict[str, Any]:
    """Return the requested page of an EC2 response and the next page's token, if any."""
    from moto.ec2.exceptions import InvalidNextToken, InvalidParameterValue

    size, token = (
        int(response._get_param("MaxResults") or most),
        response._get_param("NextToken") or "",
    )
    if not smallest <= size <= most:
        raise InvalidParameterValue(
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value between "
            f"{smallest} and {most}."
        )
    try:
        part, following = cut(found, token, size)
    except ValueError:
        raise InvalidNextToken(token) from None
    return {member: part, **following}


def cut(found: list[Any], token: str, size: int) -> tuple[list[Any], dict[str, str]]:
    """Return the page at a token and the next page's token, if any. Raises `ValueError`."""
    start = int(base64.b64decode(token, validate=True) or 0)
    end = start + size
    following = base64.b64encode(str(end).encode()).decode()
    return found[start:end], {"NextToken": following} if end < len(found) else {}
