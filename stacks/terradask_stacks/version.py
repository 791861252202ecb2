"""The version of terradask that documents name."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def terradask_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version("terradask")
    except PackageNotFoundError:
        return "0.0.0"
