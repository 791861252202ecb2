"""Why a cluster has its instance types: in a plan's report, on the command line, from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from terradask._catalog.instance_types.choose import choose, choose_default
from terradask._catalog.instance_types.model import Supply
from terradask._catalog.prices.groups import PlannedStack
from terradask._observe.documents import Descriptor
from terradask._plans.render_markdown import to_markdown
from terradask._plans.render_terminal import to_text
from terradask._synthesis.answers import HardwareExplanation
from terradask._synthesis.resolve_hardware import ClusterHardware
from terradask._workspace.workspace import Workspace
from terradask.cli import run
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_facts import catalog, prices
from .report_data import report, whole

REASON = "m5a.2xlarge and 11 more for 8 cores: family m (4 GiB a core), since cores alone are given"


def _explanation(**locked: list[str]) -> HardwareExplanation:
    ask = HardwareRequest.of("worker", cpu=[2, 8], memory="16 GiB")
    supply = Supply.of(catalog(), prices(), zones=["us-east-1a"])
    workers = choose(ask, supply)
    scheduler = choose_default(HardwareRequest.of("scheduler"), ["m6i.xlarge"], supply)
    assert scheduler is not None
    return HardwareExplanation(
        "etl", ClusterHardware("us-east-1a", {"workers": workers, "scheduler": scheduler}), locked
    )


def test_a_choice_in_a_line():
    reasons = _explanation().chosen.reasons()
    first = _explanation().chosen.types()["workers"][0]
    assert reasons["workers"].startswith(f"{first} and ")
    assert " more for 2 to 8 cores, 16 GiB of memory: families c, m and r" in reasons["workers"]
    assert (
        reasons["scheduler"]
        == "m6i.xlarge: the default, since no hardware is requested: 4 cores and 16 GiB"
    )
    named = choose(HardwareRequest.of(vm_types=["m6i.large"]), Supply.of(catalog()))
    assert named.reason == "m6i.large: the named types, in their order"


def test_a_plans_report_has_a_line_for_each_group():
    shown = report(hardware={"workers": REASON})
    assert f"hardware:\n  workers: {REASON}\n" in to_text(shown)
    assert shown.as_dict()["hardware"] == {"workers": REASON}
    assert shown.as_dict()["container"] is None
    assert "<summary>Hardware</summary>\n\n- workers: m5a.2xlarge" in to_markdown(whole(shown))
    assert "Hardware" not in to_markdown(whole(report()))


def test_a_plans_report_names_the_environment_that_its_hosts_run():
    shown = report(environment="team, 2 packages, created by <ana>")
    assert "environment: team, 2 packages, created by <ana>\n" in to_text(shown)
    assert shown.as_dict()["environment"] == "team, 2 packages, created by <ana>"
    assert "- environment: team, 2 packages, created by &lt;ana&gt;" in to_markdown(whole(shown))
    assert report().as_dict()["environment"] is None


def test_a_plan_knows_why_from_the_descriptor():
    content = json.dumps({"lock": {"reasons": {"workers": REASON}}})
    entry = {
        "address": "a",
        "type": "aws_s3_object",
        "values": {"key": "clusters/etl/cluster.json", "content": content},
    }
    assert PlannedStack.of({"planned_values": {"root_module": {"resources": [entry]}}}).reasons == {
        "workers": REASON
    }
    # What an older terradask wrote.
    entry["values"] = {"key": "clusters/etl/cluster.json", "content": '{"lock": {}}'}
    assert (
        PlannedStack.of({"planned_values": {"root_module": {"resources": [entry]}}}).reasons == {}
    )


def test_what_is_locked_is_told_where_today_would_give_something_else():
    today = _explanation().chosen.types()["workers"]
    assert "chooses again" not in _explanation(workers=today).explain()
    other = _explanation(workers=["m5.xlarge"])
    assert (
        "workers: locked since its first plan: m5.xlarge; `terradask plan --refresh etl`"
        in other.explain()
    )


def test_the_command_explains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked: list[str] = []

    def explain(_workspace: Workspace, name: str) -> HardwareExplanation:
        asked.append(name)
        return _explanation(workers=["m5.xlarge"])

    monkeypatch.setattr(Workspace, "explain", explain)
    monkeypatch.chdir(tmp_path)
    assert run(["explain", "etl"]) == 0
    said, beside = capsys.readouterr()
    assert "etl isn't declared" in beside
    assert said.startswith(
        "worker: 2 to 8 cores, 16 GiB of memory (within 10 %: 14.4 to 17.6 GiB of memory), "
        "x86_64, in us-east-1a"
    )
    assert "left out:" in said
    assert run(["explain", "etl", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["locked"] == {"workers": ["m5.xlarge"]}
    assert document["groups"]["workers"]["asked"] == {
        "worker_cpu": [2, 8],
        "worker_memory": "16 GiB",
    }
    (tmp_path / "terradask.toml").write_text("[clusters.etl]\n")
    assert run(["explain", "etl"]) == 0
    assert "declared" not in capsys.readouterr().err
    assert asked == ["etl"] * 3


def test_a_cluster_tells_its_hardware():
    lock = {"worker_instance_types": ["m5.xlarge"], "scheduler_instance_types": ["m6i.large"]}
    cluster = Descriptor("w", "etl", "us-east-1", "b", "us-east-1a", {}, "s", {}, lock)
    assert cluster.hardware["workers"] == {"types": ["m5.xlarge"], "asked": {}, "reason": ""}
    lock |= {"asked": {"workers": {"worker_cpu": 4}}, "reasons": {"workers": REASON}}
    assert cluster.hardware["workers"] == {
        "types": ["m5.xlarge"],
        "asked": {"worker_cpu": 4},
        "reason": REASON,
    }
