"""``pricing:GetProducts``, for which moto has no backend, with the embedded AWS's own prices.

Filters are ``TERM_MATCH`` and ``EQUALS``; AWS's other filter types are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from terradask_simulator.aws.fidelity import pricing_list
from terradask_simulator.aws.fidelity.pages import cut

__all__ = ["price_answer"]

_MOST_RESULTS = 100
_FORMAT = "aws_v1"


class _Refused(Exception):
    """AWS's error for an invalid request."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def price_answer(operation: str, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the status and the content of the answer to one request."""
    try:
        if operation != "GetProducts":
            raise _Refused(
                "UnknownOperationException", f"the embedded AWS doesn't answer {operation}"
            )
        return 200, _get_products(request)
    except _Refused as refused:
        return 400, {"__type": refused.code, "Message": str(refused)}


def _get_products(request: Mapping[str, Any]) -> dict[str, Any]:
    service = _service(request.get("ServiceCode"))
    filters = request.get("Filters") or []
    for one in filters:
        if one["Type"] not in {"TERM_MATCH", "EQUALS"}:
            raise _Refused(
                "InvalidParameterException", f"the embedded AWS doesn't filter by {one['Type']}"
            )
    wanted = {one["Field"]: one["Value"] for one in filters}
    regions = [wanted["regionCode"]] if "regionCode" in wanted else pricing_list.regions()
    found = [
        entry for region in regions for entry in pricing_list.products(service, region, wanted)
    ]
    page, token = _page(found, request)
    return {"FormatVersion": _FORMAT, "PriceList": [json.dumps(entry) for entry in page], **token}


def _service(code: Any) -> str:
    if code not in pricing_list.SERVICES:
        raise _Refused(
            "InvalidParameterException",
            f"Input Parameters are invalid: the embedded AWS's price list has no service {code}",
        )
    return str(code)


def _page(entries: list[Any], request: Mapping[str, Any]) -> tuple[list[Any], dict[str, str]]:
    size = request.get("MaxResults", _MOST_RESULTS)
    if not 1 <= size <= _MOST_RESULTS:
        raise _Refused(
            "InvalidParameterException", f"MaxResults is {size}; 1 to {_MOST_RESULTS} are allowed"
        )
    try:
        return cut(entries, request.get("NextToken", ""), size)
    except ValueError as error:
        raise _Refused("InvalidNextTokenException", "Invalid NextToken") from error
