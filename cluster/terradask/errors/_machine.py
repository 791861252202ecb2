"""Software that is missing on this machine."""

from __future__ import annotations

from terradask_modules.errors import TerradaskError


class SetupError(TerradaskError):
    """Something that terradask needs on this machine is missing or too old: install it."""

    exit_code = 3


class SessionManagerPluginMissing(SetupError):
    """``connect="ssm"`` needs AWS's ``session-manager-plugin``, which is missing or too old."""
