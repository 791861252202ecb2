"""What others change beside terradask, in the console or by a script: a cluster's groups without
tags, with a smaller maximum, with suspended launches, or gone; its documents deleted. Each is said
where users look, with what helps, and the cluster can be ended all the same.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from terradask import Cluster, Deployment, Workspace
from terradask._observe.verdict import Verdict
from terradask.errors import AccessDenied, ClusterError, ClusterNotFound
from terradask_simulator import Simulator

from .. import invariants
from ..command import in_this_process
from ..waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.simulator

NAME = "changed"
GROUPS = {key: f"terradask-default-{NAME}-{key}" for key in ("scheduler", "workers")}
KEYS = ("terradask:workspace", "terradask:cluster", "terradask:role", "terradask:group")


@pytest.fixture(scope="module")
def cluster(sim: Simulator, sim_environ: dict[str, str]) -> Iterator[Cluster]:
    with (
        sim.hollow_hosts(),
        sim.time_hosts(join_poll_seconds=1.0),
        Cluster(
            NAME,
            n_workers=1,
            max_workers=6,
            allow_cross_zone=True,
            wait_for_workers=True,
            shutdown_on_close=False,
            idle_timeout=False,
            scheduler_options={"dashboard": False},
        ) as cluster,
    ):
        yield cluster
    Workspace.load().destroy_cluster(NAME)
    assert invariants.left_behind(sim, NAME) == []


@pytest.fixture
def autoscaling(sim: Simulator) -> Iterator[Any]:
    with contextlib.closing(sim.client("autoscaling")) as client:
        yield client


def problems() -> str:
    return "\n".join(Workspace.load().deployment(NAME).status().problems)


def verdict() -> Verdict:
    (found,) = (one for one in Workspace.load().overview() if one.name == NAME)
    return found.verdict


def desired(autoscaling: Any) -> dict[str, int]:
    found = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[*GROUPS.values()])
    return {
        group["AutoScalingGroupName"]: group["DesiredCapacity"]
        for group in found["AutoScalingGroups"]
    }


def tags(autoscaling: Any) -> list[dict[str, Any]]:
    filters = [{"Name": "auto-scaling-group", "Values": [*GROUPS.values()]}]
    return [
        {key: tag[key] for key in ("ResourceId", "ResourceType", "Key", "Value")}
        | {"PropagateAtLaunch": True}
        for tag in autoscaling.describe_tags(Filters=filters)["Tags"]
    ]


def test_a_smaller_maximum_is_said_and_the_number_is_reached_when_it_is_back(
    sim: Simulator, cluster: Cluster, autoscaling: Any, caplog: pytest.LogCaptureFixture
) -> None:
    group = GROUPS["workers"]
    autoscaling.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=2)
    with caplog.at_level(logging.WARNING, "terradask"):
        cluster.scale(3)
        eventually(lambda: desired(autoscaling)[group] == 2)
        eventually(lambda: "its maximum is 2 at AWS, but 6 was applied" in caplog.text)
    assert "its maximum is 2 at AWS" in problems()
    autoscaling.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=6)
    eventually(lambda: len(cluster.observed) == 3)
    assert problems() == ""
    rest(sim, cluster)


def rest(sim: Simulator, cluster: Cluster) -> None:
    """Bring the cluster to one worker, and wait until nothing else is left."""
    cluster.scale(1)
    eventually(lambda: len(cluster.observed) == 1)
    eventually(lambda: len(zones_of(sim)) == 2)


def test_suspended_launches_are_said_with_awss_reason_and_the_command(
    sim: Simulator, cluster: Cluster, autoscaling: Any, caplog: pytest.LogCaptureFixture
) -> None:
    group = GROUPS["workers"]
    autoscaling.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    try:
        with caplog.at_level(logging.WARNING, "terradask"):
            cluster.scale(2)
            eventually(lambda: "Launch is suspended" in caplog.text)
        command = (
            f"aws autoscaling resume-processes --auto-scaling-group-name {group} "
            "--scaling-processes Launch"
        )
        assert command in problems()
        shown = in_this_process("status", NAME).stdout
        assert command in shown
        assert "Launch of workers is suspended" in in_this_process("list").stderr
    finally:
        autoscaling.resume_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    eventually(lambda: len(cluster.observed) == 2)
    rest(sim, cluster)


def zones_of(sim: Simulator) -> dict[str, str]:
    """Return the zone of each running instance of the cluster."""
    mine = {"Name": "tag:terradask:cluster", "Values": [NAME]}
    on = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    with contextlib.closing(sim.client("ec2")) as ec2:
        pages = ec2.describe_instances(Filters=[mine, on])["Reservations"]
    return {
        one["InstanceId"]: one["Placement"]["AvailabilityZone"]
        for page in pages
        for one in page["Instances"]
    }


def test_workers_of_a_zone_that_is_lost_come_back_in_the_others(
    sim: Simulator, cluster: Cluster
) -> None:
    cluster.scale(4)
    eventually(lambda: len(cluster.observed) == 4)
    zones, workers = zones_of(sim), set(cluster.observed)
    (scheduler,) = zones.keys() - workers
    (lost,) = {zones[one] for one in workers} - {zones[scheduler]}
    with cluster.get_client() as client, sim.no_capacity(zone=lost):
        begun = client.map(lambda n: n + 1, range(100), pure=False)
        for one in sorted(workers):
            if zones[one] == lost:
                sim.kill_host(one)
        eventually(lambda: len(cluster.observed - workers) == 2 and len(cluster.observed) == 4)
        assert client.gather(begun) == list(range(1, 101))
        assert {zones_of(sim)[one] for one in cluster.observed} == {zones[scheduler]}
    rest(sim, cluster)


def test_missing_capacity_is_in_status_and_list_with_its_reason(
    sim: Simulator, cluster: Cluster
) -> None:
    with sim.no_capacity(beyond=len(sim.running_instances())):
        cluster.scale(2)
        told = eventually(problems)
        assert "AWS launches 1 of 2 workers, and no more now" in told
        assert "InsufficientInstanceCapacity" in told
        assert "To do: allow more instance types" in told
        watched = Workspace.load().deployment(NAME).watch().read()
        assert any("InsufficientInstanceCapacity" in each for each in watched.problems)
        # The same verdict for each reader.
        first, second, *_ = in_this_process("status", NAME).stdout.splitlines()
        assert re.fullmatch(NAME + r": 1 of 2 workers: no capacity in .+ since \d\d:\d\d", first)
        assert second == f"next: terradask explain {NAME}"
        assert in_this_process("list").stderr.splitlines()[:2] == [first, second]
        document = json.loads(in_this_process("status", NAME, "--json").stdout)
        assert document["verdict"]["text"] == watched.verdict.text == first.partition(": ")[2]
        assert float(document["run_usd"]) > 0
    with sim.refuse_account("denied"):
        cluster.scale(3)
        denied = eventually(lambda: "AWS denies the launch" in verdict().text and verdict())
        assert denied.command == "terradask doctor"
    rest(sim, cluster)
    assert verdict().text == "1 worker runs"
    assert problems() == ""


@pytest.mark.life
def test_a_cluster_whose_tags_were_taken_off_runs_and_can_be_ended(
    sim: Simulator, cluster: Cluster, autoscaling: Any, policies: dict[str, list[dict[str, Any]]]
) -> None:
    before = tags(autoscaling)
    autoscaling.delete_tags(Tags=before)
    (seen,) = (one for one in Workspace.load().overview() if one.name == NAME)
    assert (seen.state, seen.workers) == ("running", (1, 1))
    assert "the tags of the groups scheduler, workers were removed" in problems()
    assert f"terradask apply {NAME}" in problems()
    # Callers whose rights go by tags are told that.
    with sim.acting_as("user", *policies["user"]), pytest.raises(ClusterError) as refused:
        Workspace.load().deployment(NAME).stop()
    assert "its tags were removed" in str(refused.value)
    assert isinstance(refused.value.__cause__, AccessDenied)
    # Tags of another cluster are no missing ones.
    foreign = [
        {**tag, "Value": "other" if tag["Key"] == "terradask:cluster" else tag["Value"]}
        for tag in before
        if tag["Key"] in KEYS
    ]
    autoscaling.create_or_update_tags(Tags=foreign)
    assert Workspace.load().deployment(NAME).groups.describe() == {}
    with pytest.raises(ClusterError, match="isn't this cluster's"):
        Workspace.load().deployment(NAME).stop()
    autoscaling.delete_tags(Tags=foreign)
    # An apply puts them back, all but the run's, which are no structure.
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster(NAME))
    assert {(tag["ResourceId"], tag["Key"], tag["Value"]) for tag in tags(autoscaling)} == {
        (tag["ResourceId"], tag["Key"], tag["Value"])
        for tag in before
        if not tag["Key"].startswith("terradask:run:")
    }
    assert problems() == ""
    autoscaling.delete_tags(Tags=before)
    Workspace.load().deployment(NAME).stop(wait_seconds=60)
    assert set(desired(autoscaling).values()) == {0}
    # A start puts back what hosts need, and says what will keep it from its numbers.
    group = GROUPS["workers"]
    autoscaling.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    warned: list[str] = []
    Workspace.load().deployment(NAME).start(n_workers=0, warn=warned.append)
    assert any("workers: Launch is suspended" in text for text in warned)
    back = {(tag["ResourceId"], tag["Key"]) for tag in tags(autoscaling)}
    assert {(group, key) for group in GROUPS.values() for key in KEYS} <= back
    Workspace.load().deployment(NAME).stop(wait_seconds=60)


@pytest.mark.life
def test_a_running_cluster_whose_cluster_json_was_deleted_is_said_mended_and_ended(
    sim: Simulator, cluster: Cluster, autoscaling: Any
) -> None:
    def lose() -> Deployment:
        with contextlib.closing(sim.client("s3")) as s3:
            s3.delete_object(Bucket=Workspace.load().bucket, Key=f"clusters/{NAME}/cluster.json")
        return Workspace.load().deployment(NAME)

    started = Workspace.load().deployment(NAME).start(n_workers=0)
    deployment, before = lose(), desired(autoscaling)
    # Nobody takes the name for a new one's: closing such a Cluster would destroy this one.
    for refused in (
        deployment.status,
        deployment.start,
        lambda: Cluster(NAME),
        lambda: Cluster.from_name(NAME),
    ):
        with pytest.raises(ClusterNotFound, match="is missing in the bucket, and the cluster runs"):
            refused()
    shown = in_this_process("status", NAME).stderr
    assert f"terradask apply {NAME} writes it again" in shown
    assert f"terradask stop {NAME} ends the hosts without it" in shown
    assert f"{NAME}: it runs, and its cluster.json is missing" in in_this_process("list").stderr
    (stray,) = (one for one in Workspace.load().strays(grace_seconds=0).strays if one.id == NAME)
    assert "its hosts run, and its cluster.json is gone" in str(stray.held)
    assert desired(autoscaling) == before
    assert before[GROUPS["scheduler"]] == 1
    # It is written again while it runs, and nothing else changes.
    workspace, hosts = Workspace.load(), zones_of(sim)
    workspace.apply(workspace.plan_cluster(NAME))
    status = Workspace.load().deployment(NAME).status()
    assert (status.run_id, zones_of(sim)) == (started.run_id, hosts)
    assert status.state in ("starting", "running")
    # It can be ended without it too.
    lose()
    stopped = in_this_process("stop", NAME)
    assert f"its cluster.json is missing in the bucket; terradask apply {NAME}" in stopped.stderr
    assert set(desired(autoscaling).values()) == {0}
    eventually(lambda: not zones_of(sim))
    workspace.apply(workspace.plan_cluster(NAME))
    assert Workspace.load().deployment(NAME).status().state == "stopped"


def test_three_who_stop_it_at_once_leave_it_stopped(cluster: Cluster, autoscaling: Any) -> None:
    deployments = [Workspace.load().deployment(NAME) for _ in range(3)]
    deployments[0].start(n_workers=0)
    with ThreadPoolExecutor(3) as pool:
        stopped = [pool.submit(each.stop, wait_seconds=HANG_SECONDS) for each in deployments]
        assert [each.result() for each in stopped] == [True] * 3
    assert set(desired(autoscaling).values()) == {0}
    assert deployments[0].status().state == "stopped"


def test_a_group_that_was_deleted_is_named_and_the_rest_can_be_ended(
    cluster: Cluster, autoscaling: Any
) -> None:
    autoscaling.delete_auto_scaling_group(AutoScalingGroupName=GROUPS["workers"], ForceDelete=True)
    eventually(lambda: GROUPS["workers"] not in desired(autoscaling))
    deployment = Workspace.load().deployment(NAME)
    assert "AWS doesn't have the group workers of this cluster any more" in problems()
    assert any(event.state == "stopped" for event in deployment.events())
    deployment.stop()
    with pytest.raises(ClusterError, match="some of its groups are missing"):
        deployment.start()
    with pytest.raises(ClusterError, match="no longer exist: it was destroyed"):
        deployment.groups.set_desired("workers", 1)
