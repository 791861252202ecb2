"""The account isn't as a cluster needs it."""

from __future__ import annotations

from terradask_modules.errors import TerradaskError


class LiveCheckFailed(TerradaskError):
    """A step of ``terradask doctor --live`` found that something isn't as it has to be."""
