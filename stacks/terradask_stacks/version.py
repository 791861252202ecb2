"""The version of terradask that documents name."""

from __future__ import annotations

from terradask_modules.frameworks import installed_version


def terradask_version() -> str:
    """Return the version of the installed distribution."""
    return installed_version("terradask") or "0.0.0"
