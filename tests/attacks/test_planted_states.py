"""A colleague with ``user`` writes a cluster's Terraform state; an administrator plans, applies or
destroys the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask._common.progress import PhaseFinished, ProgressEvent
from terradask.errors import ForeignResources

from ..command import in_this_process
from ..left_over import leftovers
from .planted_scene import FOREIGN_GROUP, FOREIGN_SECRET, SIMILAR_SECRET, Scene

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

KEY = "clusters/etl/terraform.tfstate"
AWS = 'provider["registry.terraform.io/hashicorp/aws"]'


def entry(kind: str, address: str, /, **attributes: Any) -> dict[str, Any]:
    return {
        "mode": "managed",
        "type": kind,
        "name": address,
        "provider": AWS,
        "instances": [{"schema_version": 0, "attributes": attributes}],
    }


def entries(scene: Scene) -> dict[str, dict[str, Any]]:
    """Everything that a colleague may try to have destroyed, read or run, by what it is."""
    secret = scene.ids[FOREIGN_SECRET]
    ours = next(
        one
        for one in scene.document(KEY)["resources"]
        if (one["type"], one["name"]) == ("aws_autoscaling_group", "workers")
    )
    deposed = {**ours["instances"][0], "deposed": "0badc0de"}
    deposed["attributes"] = {
        **deposed["attributes"],
        "id": FOREIGN_GROUP,
        "name": FOREIGN_GROUP,
    }
    return {
        "a group": entry("aws_autoscaling_group", "web", id=FOREIGN_GROUP, name=FOREIGN_GROUP),
        "a group that a worker group could be": entry(
            "aws_autoscaling_group",
            "gpu",
            id=FOREIGN_GROUP,
            name="terradask-default-etl-gpu",
            force_delete=True,
        ),
        "a deposed object of an own address": {**ours, "instances": [*ours["instances"], deposed]},
        "a secret": entry("aws_secretsmanager_secret", "keys", id=secret, name=FOREIGN_SECRET),
        "a part of an ARN, which is that of another cluster's secret": entry(
            "aws_secretsmanager_secret", "keys", id=scene.ids[SIMILAR_SECRET].rpartition("-")[0]
        ),
        "a secret's value, to be read": entry(
            "aws_secretsmanager_secret_version", "keys", id=f"{secret}|v1", secret_id=secret
        ),
        "an object": entry(
            "aws_s3_object", "descriptor", id="workspace.json", bucket="x", key="workspace.json"
        ),
        "a template under an own name": entry(
            "aws_launch_template",
            "worker-x86_64",
            id=scene.template,
            name="terradask-default.etl-worker",
        ),
        "a list": {
            **entry("aws_autoscaling_group", "scheduler", id="x"),
            "instances": [{"index_key": 0, "attributes": {"id": "x"}}],
        },
        "a module": {**entry("aws_autoscaling_group", "scheduler", id="x"), "module": "module.m"},
        "another provider": {
            **entry("evil_thing", "x", id="x"),
            "provider": 'provider["registry.example.com/evil/thing"]',
        },
        "another provider of the same name": {
            **entry("aws_autoscaling_group", "scheduler", id="terradask-default-etl-scheduler"),
            "provider": 'provider["registry.example.com/hashicorp/aws"]',
        },
        "another provider, and nothing made": {
            **entry("evil_thing", "x"),
            "provider": 'provider["registry.example.com/evil/thing"]',
            "instances": [],
        },
        "a program": {
            **entry("external", "x", program=["sh", "-c", "touch /tmp/ran"], id="-"),
            "mode": "data",
            "provider": 'provider["registry.terraform.io/hashicorp/external"]',
        },
        "escape sequences": entry("aws_instance", "\x1b[2J\x1b[1;1H", id="i-\x1b]0;x\x07"),
    }


NAMES = [
    "a group",
    "a group that a worker group could be",
    "a deposed object of an own address",
    "a secret",
    "a part of an ARN, which is that of another cluster's secret",
    "a secret's value, to be read",
    "an object",
    "a template under an own name",
    "a list",
    "a module",
    "another provider",
    "another provider of the same name",
    "another provider, and nothing made",
    "a program",
    "escape sequences",
]


def planted(state: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Return a state with an entry, in place of the own one at its address."""
    place = (one["type"], one["name"])
    kept = [each for each in state["resources"] if (each["type"], each["name"]) != place]
    return {**state, "serial": state["serial"] + 1, "resources": [*kept, one]}


@pytest.fixture
def state(scene: Scene) -> Iterator[dict[str, Any]]:
    """The state as it was; afterwards it is so again."""
    found = scene.document(KEY)
    yield found
    if scene.desired("terradask-default-etl-workers") is not None:
        scene.plant(KEY, found)


@pytest.mark.parametrize("what", NAMES)
def test_a_foreign_entry_stops_everything_before_anything_changes(
    scene: Scene, state: dict[str, Any], what: str
) -> None:
    one = entries(scene)[what]
    scene.plant(KEY, planted(state, one))
    with pytest.raises(ForeignResources) as refused:
        scene.workspace.destroy_cluster("etl")
    text = str(refused.value)
    assert one["type"] in text
    assert "terradask repair-state etl" in text
    assert text.isprintable() or "\x1b" not in text
    assert scene.untouched()
    assert not scene.is_closing()
    assert scene.desired("terradask-default-etl-workers") == 0
    folder = scene.workspace.root / "cdktf.out/stacks/etl/.terraform/providers"
    assert {path.name for path in folder.glob("*/*")} <= {"hashicorp"}
    assert {path.name for path in folder.glob("*")} <= {"registry.terraform.io"}


def test_plans_and_drift_are_refused_as_well(scene: Scene, state: dict[str, Any]) -> None:
    plan = scene.workspace.plan_cluster("etl", max_workers=2)
    scene.plant(KEY, planted(state, entries(scene)["a group"]))
    for act in (
        lambda: scene.workspace.apply(plan),
        lambda: scene.workspace.plan_cluster("etl"),
        lambda: scene.workspace.plan_cluster("etl", destroy=True),
        lambda: scene.workspace.drift(["etl"]),
    ):
        with pytest.raises(ForeignResources):
            act()
    assert scene.untouched()


def test_a_state_that_is_written_after_the_check_is_not_what_is_destroyed(
    scene: Scene, state: dict[str, Any]
) -> None:
    evil = planted(state, entries(scene)["a group"])

    def write(event: ProgressEvent) -> None:
        if isinstance(event, PhaseFinished) and event.phase == "init":
            scene.plant(KEY, evil)

    workspace = Workspace.load(scene.workspace.root, progress=write)
    with pytest.raises(ForeignResources):
        workspace.plan_cluster("etl", max_workers=2)
    scene.plant(KEY, state)
    with pytest.raises(ForeignResources):
        workspace.destroy_cluster("etl")
    assert scene.untouched()
    assert scene.desired("terradask-default-etl-workers") == 0
    scene.workspace.deployment("etl").keep()


def test_the_way_forward_leaves_the_foreign_things_and_removes_the_cluster(
    scene: Scene, state: dict[str, Any]
) -> None:
    evil = planted(planted(state, entries(scene)["a group"]), entries(scene)["a program"])
    scene.plant(KEY, evil)
    run(scene.workspace.root, "destroy", "etl", "--yes", code=8)
    shown = json.loads(run(scene.workspace.root, "repair-state", "etl", "--dry-run", "--json"))
    assert [one["address"] for one in shown["foreign"]] == [
        "aws_autoscaling_group.web",
        "data.external.x",
    ]
    assert scene.document(KEY) == evil
    run(scene.workspace.root, "repair-state", "etl", "--yes")
    repaired = scene.document(KEY)
    assert (repaired["resources"], repaired["serial"]) == (state["resources"], evil["serial"] + 1)
    assert json.loads(run(scene.workspace.root, "repair-state", "etl", "--yes", "--json")) == {
        "cluster": "etl",
        "foreign": [],
        "removed": False,
    }
    run(scene.workspace.root, "destroy", "etl", "--yes")
    assert scene.untouched()
    assert leftovers("default", cluster="etl") == []


def run(root: Path, *arguments: str, code: int = 0) -> str:
    """Run the command in the administrator's folder; return its output."""
    done = in_this_process(*arguments, folder=root)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
