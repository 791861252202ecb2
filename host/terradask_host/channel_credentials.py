"""Credentials of conda channels in requests, for clients and hosts.

They are by the channel's URL: ``user:password`` as in a URL, ``Bearer TOKEN``, or the path up to
``/t/TOKEN``, the prefix of the channel's own part in a server's URLs.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

_BEARER = "Bearer "
_TOKEN = "/t/"  # noqa: S105 - not a token, but the prefix of one


def headers(host: str, path: str, credentials: Mapping[str, str]) -> dict[str, str] | None:
    """Return the additional headers of a request to a host's path, or None."""
    for url, each in credentials.items():
        channel = urlsplit(url)
        is_below = path.startswith(f"{channel.path.rstrip('/')}/")
        if host == channel.hostname and is_below and not each.startswith("/"):
            basic = base64.b64encode(unquote(each).encode()).decode()
            return {"Authorization": each if each.startswith(_BEARER) else f"Basic {basic}"}
    return None


def with_token(url: str, credentials: Mapping[str, str]) -> str:
    """Return a URL with the token of its channel, if that has one."""
    for channel, each in credentials.items():
        if each.startswith("/") and (url == channel or url.startswith(f"{channel}/")):
            parts, shared = urlsplit(url), each.rpartition(_TOKEN)[0]
            return urlunsplit(parts._replace(path=each + parts.path.removeprefix(shared)))
    return url


def secret_of(credentials: str) -> str:
    """Return the secret part of credentials, also of a package index's."""
    if credentials.startswith("/"):
        return credentials.rpartition(_TOKEN)[2]
    if credentials.startswith(_BEARER):
        return credentials.removeprefix(_BEARER)
    user, _, password = credentials.partition(":")
    # Without a password, a token stands in the user's place.
    return password or user
