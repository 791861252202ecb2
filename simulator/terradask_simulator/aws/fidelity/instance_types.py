"""Instance types of the region alone, page by page.

moto describes every type that it knows of in every region, and answers all pages at once: 6 MB that
take seconds to write, in which it answers nothing else.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

__all__ = ["install"]

#: AWS's smallest page, and its largest one of types and of offerings, which are also what one gets
#: unasked.
_SMALLEST, _TYPES, _OFFERINGS = 5, 100, 1000


def install() -> None:
    """Replace moto's answers."""
    from moto.core.responses import ActionResult
    from moto.ec2.exceptions import InvalidInstanceTypeError
    from moto.ec2.models.instance_types import InstanceTypeBackend
    from moto.ec2.responses.instances import InstanceResponse

    described_anywhere = InstanceTypeBackend.describe_instance_types

    def described(
        backend: Any, instance_types: list[str] | None = None, filters: Any = None
    ) -> list[Any]:
        here = {
            offer["InstanceType"] for offer in backend.describe_instance_type_offerings("region")
        }
        unknown = set(instance_types or ()) - here
        if unknown:
            raise InvalidInstanceTypeError(sorted(unknown), error_type="InvalidInstanceType")
        return [
            one
            for one in described_anywhere(backend, instance_types, filters)
            if one["InstanceType"] in here
        ]

    def describe_instance_types(response: Any) -> Any:
        found = response.ec2_backend.describe_instance_types(
            response._get_param("InstanceTypes", []), response._filters_from_querystring()
        )
        return ActionResult(_page("InstanceTypes", found, response, most=_TYPES))

    def describe_instance_type_offerings(response: Any) -> Any:
        found = response.ec2_backend.describe_instance_type_offerings(
            response._get_param("LocationType"), response._filters_from_querystring()
        )
        return ActionResult(_page("InstanceTypeOfferings", found, response, most=_OFFERINGS))

    InstanceTypeBackend.describe_instance_types = described
    InstanceResponse.describe_instance_types = describe_instance_types
    InstanceResponse.describe_instance_type_offerings = describe_instance_type_offerings


def _page(member: str, found: list[Any], response: Any, *, most: int) -> dict[str, Any]:
    """Return the part of an answer that was asked for, and the token of the next one where there is
    one.
    """
    from moto.ec2.exceptions import InvalidNextToken, InvalidParameterValue

    size, token = (
        int(response._get_param("MaxResults") or most),
        response._get_param("NextToken") or "",
    )
    if not _SMALLEST <= size <= most:
        raise InvalidParameterValue(
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value between "
            f"{_SMALLEST} and {most}."
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
