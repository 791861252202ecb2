"""Answers of EC2 page by page, which moto gives whole or cuts off."""

from __future__ import annotations

import base64
import binascii
from typing import Any

__all__ = ["page"]


def page(
    member: str, found: list[Any], response: Any, *, smallest: int, most: int
) -> dict[str, Any]:
    """Return the part of an answer that was asked for, and the token of the next one where there is
    one.
    """
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
        start = int(base64.b64decode(token, validate=True) or 0)
    except (ValueError, binascii.Error):
        raise InvalidNextToken(token) from None
    end = start + size
    following = (
        {"NextToken": base64.b64encode(str(end).encode()).decode()} if end < len(found) else {}
    )
    return {member: found[start:end], **following}
