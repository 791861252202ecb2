"""Which HTTP requests come from a program of this machine, and not from a page in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Door"]


class Door:
    """Knows requests of web pages: browsers name the page's ``Origin`` in those that change
    something or whose answer the page wants to read, and a page whose name was made to resolve to
    this machine asks for that name as ``Host``.
    """

    def __init__(self, port: int) -> None:
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})

    def problem(self, environ: Mapping[str, Any]) -> str:
        """Return why a request is refused, or nothing."""
        if "HTTP_ORIGIN" in environ:
            return "requests of web pages are refused"
        if environ.get("HTTP_HOST", "").lower() not in self._hosts:
            return f"the Host is none of {', '.join(sorted(self._hosts))}"
        return ""
