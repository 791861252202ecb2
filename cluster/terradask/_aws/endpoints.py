"""Endpoints of AWS: its own, another one, or one on this machine, such as the embedded AWS's."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from terradask_modules.partitions import SUFFIXES

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"


def is_loopback_endpoint(environ: Mapping[str, str]) -> bool:
    """Return whether ``AWS_ENDPOINT_URL`` is on this machine: an embedded AWS, not the real one."""
    host = urlsplit(environ.get(ENDPOINT_VARIABLE, "")).hostname
    if not host:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_aws(endpoint: str) -> bool:
    """Return whether an endpoint's URL is one of AWS's own."""
    ours = (*(f".{suffix}" for suffix in SUFFIXES), ".api.aws")
    return (urlsplit(endpoint).hostname or "").endswith(ours)


def cache_name(endpoint: str | None) -> str | None:
    """Return the name of an endpoint's cache; None for one on this machine, which keeps nothing."""
    if endpoint is None or is_aws(endpoint):
        return "aws"
    return (
        None if is_loopback_endpoint({ENDPOINT_VARIABLE: endpoint}) else urlsplit(endpoint).netloc
    )
