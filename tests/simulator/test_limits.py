"""Limits that two owners of one team share: at a plan, a start, a scale and under load, by the
scheduler's host; and none of them can change the limits.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask import Cluster, Workspace
from terradask._clusters import limits
from terradask._network.baseline import Baseline
from terradask._observe import running
from terradask.errors import QuotaExceeded
from terradask_host.rules.limits import Limits, uses_of
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import HANG_SECONDS, eventually
from .acting import Account, code_of, host, refused
from .left_alone import numbers

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ZONES = {"zones": ["us-east-1a", "us-east-1b"]}
LIMITS = {
    "workspace": {"hosts": 20, "hourly_usd": 50, "monthly_usd": 1000},
    "each_owner": {"vcpus": 16, "gpus": 0},
    "teams": {"blue": {"hosts": 5}, "green": {"hosts": 5}},
}
BLUE: dict[str, Any] = {
    "tags": {"team": "blue"},
    "worker_vm_types": ["m6i.xlarge"],
    "scheduler_vm_types": ["m6i.xlarge"],
}
EAGER = {"interval": "100 ms", "target_duration": "500 ms", "wait_count": 10}

Policies = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", autouse=True)
def _limited(sim: Simulator, sim_environ: dict[str, str], policies: Policies) -> Iterator[None]:
    """Apply the network with limits, as its owners do, and later without them."""
    with sim.acting_as("setup", *policies["setup"]):
        workspace = Workspace.load(network=ZONES, limits=LIMITS)
        workspace.apply(workspace.plan_network())
    yield
    with sim.acting_as("setup", *policies["setup"]):
        workspace = Workspace.load(network=ZONES)
        workspace.apply(workspace.plan_network())
        assert workspace.baseline().limits == {}
        with pytest.raises(ClientError, match="NoSuchKey"):
            sim.client("s3").get_object(Bucket=workspace.bucket, Key="host/limits.json")


@pytest.fixture
def etl(sim: Simulator, policies: Policies) -> Iterator[Cluster]:
    """A cluster of Lia's, in the team blue: the scheduler's host and two workers'."""
    with (
        sim.hollow_hosts(),
        sim.acting_as("lia", *policies["user"]),
        Cluster("sums", n_workers=2, max_workers=9, wait_for_workers=True, **BLUE) as cluster,
    ):
        yield cluster


def test_another_plan_of_the_same_changes_nothing(sim: Simulator, policies: Policies) -> None:
    with sim.acting_as("setup", *policies["setup"]):
        workspace = Workspace.load(network=ZONES, limits=LIMITS)
        assert not workspace.plan_network().changed
        assert workspace.baseline().limits["set_by"].endswith(":assumed-role/setup/setup")


def test_the_schedulers_host_cuts_a_number_and_a_load(
    etl: Cluster,
    sim: Simulator,
    policies: Policies,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.WARNING, "terradask")
    etl.scale(9)
    # 16 vCPUs are four hosts, the scheduler's included.
    eventually(lambda: numbers(sim, "sums") == (3, 3))
    told = (
        "cluster sums: the workspace's limits allow group workers 3 of 9 hosts: owner lia/lia may "
        "use 16 vCPUs at once (set by setup/setup on "
    )
    eventually(lambda: told in caplog.text)
    assert "12 are in use: 12 in sums (lia/lia)" in caplog.text
    lia = sim.environ_of("lia", *policies["user"])
    shown = in_this_process("scale", "sums", "9", environ=lia, folder=tmp_path)
    assert shown.stdout == "sums: workers is scaled to 3 of 9 workers\n"
    # A load meets the same, and says it once. It is there before its policy, which otherwise might
    # first retire a host.
    client = etl.get_client()
    futures = client.map(_slow, range(400), pure=False)
    etl.adapt(minimum=1, maximum=9, **EAGER)
    client.gather(futures[:200])
    assert numbers(sim, "sums")[0] == 3
    client.cancel(futures)
    reasons = [str(each.reason) for each in etl.events() if each.state == "scaled"]
    # A load that pauses on a busy machine meets it anew.
    assert sum("the workspace's limits allow 3 of " in each for each in reasons) in (1, 2, 3)


def _slow(number: int) -> int:
    time.sleep(0.1)
    return number


def test_a_start_beyond_the_teams_limit_names_who_uses_it(
    etl: Cluster, sim: Simulator, policies: Policies, tmp_path: Path
) -> None:
    bob = sim.environ_of("bob", *policies["user"])
    with sim.acting_as("bob", *policies["user"]):
        warnings: list[str] = []
        # His own settings don't matter.
        workspace = Workspace.load(
            limits={"workspace": {"hosts": 1000}},
            progress=lambda event: warnings.append(str(getattr(event, "text", ""))),
        )
        deployment = workspace.apply(workspace.plan_cluster("train", max_workers=9, **BLUE))
        assert any(
            "train: at max_workers it would exceed the workspace's limits: team blue may use 5 "
            "hosts at once (set by setup/setup on " in text
            for text in warnings
        )
        with pytest.raises(QuotaExceeded) as refused:
            deployment.start(n_workers=2)
        assert numbers(sim, "train") == (0, 0)
        assert deployment.current_run() is None
    text = str(refused.value)
    assert "team blue may use 5 hosts at once (set by setup/setup on " in text
    assert "3 are in use: 3 in sums (lia/lia)" in text
    assert refused.value.largest == {"workers": 1}
    (quota,) = refused.value.quotas
    assert (quota["limit"], quota["in_use"], quota["needed"]) == (5.0, 3.0, 3.0)
    shown = in_this_process("limits", "--team", "blue", "--json", environ=bob, folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (row,) = json.loads(shown.stdout)["limits"]
    assert (row["limit"], row["used"], row["left"]) == (5.0, 3.0, 2.0)
    assert [(one["cluster"], one["amount"]) for one in row["clusters"]] == [("sums", 3.0)]
    table = in_this_process("limits", environ=bob, folder=tmp_path)
    # Columns are as wide as the other rows' names.
    assert "team blue hosts 5" in " ".join(table.stdout.split())
    # One worker and the scheduler fit.
    started = in_this_process("start", "train", "--n-workers", "1", environ=bob, folder=tmp_path)
    assert started.returncode == 0, started.stderr
    eventually(lambda: numbers(sim, "train") == (1, 1))
    # With both, the team has none left.
    etl.scale(3)
    time.sleep(1)
    assert numbers(sim, "sums")[0] == 2
    again = in_this_process("start", "train", "--n-workers", "9", environ=bob, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    with sim.acting_as("bob", *policies["user"]):
        Workspace.load().destroy_cluster("train")


def test_prepared_hosts_count_for_who_applied_them_before_any_start(
    sim: Simulator, policies: Policies, tmp_path: Path
) -> None:
    lia = sim.environ_of("lia", *policies["user"])
    with sim.acting_as("lia", *policies["user"]):
        workspace = Workspace.load()
        workspace.apply(workspace.plan_cluster("kept", standby=1, max_workers=2, **BLUE))
        try:
            shown = in_this_process(
                "limits", "--owner", "lia/lia", "--json", environ=lia, folder=tmp_path
            )
            (vcpus,) = [r for r in json.loads(shown.stdout)["limits"] if r["measure"] == "vcpus"]
            assert [(one["cluster"], one["amount"]) for one in vcpus["clusters"]] == [("kept", 4.0)]
            # Schedulers' hosts read no types.
            (group,) = sim.client("autoscaling").describe_auto_scaling_groups(
                AutoScalingGroupNames=["terradask-default-kept-workers"]
            )["AutoScalingGroups"]
            (use,) = uses_of([group], "team")
            assert (use.owner, use.prepared) == (workspace.aws.caller_arn, 1)
            assert use.size.vcpus == 4
        finally:
            workspace.destroy_cluster("kept")


def test_a_cluster_that_can_never_start_is_not_planned(sim: Simulator, policies: Policies) -> None:
    with (
        sim.acting_as("bob", *policies["user"]),
        pytest.raises(QuotaExceeded, match="owner bob/bob may use 16 vCPUs at once"),
    ):
        Workspace.load().plan_cluster("huge", n_workers=4, **BLUE)


def test_an_apply_compares_what_its_plan_has_compared(
    sim: Simulator, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits of now: they may have become stricter since the plan."""
    compared: list[limits.PlannedCluster] = []
    check = limits.check_planned

    def recorded(*arguments: Any, **options: Any) -> dict[str, str]:
        compared.append(arguments[2])
        return check(*arguments, **options)

    monkeypatch.setattr(limits, "check_planned", recorded)
    stricter = Limits.read({"workspace": {"hosts": 2}})
    with sim.acting_as("lia", *policies["user"]):
        workspace = Workspace.load()
        plan = workspace.plan_cluster("late", n_workers=2, **BLUE)
        monkeypatch.setattr(Baseline, "limits_in_force", stricter)
        with pytest.raises(QuotaExceeded, match="the workspace may use 2 hosts at once"):
            workspace.apply(plan)
        assert not workspace.deployment("late").exists
    planned, applied = compared
    assert (planned.name, planned.members) == (applied.name, applied.members)
    assert planned.hosts == applied.hosts


def test_of_two_starts_in_the_same_second_one_is_refused(
    sim: Simulator, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A start counts for some seconds more than its hosts: for an owner and a team of its own.
    names, green = ("race-a", "race-b"), {**BLUE, "tags": {"team": "green"}}
    both_have_read = threading.Barrier(len(names))
    reads = threading.local()

    def read_use(*arguments: Any) -> Any:
        found = running.read_use(*arguments)
        if not getattr(reads, "done", False):
            reads.done = True
            both_have_read.wait(HANG_SECONDS)
        return found

    with sim.hollow_hosts(), sim.acting_as("leo", *policies["user"]):
        workspace = Workspace.load()
        deployments = [
            workspace.apply(workspace.plan_cluster(name, max_workers=3, **green)) for name in names
        ]
        monkeypatch.setattr(limits, "read_use", read_use)
        with ThreadPoolExecutor(len(names)) as pool:
            # Three hosts each; the team may have five.
            started = [pool.submit(each.start, n_workers=2) for each in deployments]
        refused = [each.exception() for each in started if each.exception()]
        assert [type(each) for each in refused] == [QuotaExceeded], refused
        (loser,) = (n for n, each in zip(names, started, strict=True) if each.exception())
        (winner,) = {*names} - {loser}
        assert f"3 are in use: 3 in {winner} (leo/leo)" in str(refused[0])
        assert [numbers(sim, name)[0] for name in (winner, loser)] == [2, 0]
        assert workspace.deployment(loser).current_run() is None
        for name in names:
            workspace.destroy_cluster(name)


def test_what_a_users_own_calls_add_is_counted_and_nothing_is_added_to_it(
    etl: Cluster, sim: Simulator, policies: Policies, tmp_path: Path
) -> None:
    lia = sim.environ_of("lia", *policies["user"])
    group = "terradask-default-sums-workers"
    with contextlib.ExitStack() as clients:
        own = Account(sim, lia, clients).client("autoscaling")
        # AWS knows no sum: only the group's maximum holds this call.
        own.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=5)
        eventually(lambda: numbers(sim, "sums") == (5, 5))
        assert code_of(own.set_desired_capacity, AutoScalingGroupName=group, DesiredCapacity=10)
        etl.scale(9)
        time.sleep(1)
        assert numbers(sim, "sums")[0] == 5
        shown = in_this_process("status", "sums", "--json", environ=lia, folder=tmp_path)
        (held, *_) = json.loads(shown.stdout)["limits"]
        assert held.startswith("no worker can be added: team blue may use 5 hosts at once")
        text = in_this_process("status", "sums", environ=lia, folder=tmp_path).stdout
        assert f"\nlimit      {held}" in text
        # In a shared workspace another user may change it too: it counts for its owner.
        bob = Account(sim, sim.environ_of("bob", *policies["user"]), clients)
        bob.client("autoscaling").set_desired_capacity(
            AutoScalingGroupName=group, DesiredCapacity=4
        )
        eventually(lambda: numbers(sim, "sums") == (4, 4))
        seen = in_this_process(
            "limits", "--owner", "lia/lia", "--json", environ=lia, folder=tmp_path
        )
        (vcpus,) = [r for r in json.loads(seen.stdout)["limits"] if r["measure"] == "vcpus"]
        assert (vcpus["limit"], vcpus["used"], vcpus["left"]) == (16.0, 20.0, 0.0)
        # The tags of a group are its users': forged, they count for the workspace all the same.
        forged = {"team": "", "terradask:run:owner": "nobody", "terradask:run:size": "vcpus=0"}
        own.create_or_update_tags(
            Tags=[
                {
                    "ResourceId": group,
                    "ResourceType": "auto-scaling-group",
                    "Key": key,
                    "Value": value,
                    "PropagateAtLaunch": False,
                }
                for key, value in forged.items()
            ]
        )
        for caller, month in (("bob", 0.0), ("setup", None)):
            kind = "setup" if caller == "setup" else "user"
            environ = sim.environ_of(caller, *policies[kind])
            seen = in_this_process("limits", "--json", environ=environ, folder=tmp_path)
            assert seen.returncode == 0, seen.stderr
            rows = {
                (row["scope"], row["measure"]): row
                for row in json.loads(seen.stdout)["limits"]
                if row["scope"] == "workspace"
            }
            assert rows["workspace", "hosts"]["used"] == 5.0
            spent = rows["workspace", "monthly_usd"]["used"]
            assert (spent is None) is (month is None)
            assert ("this month's cost isn't known" in seen.stderr) is (month is None)


def test_a_start_of_a_cluster_that_was_raised_by_hand_is_compared(
    sim: Simulator, policies: Policies
) -> None:
    with (
        sim.hollow_hosts(),
        sim.acting_as("lia", *policies["user"]),
        contextlib.ExitStack() as clients,
    ):
        workspace = Workspace.load()
        deployment = workspace.apply(workspace.plan_cluster("byhand", max_workers=9, **BLUE))
        own = Account(sim, sim.environ_of("lia", *policies["user"]), clients)
        own.client("autoscaling").set_desired_capacity(
            AutoScalingGroupName="terradask-default-byhand-workers", DesiredCapacity=1
        )
        try:
            with pytest.raises(QuotaExceeded, match="team blue may use 5 hosts at once"):
                deployment.start(n_workers=9)
            assert numbers(sim, "byhand")[0] == 1
        finally:
            workspace.destroy_cluster("byhand")


def test_a_task_with_its_schedulers_rights_changes_no_limit_and_no_size(
    etl: Cluster, sim: Simulator
) -> None:
    bucket = "terradask-default-123456789012-us-east-1"
    group = {"AutoScalingGroupName": "terradask-default-sums-workers"}
    with contextlib.ExitStack() as clients:
        owner = Account(sim, sim.environ, clients)
        task = host(owner, sim, clients, "terradask-default-scheduler")
        s3, groups = task.client("s3"), task.client("autoscaling")
        for key in ("workspace.json", "host/limits.json", "accounts/starting.json"):
            assert refused(s3.put_object, Bucket=bucket, Key=key, Body=b"{}")
            assert refused(s3.delete_object, Bucket=bucket, Key=key)
        tag = {"Key": "terradask:run:size", "Value": "vcpus=0", "PropagateAtLaunch": False}
        named = {"ResourceId": group["AutoScalingGroupName"], "ResourceType": "auto-scaling-group"}
        assert refused(groups.create_or_update_tags, Tags=[{**named, **tag}])
        assert refused(groups.update_auto_scaling_group, **group, MaxSize=50)
        # Up to the group's maximum, AWS holds no number that it sets.
        groups.set_desired_capacity(**group, DesiredCapacity=3)
        assert code_of(groups.set_desired_capacity, **group, DesiredCapacity=10)
        eventually(lambda: numbers(sim, "sums") == (3, 3))


@pytest.mark.parametrize("key", ["workspace.json", "host/limits.json"])
def test_no_user_changes_the_limits(sim: Simulator, policies: Policies, key: str) -> None:
    bucket = "terradask-default-123456789012-us-east-1"
    with sim.acting_as("lia", *policies["user"]):
        s3 = Workspace.load().aws.client("s3")
        for call in (s3.delete_object, s3.put_object):
            with pytest.raises(Exception, match=r"(?i)denied|refuses"):
                call(Bucket=bucket, Key=key)
