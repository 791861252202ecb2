"""The one account of the embedded AWS."""

from __future__ import annotations

__all__ = ["ACCOUNT"]

#: The account that everything on the embedded AWS belongs to.
ACCOUNT = "123456789012"
