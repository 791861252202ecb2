"""Requests with a token at the beginning of their path, and their answers: what is behind the proxy
knows nothing of it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace

from terradask_host.http_proxy.request import END_OF_HEAD, Request

_LOCATION = re.compile(rb"(?im)^(location:[ \t]*)/(?!/)([^\r\n]*)")
_REFERRER_POLICY = re.compile(rb"(?im)^referrer-policy:[^\r\n]*\r\n")


def without_token(request: Request) -> Request:
    """Return the request without the first part of its path."""
    return replace(request, path="/" + "/".join(request.path.split("/")[2:]))


def with_token(head: bytes, inner: Request) -> bytes:
    """Return the head of an answer as the browser gets it: a redirect stays below the token, by a
    relative path, and no page names its address to another one.
    """
    up = b"../" * (inner.path.count("/") - 1) or b"./"
    changed = _LOCATION.sub(lambda found: found[1] + up + found[2], _REFERRER_POLICY.sub(b"", head))
    return changed[: -len(END_OF_HEAD)] + b"\r\nReferrer-Policy: no-referrer" + END_OF_HEAD
