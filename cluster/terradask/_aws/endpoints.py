"""Distinguish AWS's endpoints, other ones, and local ones such as the embedded AWS's."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from terradask._common.disk_cache import DiskCache
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
    """Return the name of an endpoint's cache; None for a local one, which is not cached."""
    if endpoint is None or is_aws(endpoint):
        return "aws"
    return (
        None if is_loopback_endpoint({ENDPOINT_VARIABLE: endpoint}) else urlsplit(endpoint).netloc
    )


def own_cache(name: str, endpoint: str) -> DiskCache | None:
    """Return the cache of that name; None for an endpoint that is not cached.

    The embedded AWS has a temporary folder of its own.
    """
    if cache_name(endpoint) is not None:
        return DiskCache(name)
    # pydantic is slow to import
    from terradask_stacks.loading import STATE_DIR_VARIABLE

    folder = os.environ.get(STATE_DIR_VARIABLE)
    return DiskCache(name, Path(folder) / name) if folder else None
