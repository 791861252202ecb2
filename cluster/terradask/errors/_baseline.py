"""The baseline: the network that clusters share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class InUse(TerradaskError):
    """Clusters stand on what a command would take away, so nothing was changed: stop or destroy
    them first.

    Parameters
    ----------
    clusters
        Their names.
    """

    exit_code = 5

    def __init__(
        self,
        problem: str,
        *,
        clusters: Sequence[str],
        given: Any,
        allowed: str | None = None,
        advice: str,
    ) -> None:
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.clusters = tuple(clusters)
