"""Plans of several stacks in one go: each of its own, one report, one folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._plans.report import PlanReport, WorkspaceReport
from terradask._plans.report_sources import context_of, report_on, workspace_commit
from terradask._policy.masking import masked_text
from terradask.errors import BaselineFormat, NoBaseline, TerradaskError, TerraformCancelled
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._plans.saved import Plan
    from terradask._workspace.planning import PlanningWorkspace


@dataclass(frozen=True)
class Plans:
    """Plans of several stacks of one workspace.

    Parameters
    ----------
    plans
        The plans, in the order in which they are to be applied.
    report
        What a reviewer gets: these plans, and the stacks that have none.
    errors
        Why stacks could not be planned.
    """

    plans: tuple[Plan, ...]
    report: WorkspaceReport
    errors: tuple[TerradaskError, ...] = ()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save plans and reports for `Workspace.open_plans`, in place of what an earlier call left there.

        Parameters
        ----------
        folder
            The folder; each stack gets one in it.

        Raises
        ------
        InvalidInput
            If something else is in the folder.
        """
        from terradask._plans.folder import PlanFolder

        PlanFolder(Path(folder)).write(self.report, self.plans)


def plan_stacks(
    workspace: PlanningWorkspace,
    stacks: Iterable[str] | None = None,
    *,
    destroy: bool = False,
    refresh: bool = False,
    changed_only: bool = False,
) -> Plans:
    """Plan several stacks; the parameters are those of `Workspace.plan`."""
    commit = workspace_commit(workspace)
    names = in_order([NETWORK_STACK, *workspace.settings.clusters] if stacks is None else stacks)
    alone = names[0] if stacks is not None and len(names) == 1 else None
    waiting = _waiting(workspace, names) if not destroy else ()
    names = [name for name in names if name not in waiting]
    unchanged = _unchanged(workspace, names) if changed_only and not destroy else ()
    plans: list[Plan] = []
    reports: list[PlanReport] = []
    failed: dict[str, TerradaskError] = {}
    for name in names:
        if name in unchanged:
            continue
        try:
            plan = _plan(workspace, name, destroy=destroy, refresh=refresh)
            reports.append(report_on(workspace, plan, commit=commit))
            plans.append(plan)
        except TerraformCancelled:
            raise
        except TerradaskError as error:
            # Of one stack there is nothing to report beside the error.
            if alone is not None:
                raise
            failed[name] = error
    report = WorkspaceReport(
        context=reports[0].context if reports else context_of(workspace, commit=commit),
        plans=tuple(reports),
        unchanged=unchanged,
        waiting=waiting,
        failed={name: masked_text(str(error)) for name, error in failed.items()},
        stack=alone,
    )
    return Plans(tuple(plans), report, tuple(failed.values()))


def in_order(stacks: Iterable[str]) -> list[str]:
    """Return stacks in the order in which they are applied, each once: the network first."""
    names = list(dict.fromkeys(stacks))
    return sorted(names, key=lambda name: name != NETWORK_STACK)


def _plan(workspace: PlanningWorkspace, name: str, *, destroy: bool, refresh: bool) -> Plan:
    if name == NETWORK_STACK:
        return workspace.plan_network(destroy=destroy, refresh=refresh)
    return workspace.plan_cluster(name, destroy=destroy, refresh=refresh)


def _waiting(workspace: PlanningWorkspace, names: Sequence[str]) -> tuple[str, ...]:
    """Return the clusters that wait for a network which is planned beside them: it isn't there yet, or in a form that they can't use."""
    clusters = tuple(name for name in names if name != NETWORK_STACK)
    if not clusters or NETWORK_STACK not in names:
        return ()
    try:
        workspace.baseline()
    except (NoBaseline, BaselineFormat):
        return clusters
    return ()


def _unchanged(workspace: PlanningWorkspace, names: Sequence[str]) -> tuple[str, ...]:
    from terradask._plans.applied import AppliedNotes

    return AppliedNotes(workspace.aws, workspace.bucket).unchanged(workspace.synth(names))
