"""Several stacks in one plan: which are planned, which wait, which fail; and what `terradask apply` takes its words for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from terradask._plans import several
from terradask._plans.commit import commit_of
from terradask._plans.report import PlanReport
from terradask._plans.report_sources import running_on
from terradask._plans.several import in_order, plan_stacks
from terradask.cli._apply import _meant
from terradask.errors import NoBaseline, SettingsError, TerraformCancelled, TerraformError

from .report_data import CONTEXT, of_changes, report


class FakeWorkspace:
    """A workspace whose stacks plan as they are told."""

    def __init__(self, *clusters: str, baseline: bool = True, fails: dict[str, Exception] | None = None) -> None:
        self.settings = SimpleNamespace(clusters=dict.fromkeys(clusters))
        self.planned: list[tuple[str, bool]] = []
        self._baseline, self._fails = baseline, fails or {}

    def baseline(self) -> None:
        if not self._baseline:
            raise NoBaseline("no network")

    def plan_network(self, *, destroy: bool, refresh: bool) -> Any:
        return self.plan_cluster("network", destroy=destroy, refresh=refresh)

    def plan_cluster(self, name: str, *, destroy: bool, refresh: bool) -> Any:
        if name in self._fails:
            raise self._fails[name]
        self.planned.append((name, destroy))
        return SimpleNamespace(stack=name)


@pytest.fixture(autouse=True)
def _reports(monkeypatch: pytest.MonkeyPatch) -> None:
    def report_on(_workspace: Any, plan: Any, *, commit: str | None) -> PlanReport:
        assert commit == "0123abcd"
        return of_changes(stack=plan.stack)

    monkeypatch.setattr(several, "report_on", report_on)
    monkeypatch.setattr(several, "context_of", lambda workspace, commit: CONTEXT)
    monkeypatch.setattr(several, "workspace_commit", lambda workspace: "0123abcd")
    monkeypatch.setattr(several, "_unchanged", lambda workspace, names: tuple(name for name in names if name == "b"))


def test_the_network_and_every_declared_cluster_by_default():
    workspace: Any = FakeWorkspace("b", "a")
    plans = plan_stacks(workspace)
    assert [plan.stack for plan in plans.plans] == [r.stack for r in plans.report.plans] == ["network", "b", "a"]
    assert plans.report.stack is None
    assert plan_stacks(workspace, ["a"]).report.stack == "a"
    assert in_order(["a", "network", "b", "a"]) == ["network", "a", "b"]


def test_the_commit_is_asked_for_before_a_plan_writes_anything(monkeypatch: pytest.MonkeyPatch):
    planned_before: list[int] = []
    monkeypatch.setattr(several, "workspace_commit", lambda workspace: planned_before.append(len(workspace.planned)) or "0123abcd")
    workspace: Any = FakeWorkspace("a", "b")
    plan_stacks(workspace)
    assert planned_before == [0]


def test_without_a_network_clusters_wait():
    workspace: Any = FakeWorkspace("a", "b", baseline=False)
    plans = plan_stacks(workspace)
    assert [plan.stack for plan in plans.plans] == ["network"]
    assert plans.report.waiting == ("a", "b")
    # Who asks for a cluster alone is told what is wrong.
    failing: Any = FakeWorkspace(baseline=False, fails={"a": NoBaseline("no network")})
    with pytest.raises(NoBaseline):
        plan_stacks(failing, ["a"])


def test_unchanged_stacks_are_not_planned():
    workspace: Any = FakeWorkspace("a", "b")
    plans = plan_stacks(workspace, changed_only=True)
    assert workspace.planned == [("network", False), ("a", False)]
    assert plans.report.unchanged == ("b",)
    workspace = FakeWorkspace("a", "b")
    plan_stacks(workspace, ["b"], changed_only=True, destroy=True)
    assert workspace.planned == [("b", True)]


def test_one_stack_that_fails_stops_no_other():
    error = TerraformError("failed with password=hunter2", verb="plan")
    workspace: Any = FakeWorkspace("a", "b", fails={"a": error})
    plans = plan_stacks(workspace)
    assert [plan.stack for plan in plans.plans] == ["network", "b"]
    assert plans.errors == (error,)
    assert plans.report.verdict == "failed"
    assert plans.report.failed["a"].startswith("failed with password=(sensitive)")
    alone: Any = FakeWorkspace(fails={"a": SettingsError("bad")})
    with pytest.raises(SettingsError):
        plan_stacks(alone, ["a"])
    cancelled: Any = FakeWorkspace("a", fails={"a": TerraformCancelled("cancelled")})
    with pytest.raises(TerraformCancelled):
        plan_stacks(cancelled)


def test_what_runs_is_asked_for_where_it_can_be_hit():
    def deployment(name: str, state: str, instances: int) -> Any:
        status = SimpleNamespace(name=name, state=state, groups={"workers": {"instances": instances}})
        return SimpleNamespace(exists=True, status=lambda: status)

    stopped, running = deployment("a", "stopped", 0), deployment("b", "running", 3)
    workspace: Any = SimpleNamespace(deployments=lambda: [stopped, running], deployment=lambda name: running)
    assert [(c.name, c.workers) for c in running_on(workspace, report("change").summary)] == [("b", 3)]
    assert [c.name for c in running_on(workspace, report("change", stack="b").summary)] == ["b"]
    nobody: Any = SimpleNamespace(deployment=None)
    assert running_on(nobody, report("create").summary) == ()


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
    assert _meant((), None) == (None, None)
    assert _meant(("network", "etl"), None) == (None, ("network", "etl"))
    assert _meant(("./plans",), None) == (Path("plans"), None)
    assert _meant(("plans/etl/plan.tfplan",), None) == (Path("plans/etl/plan.tfplan"), None)
    assert _meant((), Path("kept")) == (Path("kept"), None)
    Path("etl").mkdir()
    assert _meant(("etl",), None) == (None, ("etl",))
    Path("etl/report.json").write_text('{"format": 1, "stacks": {}}')
    with pytest.raises(click.UsageError, match="exclude"):
        _meant(("etl",), Path("kept"))
    with pytest.raises(click.UsageError, match="beside it"):
        _meant(("etl", "network"), None)
    assert _meant(("etl",), None) == (Path("etl"), None)
