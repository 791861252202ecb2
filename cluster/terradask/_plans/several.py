"""Plan several stacks together: a plan each, one report, one folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._plans.folder import PlanFolder

if TYPE_CHECKING:
    from terradask._plans.report import WorkspaceReport
    from terradask._plans.saved import Plan
    from terradask.errors import TerradaskError


@dataclass(frozen=True)
class Plans:
    """Plans of several stacks of one workspace.

    Parameters
    ----------
    plans
        The plans, in the order in which they are to be applied.
    report
        The report for a reviewer: these plans, and the stacks that have none.
    errors
        Why stacks could not be planned.
    """

    plans: tuple[Plan, ...]
    report: WorkspaceReport
    errors: tuple[TerradaskError, ...] = ()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save plans and reports for `Workspace.open_plans`, replacing those of an earlier call.

        Parameters
        ----------
        folder
            The folder; each stack gets a folder in it.

        Raises
        ------
        InvalidInput
            If something else is in the folder.
        """
        PlanFolder(Path(folder)).write(self.report, self.plans)
