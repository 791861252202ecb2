"""A colleague with ``user``, or a task, writes a cluster's documents; an administrator uses the
cluster.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from terradask import Workspace
from terradask.errors import ClusterError, ForeignDescriptor, ForeignResources
from terradask_simulator import Simulator

from ..simulator.acting import host
from .planted_scene import BUCKET, FOREIGN_GROUP, FOREIGN_SECRET, Scene

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

KEY = "clusters/etl/cluster.json"
MARK = "clusters/etl/closing.json"
SCHEDULER = "terradask-default-etl-scheduler"


def in_group(document: dict[str, Any], name: str) -> None:
    document["groups"]["workers"]["autoscaling_group"] = name


def another_group(document: dict[str, Any], key: str) -> None:
    document["groups"][key] = {**document["groups"]["workers"], "autoscaling_group": FOREIGN_GROUP}


@pytest.mark.parametrize(
    ("field", "plant"),
    [
        ("groups.workers.autoscaling_group", lambda d: in_group(d, FOREIGN_GROUP)),
        (
            "groups.workers.autoscaling_group",
            lambda d: in_group(d, "terradask-default-other-workers"),
        ),
        ("groups", lambda d: another_group(d, "../prod")),
        ("groups.gpu.autoscaling_group", lambda d: another_group(d, "gpu")),
        ("secret_id", lambda d: d.update(secret_id=FOREIGN_SECRET)),
        ("secret_id", lambda d: d.update(secret_id="terradask/default/other")),
        ("workspace", lambda d: d.update(workspace="default-two")),
        ("cluster", lambda d: d.update(cluster="other")),
        ("bucket", lambda d: d.update(bucket="terradask-default-210987654321-us-east-1")),
        ("region", lambda d: d.update(region="eu-west-1")),
    ],
)
def test_names_in_a_descriptor_lead_nowhere_else(
    scene: Scene, field: str, plant: Callable[[dict[str, Any]], None]
) -> None:
    before = scene.document(KEY)
    planted = json.loads(json.dumps(before))
    plant(planted)
    scene.plant(KEY, planted)
    try:
        for act in (
            lambda: scene.workspace.deployment("etl").stop(),
            lambda: scene.workspace.deployment("etl").start(check_quotas=False),
            lambda: scene.workspace.deployment("etl").mark_closing(),
        ):
            with pytest.raises(ForeignDescriptor) as refused:
                act()
            assert f"has an unexpected {field}:" in refused.value.problem
            assert f"s3://{BUCKET}/{KEY}" in str(refused.value.advice)
        assert scene.untouched()
    finally:
        scene.plant(KEY, before)
        scene.workspace.deployment("etl").keep()


def test_the_names_of_another_workspace_are_not_enough(scene: Scene) -> None:
    """Workspace ``default-etl`` with cluster ``x`` has groups that are named like those of cluster
    ``etl-x`` in ``default``.
    """
    name = "terradask-default-etl-x-workers"
    scene.group(name, {"terradask:workspace": "default-etl", "terradask:cluster": "x"})
    scene.group(
        "terradask-default-etl-x-scheduler",
        {"terradask:workspace": "default-etl", "terradask:cluster": "x"},
    )
    text = json.dumps(scene.document(KEY))
    planted = json.loads(
        text.replace("terradask-default-etl-", "terradask-default-etl-x-").replace(
            "terradask/default/etl", "terradask/default/etl-x"
        )
    )
    scene.plant("clusters/etl-x/cluster.json", {**planted, "cluster": "etl-x"})
    try:
        deployment = scene.workspace.deployment("etl-x")
        for act in (
            deployment.stop,
            lambda: deployment.start(check_quotas=False),
            deployment.groups.set_watchdog,
            lambda: deployment.groups.set_desired("workers", 2),
            lambda: deployment.groups.tag({"terradask:run:id": "x"}),
        ):
            with pytest.raises(ForeignResources, match="isn't this cluster's") as refused:
                act()
            assert refused.value.exit_code == 8
        assert {one["id"] for one in refused.value.resources} == {
            name,
            "terradask-default-etl-x-scheduler",
        }
        assert scene.desired(name) == 1
        # A reader sees a cluster without groups.
        assert deployment.status().groups == {}
    finally:
        s3 = scene.owner.client("s3")
        for one in s3.list_objects_v2(Bucket=BUCKET, Prefix="clusters/etl-x/")["Contents"]:
            s3.delete_object(Bucket=BUCKET, Key=one["Key"])


def test_a_secret_without_the_clusters_tags_is_not_written(scene: Scene) -> None:
    secrets = scene.owner.client("secretsmanager")
    tag = {"Key": "terradask:cluster", "Value": "etl"}
    secrets.untag_resource(SecretId="terradask/default/etl", TagKeys=[tag["Key"]])
    try:
        for act in (
            scene.workspace.deployment("etl").stop,
            lambda: scene.workspace.deployment("etl").start(check_quotas=False),
        ):
            with pytest.raises(ForeignResources, match="secret"):
                act()
        versions = secrets.list_secret_version_ids(SecretId="terradask/default/etl")
        assert versions["Versions"] == []
        assert scene.workspace.deployment("etl").status().state == "stopped"
    finally:
        secrets.tag_resource(SecretId="terradask/default/etl", Tags=[tag])


def test_a_secret_that_a_colleague_deletes_stops_no_stop(scene: Scene) -> None:
    named = {"SecretId": "terradask/default/etl"}
    scene.colleague.client("secretsmanager").delete_secret(**named)
    try:
        assert scene.workspace.deployment("etl").stop()
        with pytest.raises(
            ClusterError,
            match="keys of its runs, is missing",
        ) as caught:
            scene.workspace.deployment("etl").start(check_quotas=False)
        assert "terradask apply etl" in str(caught.value)
        assert scene.workspace.deployment("etl").run() is None
    finally:
        scene.owner.client("secretsmanager").restore_secret(**named)


@pytest.mark.parametrize("days", [None, 7])
def test_a_secret_that_a_colleague_makes_anew_is_replaced(scene: Scene, days: int | None) -> None:
    """Or one that they let AWS delete in a week; its keys and its policy are theirs."""
    secrets, named = scene.colleague.client("secretsmanager"), {"SecretId": "terradask/default/etl"}
    tags = [
        {"Key": f"terradask:{key}", "Value": value}
        for key, value in (("workspace", "default"), ("cluster", "etl"))
    ]
    if days is None:
        secrets.delete_secret(**named, ForceDeleteWithoutRecovery=True)
        secrets.create_secret(Name=named["SecretId"], SecretString="theirs", Tags=tags)
    else:
        secrets.delete_secret(**named, RecoveryWindowInDays=days)
    scene.workspace.apply(scene.workspace.plan_cluster("etl"))
    made = scene.owner.client("secretsmanager").describe_secret(**named)
    assert all(tag in made["Tags"] for tag in tags)
    # Empty, as Terraform makes it.
    assert not made.get("VersionIdsToStages")


def test_a_secret_without_tags_under_the_clusters_name_is_left_alone(scene: Scene) -> None:
    secrets, named = scene.colleague.client("secretsmanager"), {"SecretId": "terradask/default/etl"}
    secrets.delete_secret(**named, ForceDeleteWithoutRecovery=True)
    secrets.create_secret(Name=named["SecretId"], SecretString="theirs")
    plan = scene.workspace.plan_cluster("etl")
    with pytest.raises(ForeignResources, match="secret with the name") as refused:
        scene.workspace.apply(plan)
    assert refused.value.advice is not None
    assert "aws secretsmanager delete-secret" in refused.value.advice
    value = scene.owner.client("secretsmanager").get_secret_value(**named)["SecretString"]
    assert value == "theirs"
    # What the message says.
    secrets.delete_secret(**named, ForceDeleteWithoutRecovery=True)
    scene.workspace.apply(scene.workspace.plan_cluster("etl"))


def test_a_planted_account_moves_no_state(scene: Scene) -> None:
    """The bucket of a state follows from the account, which a planted descriptor names, too."""
    before = scene.document(KEY)
    scene.plant(KEY, {**before, "lock": {**before["lock"], "account": "210987654321"}})
    try:
        plan = scene.workspace.plan_cluster("etl", destroy=True)
    finally:
        scene.plant(KEY, before)
    backend = json.loads((plan.folder / "cdk.tf.json").read_text())["terraform"]["backend"]["s3"]
    assert backend["bucket"] == BUCKET


def test_a_mark_counts_for_nothing_while_a_run_goes_on(scene: Scene, sim: Simulator) -> None:
    """Another cluster's scheduler marks the cluster for destruction: they can share their role."""
    deployment, groups = (
        scene.workspace.deployment("etl"),
        scene.owner.client("autoscaling"),
    )
    run = deployment.start(n_workers=0, check_quotas=False)
    try:
        with contextlib.ExitStack() as clients:
            task = host(scene.owner, sim, clients, "terradask-default-scheduler")
            task.client("s3").put_object(Bucket=BUCKET, Key=MARK, Body=b"not even JSON")
        workspace = Workspace.load(scene.workspace.root)
        assert workspace.strays(grace_seconds=1).strays == ()
        fresh = workspace.deployment("etl")
        assert not fresh.marked_closing
        assert fresh.status().state in {"starting", "running"}
        assert not fresh.snapshot(lambda: None).closing
        assert fresh.start(n_workers=0, check_quotas=False).run_id == run.run_id
        # It counts once the run is over.
        groups.set_desired_capacity(AutoScalingGroupName=SCHEDULER, DesiredCapacity=0)
        assert workspace.deployment("etl").marked_closing
    finally:
        deployment.stop(wait_seconds=30)
        deployment.keep()
