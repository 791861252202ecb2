"""Read service, operation and parameters of a request in any of AWS's protocols."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl

__all__ = [
    "SIGNED",
    "Operation",
    "Parameters",
    "headers_of",
    "named",
    "nested",
    "read_operation",
    "rows",
    "tags_of",
    "texts",
]

#: Parameters as received: strings, lists and tables.
Parameters = Mapping[str, Any]

#: The prefix of a service's actions -> its name in signatures, if they differ.
SIGNED = {"tag": "tagging", "cloudwatch": "monitoring"}
_PREFIXES = {name: prefix for prefix, name in SIGNED.items()}


@dataclass(frozen=True)
class Operation:
    """One request; header names are in lower case."""

    #: The prefix of the service's actions; empty if it isn't an AWS service.
    service: str
    #: Empty for REST services.
    name: str
    #: ``ec2``, ``query``, ``json`` or ``rest``.
    protocol: str
    #: Parameters as received; the query for REST.
    parameters: Parameters
    region: str
    #: Empty for an unsigned request.
    access_key: str
    method: str = "POST"
    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    source_address: str = "127.0.0.1"


def headers_of(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return a WSGI request's headers, with names in lower case."""
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    return headers


def read_operation(environ: Mapping[str, Any], body: bytes) -> Operation:
    """Return the operation of a WSGI request."""
    access_key, region, service = _scope(environ)
    common: dict[str, Any] = {
        "region": region or "us-east-1",
        "access_key": access_key,
        "method": environ.get("REQUEST_METHOD", "GET"),
        "path": environ.get("PATH_INFO", "/")
        .encode("latin-1", "replace")
        .decode("utf-8", "replace"),
        "headers": headers_of(environ),
        "body": body,
        "source_address": environ.get("REMOTE_ADDR", "127.0.0.1"),
    }
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return Operation(service, target.rpartition(".")[2], "json", _json(body), **common)
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        if "Action" in fields:
            return Operation(
                service,
                fields["Action"],
                "ec2" if service == "ec2" else "query",
                {name: _lists(value) for name, value in nested(fields).items()},
                **common,
            )
    query = {
        name: values[0]
        for name, values in parse_qs(
            environ.get("QUERY_STRING", ""), keep_blank_values=True
        ).items()
    }
    return Operation(service or "s3", "", "rest", query, **common)


def _scope(environ: Mapping[str, Any]) -> tuple[str, str, str]:
    header = environ.get("HTTP_AUTHORIZATION", "")
    if "Credential=" in header:
        scope = header.split("Credential=", 1)[1].split(",", 1)[0].strip().split("/")
    else:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        scope = query.get("X-Amz-Credential", [""])[0].split("/")
    if len(scope) < 5:
        return "", "", ""
    service = scope[3].lower()
    return scope[0], scope[2], _PREFIXES.get(service, service)


def _json(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body or b"{}")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def nested(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a form as the tables that the dots in their names make."""
    whole: dict[str, Any] = {}
    for name, value in fields.items():
        place = whole
        *path, last = name.split(".")
        for part in path:
            inner = place.setdefault(part, {})
            # An empty list comes as a value.
            place = inner if isinstance(inner, dict) else place.setdefault(f"{part}?", {})
        place[last] = value
    return whole


def _lists(value: Any) -> Any:
    """Return nested parameters: ``Tag.1.Key`` and ``Tags.member.1.Key`` become lists of tables."""
    if not isinstance(value, dict):
        return value
    if value.keys() == {"member"}:
        return _lists(value["member"])
    if value and all(name.isdigit() for name in value):
        return [_lists(value[name]) for name in sorted(value, key=int)]
    return {name: _lists(inner) for name, inner in value.items()}


def texts(parameters: Parameters, *names: str) -> list[str]:
    """Return the strings, single or listed, of the first of some parameters that is present."""
    for name in names:
        value = parameters.get(name)
        if value:
            return [str(one) for one in (value if isinstance(value, list) else [value])]
    return []


def named(parameters: Parameters, *names: str) -> str:
    """Return the first string under one of some parameter names, or an empty one."""
    return next(iter(texts(parameters, *names)), "")


def tags_of(parameters: Parameters, name: str = "Tags") -> dict[str, str]:
    """Return the tags in parameters."""
    return {
        named(row, "Key", "TagKey"): named(row, "Value", "TagValue")
        for row in rows(parameters, name)
    }


def rows(parameters: Parameters, name: str) -> list[Mapping[str, Any]]:
    """Return the tables in a list."""
    value = parameters.get(name) or []
    return [
        one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)
    ]
