"""The baseline: the network that clusters share."""

from __future__ import annotations

from terradask_modules.errors import TerradaskError


class BaselineError(TerradaskError):
    """A problem with the network that clusters share, or that it lacks something: apply it."""

    exit_code = 6


class NoBaseline(BaselineError):
    """The network isn't deployed."""


class BaselineFormat(BaselineError):
    """The network was made by a version of terradask whose format the client can't read: update
    one of them.
    """
