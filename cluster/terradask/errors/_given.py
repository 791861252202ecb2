"""What was given can't be used."""

from __future__ import annotations

from typing import Any

from terradask_modules.errors import InvalidInput


class UnsupportedOption(InvalidInput):
    """A parameter that this version of terradask doesn't build yet.

    Parameters
    ----------
    option
        The parameter's name.
    given
        The value that was given for it.
    advice
        What to use instead.
    """

    def __init__(self, option: str, *, given: Any = None, advice: str | None = None) -> None:
        super().__init__(
            f"{option} is not supported by this version of terradask",
            given=given,
            advice=advice or f"leave {option} out",
        )
        self.option = option


class UnknownZone(InvalidInput):
    """An availability zone that the region doesn't have, or that this account can't use."""


class UnknownInstanceType(InvalidInput):
    """An instance type that the region or the zone doesn't offer."""


class UnknownImage(InvalidInput):
    """An image (AMI) that can't be found in the region."""


class NoIngress(InvalidInput):
    """A cluster that nobody could reach: no rule lets clients in."""
