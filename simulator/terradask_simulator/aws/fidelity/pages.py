"""Split responses into pages, which moto returns complete or truncated, and refuse filters with
more values than EC2 takes.
"""

from __future__ import annotations

import base64
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["cut", "install", "page"]

#: AWS (reported): The maximum number of filter values specified on a single call is 200.
#: https://github.com/gjbae1212/gossm/issues/47
_MOST_VALUES = 200


def install() -> None:
    """Refuse EC2's calls with too many values of filters."""
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.responses._base_response import EC2BaseResponse

    @around(EC2BaseResponse, "_filters_from_querystring")
    def few_filters(read: Any, response: Any) -> Any:
        found = read(response)
        if sum(map(len, found.values())) > _MOST_VALUES:
            raise EC2ClientError(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {_MOST_VALUES}",
            )
        return found


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
