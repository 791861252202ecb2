"""Plan several stacks in one go: which are planned, which wait, which fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from terradask._plans.report import PlanReport, WorkspaceReport
from terradask._plans.several import Plans
from terradask._policy.masking import masked_text
from terradask.errors import TerradaskError, TerraformCancelled
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._plans.saved import Plan
    from terradask._workspace.planner import Planner


def plan_stacks(
    planner: Planner,
    stacks: Iterable[str] | None = None,
    *,
    destroy: bool = False,
    refresh: bool = False,
    changed_only: bool = False,
) -> Plans:
    """Plan several stacks; the parameters are those of `Workspace.plan`."""
    # First: planning writes files, and would make the checkout dirty.
    commit = planner.commit()
    names = in_order(planner.declared if stacks is None else stacks)
    alone = names[0] if stacks is not None and len(names) == 1 else None
    waiting = _waiting(planner, names) if not destroy else ()
    names = [name for name in names if name not in waiting]
    unchanged = planner.unchanged(names) if changed_only and not destroy else ()
    plans: list[Plan] = []
    reports: list[PlanReport] = []
    failed: dict[str, TerradaskError] = {}
    for name in names:
        if name in unchanged:
            continue
        try:
            plan = planner.stack(name, destroy=destroy, refresh=refresh)
            reports.append(planner.report(plan, commit=commit))
            plans.append(plan)
        except TerraformCancelled:
            raise
        except TerradaskError as error:
            # Of one stack there is nothing to report beside the error.
            if alone is not None:
                raise
            failed[name] = error
    report = WorkspaceReport(
        context=reports[0].context if reports else planner.report_context(commit=commit),
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


def _waiting(planner: Planner, names: Sequence[str]) -> tuple[str, ...]:
    """Return the clusters that wait for the network that is planned beside them."""
    clusters = tuple(name for name in names if name != NETWORK_STACK)
    if not clusters or NETWORK_STACK not in names or planner.network_is_usable():
        return ()
    return clusters
