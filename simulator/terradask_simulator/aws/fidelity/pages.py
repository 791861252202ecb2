"""Filter and split responses, which moto returns complete or truncated, and refuse requests with
more values of filters, keys or names than AWS takes.
"""

from __future__ import annotations

import base64
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.group_numbers import error
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["cut", "filtered", "install", "page"]

#: AWS (reported): The maximum number of filter values specified on a single call is 200.
#: https://github.com/gjbae1212/gossm/issues/47
_MOST_VALUES = 200
#: AWS (documented): S3 DeleteObjects takes up to 1,000 keys, and refuses more as MalformedXML.
#: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
_MOST_KEYS = 1000
#: AWS (documented): BatchDeleteScheduledAction takes up to 50 names.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_BatchDeleteScheduledAction.html
_MOST_ACTIONS = 50


def install() -> None:
    """Refuse requests that are too long."""
    from moto.autoscaling.responses import AutoScalingResponse
    from moto.ec2.responses._base_response import EC2BaseResponse
    from moto.s3.exceptions import MalformedXML
    from moto.s3.responses import S3Response

    # As a patch: simulator/upstream/release/ec2-filter-values.patch
    @around(EC2BaseResponse, "_filters_from_querystring")
    def few_filters(read: Any, response: Any) -> Any:
        found = read(response)
        if sum(map(len, found.values())) > _MOST_VALUES:
            raise ec2_error(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {_MOST_VALUES}",
            )
        return found

    # As a patch: simulator/upstream/release/s3-delete-keys-limit.patch
    @around(S3Response, "_bucket_response_delete_keys")
    def few_keys(delete: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        if response.body.count(b"<Object>") > _MOST_KEYS:
            raise MalformedXML
        return delete(response, *args, **kwargs)

    # As a patch: simulator/upstream/release/autoscaling-batch-limit.patch
    @around(AutoScalingResponse, "batch_delete_scheduled_action")
    def few_actions(delete: Any, response: Any) -> Any:
        if len(response._get_param("ScheduledActionNames", [])) > _MOST_ACTIONS:
            raise error(
                "1 validation error detected: Value at 'scheduledActionNames' failed to satisfy "
                f"constraint: Member must have length less than or equal to {_MOST_ACTIONS}"
            )
        return delete(response)


def filtered(shown: list[dict[str, Any]], response: Any) -> list[dict[str, Any]]:
    """Return the resources that the filters of an EC2 request match: by tags, and by members."""
    for name, values in response._filters_from_querystring().items():
        shown = [one for one in shown if _value(one, name) in values]
    return shown


def _value(shown: dict[str, Any], name: str) -> str | None:
    if name.startswith("tag:"):
        return next((one["Value"] for one in shown["Tags"] if f"tag:{one['Key']}" == name), None)
    return str(shown.get("".join(word.title() for word in name.split("-"))))


def page(
    member: str, found: list[Any], response: Any, *, smallest: int, most: int
) -> dict[str, Any]:
    """Return the requested page of an EC2 response and the next page's token, if any."""
    from moto.ec2.exceptions import InvalidNextToken, InvalidParameterValue

    size = int(response._get_param("MaxResults") or most)
    token = response._get_param("NextToken") or ""
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
