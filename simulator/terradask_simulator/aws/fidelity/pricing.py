"""``pricing:GetProducts``, for which moto has no backend, with the embedded AWS's own prices.

Filters are ``TERM_MATCH`` and ``EQUALS``; AWS's other filter types are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from terradask_simulator.aws.fidelity import pricing_list, pricing_spot
from terradask_simulator.aws.fidelity.pages import cut
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["answer", "install"]

_TARGET = "AWSPriceListService."
_MOST_RESULTS = 100
_FORMAT = "aws_v1"


class _Refused(Exception):
    """AWS's error for an invalid request."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def install() -> None:
    """Add the price list, and spot prices that fit it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    @around(DomainDispatcherApplication, "get_application")
    def get_application(application_for: Any, dispatcher: Any, environ: dict[str, Any]) -> Any:
        if environ.get("HTTP_X_AMZ_TARGET", "").startswith(_TARGET):
            return _application
        return application_for(dispatcher, environ)

    pricing_spot.install()


def answer(operation: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Answer one request."""
    try:
        if operation != "GetProducts":
            raise _Refused(
                "UnknownOperationException", f"the embedded AWS doesn't answer {operation}"
            )
        return 200, _get_products(request)
    except _Refused as refused:
        return 400, {"__type": refused.code, "Message": str(refused)}


def _application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    code, document = answer(
        environ["HTTP_X_AMZ_TARGET"].removeprefix(_TARGET), json.loads(body or b"{}")
    )
    content = json.dumps(document).encode()
    headers = [
        ("Content-Type", "application/x-amz-json-1.1"),
        ("Content-Length", str(len(content))),
    ]
    start_response("200 OK" if code == 200 else "400 Bad Request", headers)
    return [content]


def _get_products(request: dict[str, Any]) -> dict[str, Any]:
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


def _page(entries: list[Any], request: dict[str, Any]) -> tuple[list[Any], dict[str, str]]:
    size = request.get("MaxResults", _MOST_RESULTS)
    if not 1 <= size <= _MOST_RESULTS:
        raise _Refused(
            "InvalidParameterException", f"MaxResults is {size}; 1 to {_MOST_RESULTS} are allowed"
        )
    try:
        return cut(entries, request.get("NextToken", ""), size)
    except ValueError as error:
        raise _Refused("InvalidNextTokenException", "Invalid NextToken") from error
