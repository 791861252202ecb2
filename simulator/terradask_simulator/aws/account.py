"""The one account of the embedded AWS, and the credentials that may do everything in it."""

from __future__ import annotations

__all__ = ["ACCESS_KEY", "ACCOUNT", "SECRET_KEY"]

#: The account that everything on the embedded AWS belongs to.
ACCOUNT = "123456789012"

#: Credentials of the user of the embedded AWS. They may do everything.
ACCESS_KEY, SECRET_KEY = "AKIATERRADASKSIMULATE", "terradask-simulator"
