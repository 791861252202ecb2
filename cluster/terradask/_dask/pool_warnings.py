"""What keeps groups of workers from their numbers, as warnings in the log, once for each cause."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from terradask._common.once import OncePerCause
from terradask._deployments.documents import Descriptor
from terradask._deployments.problems import group_problems
from terradask._deployments.shortfall import Shortfall, describe
from terradask_host.rules.autoscaling_groups import Group

logger = logging.getLogger("terradask")


@dataclass(eq=False, repr=False)
class PoolWarnings:
    """The warnings of one cluster."""

    name: str
    descriptor: Descriptor
    _shortfalls: OncePerCause = field(default_factory=OncePerCause, init=False)
    _problems: OncePerCause = field(default_factory=OncePerCause, init=False)

    def of_shortfall(self, shortfall: Shortfall | None, *, pending: bool) -> None:
        """Warn of capacity that AWS doesn't have; with nothing pending, each cause is new again."""
        if shortfall is not None and shortfall.there and self._shortfalls.is_new(*shortfall.causes):
            logger.warning("cluster %s: %s", self.name, describe(shortfall, self.descriptor.pools))
        elif not pending:
            self._shortfalls.clear()

    def of_groups(self, groups: Mapping[str, Group]) -> None:
        """Warn of what was changed beside terradask."""
        found = list(group_problems(self.descriptor, groups, raised=True))
        for problem in found:
            if self._problems.is_new(problem):
                logger.warning("cluster %s: %s", self.name, problem)
        if not found:
            self._problems.clear()
