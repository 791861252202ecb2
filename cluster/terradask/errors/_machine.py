"""Software that is missing on this machine."""

from __future__ import annotations

from terradask_modules.errors import TerradaskError


class SetupError(TerradaskError):
    """Something on this machine is missing or too old."""

    exit_code = 3


class TerraformMissing(SetupError):
    """No Terraform was found."""


class TerraformTooOld(SetupError):
    """The Terraform that was found is older than terradask needs."""


class SessionManagerPluginMissing(SetupError):
    """``connect="ssm"`` needs AWS's ``session-manager-plugin``, which is missing or too old."""


class UnsupportedPlatform(SetupError):
    """The client doesn't run on this operating system."""
