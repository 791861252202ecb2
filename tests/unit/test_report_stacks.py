"""Several stacks in one plan: which are planned, which wait, which fail; and what `terradask apply`
takes its words for.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from terradask._common.progress import silent
from terradask._plans.basis import commit_of
from terradask._plans.impact import RunningCluster
from terradask._plans.report import PlanReport, ReportContext
from terradask._workspace.clusters import Clusters
from terradask._workspace.planner import Planner, in_order
from terradask.cli._apply import _targets
from terradask.errors import NoBaseline, SettingsError, TerraformCancelled, TerraformError
from terradask_modules.where import Where
from terradask_stacks.settings import Settings

from .report_data import CONTEXT, of_changes, report


class PlannedAsTold(Planner):
    """Plans stacks, without Terraform, as it is told."""

    def __init__(
        self, *clusters: str, baseline: bool = True, fails: dict[str, Exception] | None = None
    ) -> None:
        context: Any = SimpleNamespace(
            aws=None,
            progress=silent,
            settings=SimpleNamespace(clusters=clusters),
            network=SimpleNamespace(baseline=self._read_baseline),
        )
        super().__init__(context)
        self.planned: list[tuple[str, bool]] = []
        self.planned_before_commit: int | None = None
        self._baseline, self._fails = baseline, fails or {}

    def _read_baseline(self) -> None:
        if not self._baseline:
            raise NoBaseline("no network")

    def plan_network(self, *, destroy: bool = False, **options: Any) -> Any:
        return self._plan_cluster("network", destroy=destroy)

    def _plan_cluster(self, name: str, *args: Any, destroy: bool = False, **options: Any) -> Any:
        if name in self._fails:
            raise self._fails[name]
        self.planned.append((name, destroy))
        return SimpleNamespace(stack=name)

    def _unchanged(self, stacks: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in stacks if name == "b")

    def _report_context(self) -> ReportContext:
        self.planned_before_commit = len(self.planned)
        return CONTEXT

    def _report(self, plan: Any, context: ReportContext) -> PlanReport:
        assert context is CONTEXT
        return of_changes(stack=plan.stack)


def test_the_network_and_every_declared_cluster_by_default():
    planner = PlannedAsTold("b", "a")
    plans = planner.plan()
    assert (
        [plan.stack for plan in plans.plans]
        == [r.stack for r in plans.report.plans]
        == ["network", "b", "a"]
    )
    assert plans.report.stack is None
    assert planner.plan(["a"]).report.stack == "a"
    assert in_order(["a", "network", "b", "a"]) == ["network", "a", "b"]


def test_the_commit_is_asked_for_before_a_plan_writes_anything():
    planner = PlannedAsTold("a", "b")
    planner.plan()
    assert planner.planned_before_commit == 0
    assert len(planner.planned) == 3


def test_without_a_network_clusters_wait():
    planner = PlannedAsTold("a", "b", baseline=False)
    plans = planner.plan()
    assert [plan.stack for plan in plans.plans] == ["network"]
    assert plans.report.waiting == ("a", "b")
    # Who asks for a cluster alone is told what is wrong.
    failing = PlannedAsTold(baseline=False, fails={"a": NoBaseline("no network")})
    with pytest.raises(NoBaseline):
        failing.plan(["a"])


def test_unchanged_stacks_are_not_planned():
    planner = PlannedAsTold("a", "b")
    plans = planner.plan(changed_only=True)
    assert planner.planned == [("network", False), ("a", False)]
    assert plans.report.unchanged == ("b",)
    planner = PlannedAsTold("a", "b")
    planner.plan(["b"], changed_only=True, destroy=True)
    assert planner.planned == [("b", True)]


def test_one_stack_that_fails_stops_no_other():
    error = TerraformError("failed with password=hunter2", verb="plan")
    planner = PlannedAsTold("a", "b", fails={"a": error})
    plans = planner.plan()
    assert [plan.stack for plan in plans.plans] == ["network", "b"]
    assert plans.errors == (error,)
    assert plans.report.verdict == "failed"
    assert plans.report.failed["a"].startswith("failed with password=(sensitive)")
    alone = PlannedAsTold(fails={"a": SettingsError("bad")})
    with pytest.raises(SettingsError):
        alone.plan(["a"])
    cancelled = PlannedAsTold("a", fails={"a": TerraformCancelled("cancelled")})
    with pytest.raises(TerraformCancelled):
        cancelled.plan()


def test_what_runs_is_asked_for_where_it_can_be_hit(monkeypatch: pytest.MonkeyPatch):
    where = Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
    context: Any = SimpleNamespace(
        aws=None,
        network=SimpleNamespace(where=where),
        loaded=SimpleNamespace(path=None, lock_path=None),
        settings=Settings(),
    )
    asked: list[str] = []

    def running(_: Clusters, stack: str) -> tuple[RunningCluster, ...]:
        asked.append(stack)
        return (RunningCluster("b", "running", {"workers": 3}),)

    monkeypatch.setattr(Clusters, "running", running)

    def reported(name: str, stack: str) -> PlanReport:
        plan: Any = SimpleNamespace(
            stack=stack,
            destroy=True,
            opened=False,
            summary=report(name, stack=stack).summary,
            basis=SimpleNamespace(expires_at="later"),
        )
        return Planner(context).report(plan)

    assert [cluster.name for cluster in reported("change", "network").running] == ["b"]
    assert reported("change", "b").expires_at == "later"
    assert asked == ["network", "b"]
    assert reported("create", "network").running == ()
    assert asked == ["network", "b"]


def test_a_cluster_runs_unless_it_is_stopped_or_not_deployed():
    def deployment(name: str, state: str, instances: int, *, exists: bool = True) -> Any:
        status = SimpleNamespace(
            name=name, state=state, groups={"workers": {"instances": instances}}
        )
        return SimpleNamespace(exists=exists, status=lambda: status)

    clusters: Any = Clusters(SimpleNamespace())  # type: ignore[arg-type]
    clusters.deployed = lambda: [
        deployment("a", "stopped", 0),
        deployment("b", "running", 3),
        deployment("c", "running", 1, exists=False),
    ]
    found = clusters.running("network")
    assert [(cluster.name, cluster.workers) for cluster in found] == [("b", 3)]


def test_commit_of_a_checkout(tmp_path: Path):
    assert commit_of(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    (tmp_path / "terradask.toml").write_text("")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["tag", "v1"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    commit = commit_of(tmp_path)
    assert commit is not None
    assert len(commit) == 40
    (tmp_path / "terradask.toml").write_text("[workspace]\n")
    assert commit_of(tmp_path) == f"{commit}-dirty"


def test_words_of_apply_are_stacks_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert _targets((), None) == (None, None)
    assert _targets(("network", "etl"), None) == (None, ("network", "etl"))
    assert _targets(("./plans",), None) == (Path("plans"), None)
    assert _targets(("plans/etl/plan.tfplan",), None) == (Path("plans/etl/plan.tfplan"), None)
    assert _targets((), Path("kept")) == (Path("kept"), None)
    Path("etl").mkdir()
    assert _targets(("etl",), None) == (None, ("etl",))
    Path("etl/report.json").write_text('{"format": 1, "stacks": {}}')
    with pytest.raises(click.UsageError, match="exclude"):
        _targets(("etl",), Path("kept"))
    with pytest.raises(click.UsageError, match="name nothing else"):
        _targets(("etl", "network"), None)
    assert _targets(("etl",), None) == (Path("etl"), None)
