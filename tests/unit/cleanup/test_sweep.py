"""A sweep of an account with everything in it that commands which died can leave; on moto, and so
without Terraform.
"""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._cleanup import sweep as sweeping
from terradask._cleanup.delete import end_instances
from terradask._cleanup.orphans import Swept
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.workspace import Workspace
from terradask.cli import run
from terradask_host.structure import Structure

from ..host_facts import run_document
from .planted import Planted
from .swept_account import BUCKET, GRACE, Account, keys, swept


def test_everything_of_a_cluster_without_a_deployment_goes_and_nothing_else(
    workspace: Workspace, account: Account
) -> None:
    account.put("clusters/live/cluster.json")
    account.put("clusters/live/hosts/i-1.json")
    account.put("clusters/gone/hosts/i-2.json")
    account.put("workspace.json", json.dumps({"format": 0}))
    stays = {
        account.group("live", "terradask-default-live-workers"),
        account.group("gone", "terradask-other-gone-workers", "other"),
    }
    for cluster in ("live", "gone"):
        account.secret(cluster)
    account.secret("gone", "other")
    account.secret("later", scheduled=True)
    machines = {
        "live": account.instance("live", "terradask-default-live-workers"),
        "lost": account.instance("live", "terradask-default-live-extra"),
        "gone": account.instance("gone"),
        "foreign": account.instance("gone", workspace="other"),
    }
    disk, data = account.volume("terradask-default-worker"), account.volume("my-data")
    interface, theirs = account.interface("terradask-default-scheduler"), account.interface("mine")
    firewall, kept_firewall = account.security_group("gone"), account.security_group("live")
    role, kept_role = account.role("gone"), account.role("live")
    gone_group = account.group("gone", "terradask-default-gone-workers")

    found = workspace.strays(grace_seconds=GRACE)
    expected = {
        ("instance", machines["lost"]),
        ("instance", machines["gone"]),
        ("group", gone_group),
        ("secret", "terradask/default/gone"),
        ("secret", "terradask/default/later"),
        ("objects", "clusters/gone/"),
        ("security-group", firewall),
        ("role", role),
        ("instance-profile", role),
        ("volume", disk),
        ("network-interface", interface),
    }
    assert keys(found) == expected
    assert found.unseen == ()
    # Nothing has gone by looking.
    assert account.groups() == stays | {gone_group}

    done = workspace.sweep(found)
    assert ({stray.key for stray in done.removed}, done.kept, done.failed) == (expected, {}, {})
    assert account.groups() == stays
    assert account.secret_names() == {"terradask/default/live", "terradask/other/gone"}
    assert {name: account.state_of(machine) for name, machine in machines.items()} == {
        "live": "running",
        "lost": "terminated",
        "gone": "terminated",
        "foreign": "running",
    }
    # With the disks of the machines that run.
    assert [
        volume["VolumeId"]
        for volume in account.ec2.describe_volumes()["Volumes"]
        if volume["State"] == "available"
    ] == [data]
    assert {
        i["NetworkInterfaceId"]
        for i in account.ec2.describe_network_interfaces()["NetworkInterfaces"]
        if i["Status"] == "available"
    } == {theirs}
    groups = {
        group["GroupId"] for group in account.ec2.describe_security_groups()["SecurityGroups"]
    }
    assert (firewall in groups, kept_firewall in groups) == (False, True)
    assert account.roles() == {kept_role}
    # The lock that kept others out is gone as well.
    assert account.keys() == [
        "clusters/live/cluster.json",
        "clusters/live/hosts/i-1.json",
        "workspace.json",
    ]
    assert keys(workspace.strays(grace_seconds=GRACE)) == set()
    assert swept(workspace) == Swept((), {}, {})


@pytest.mark.parametrize("settings", ['isolation = "cluster"', ""])
def test_a_placement_group_that_an_interrupted_command_left_goes(
    root: Path, region: Aws, settings: str
) -> None:
    (root / "terradask.toml").write_text(f"[workspace]\n{settings}\n")
    workspace = Workspace(WorkspaceContext.load(SettingsSource(root, {}), aws=region))
    workspace.aws.client("s3").create_bucket(Bucket=BUCKET)
    Account(workspace).put("clusters/live/cluster.json")
    for cluster in ("live", "gone"):
        Planted(region, "default", cluster, kinds=frozenset({"aws_placement_group"}))
    assert {stray.key for stray in swept(workspace).removed} == {
        ("placement-group", "terradask-default.gone")
    }
    (left,) = region.client("ec2").describe_placement_groups()["PlacementGroups"]
    assert left["GroupName"] == "terradask-default.live"


def test_what_is_young_is_left_alone_and_what_has_no_date_is_looked_at_twice(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, firewall = (
        account.group("gone", "terradask-default-gone-workers"),
        account.security_group("fire"),
    )
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    found = workspace.strays(grace_seconds=3600)
    assert [stray.may_go(found.looked_at) for stray in found.strays] == [False, False]
    done = workspace.sweep(found)
    assert (done.removed, done.failed, waited) == ((), {}, [])
    assert all("younger than 3600 s" in why for why in done.kept.values())
    # A minute is waited, no longer.
    found = workspace.strays(grace_seconds=30)
    workspace.sweep(found)
    assert len(waited) == 1
    assert 25 < waited[0] <= 32
    assert account.groups() == {group}
    assert {stray.id for stray in swept(workspace).removed} == {group, firewall}


def test_what_a_run_has_cost_stays_when_its_documents_go(
    workspace: Workspace, account: Account
) -> None:
    group = {"autoscaling_group": "terradask-default-gone-workers", "role": "worker"}
    structure = {"groups": {"workers": {**group, "max_size": 4}}, "worker": {}}
    told = run_document(structure=Structure.read(structure))
    document = {**told.to_document(), "run_id": "20261124T080000Z-1f3a9c", "owner": "ada"}
    account.put("clusters/gone/run.json", json.dumps(document))
    assert [stray.kind for stray in swept(workspace).removed] == ["objects"]
    (kept,) = account.keys()
    assert kept == "accounts/20261124T080000Z-1f3a9c/gone.json"
    stored = workspace.aws.client("s3").get_object(Bucket=BUCKET, Key=kept)["Body"].read()
    assert json.loads(stored)["owner"] == "ada"
    assert json.loads(stored)["ended_at"] is not None


def test_what_somebody_owns_by_now_stays(workspace: Workspace, account: Account) -> None:
    group = account.group("late", "terradask-default-late-workers")
    found = workspace.strays(grace_seconds=GRACE)
    account.put("clusters/late/cluster.json")
    done = workspace.sweep(found)
    assert done.removed == ()
    assert list(done.kept.values()) == ["it no longer exists, or has an owner now"]
    assert account.groups() == {group}


def test_a_mark_counts_when_no_group_is_to_have_an_instance(
    workspace: Workspace, account: Account
) -> None:
    """Schedulers' roles may write it for any cluster."""
    for key in ("kept/cluster.json", "over/cluster.json", "over/run.json", "over/closing.json"):
        account.put(f"clusters/{key}")
    group = account.group("over", "terradask-default-over-workers")
    want = account.autoscaling.set_desired_capacity
    want(AutoScalingGroupName=group, DesiredCapacity=1)
    assert workspace.strays(grace_seconds=GRACE).strays == ()
    want(AutoScalingGroupName=group, DesiredCapacity=0)
    assert keys(workspace.strays(grace_seconds=GRACE)) == {("deployment", "over")}
    assert (
        not workspace.strays(grace_seconds=900)
        .strays[0]
        .may_go(datetime.datetime.now(datetime.UTC))
    )


@pytest.mark.parametrize("name", ["network", "../../etc", "Their Cluster"])
def test_a_name_that_no_cluster_has_makes_nothing_ours(
    workspace: Workspace, account: Account, name: str
) -> None:
    machine = account.instance(name)
    account.put(f"clusters/{name}/x")
    assert swept(workspace) == Swept((), {}, {})
    assert account.state_of(machine) == "running"
    assert not list(workspace.root.glob("**/.*.lock"))


def test_a_missing_bucket_of_states_is_in_nobodys_way(
    workspace: Workspace, account: Account
) -> None:
    machine = account.instance("gone")
    assert [stray.id for stray in swept(workspace).removed] == [machine]


def test_machines_end_with_their_group_or_by_themselves(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = account.group("gone", "terradask-default-gone-workers")
    account.autoscaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=1)
    alone = account.instance("gone", "terradask-default-gone-other")
    asked: list[str] = []
    monkeypatch.setattr(sweeping, "end_instances", lambda aws, ids, **_: asked.extend(ids))
    kinds = sorted(stray.kind for stray in swept(workspace).removed)
    assert (kinds, asked) == (["group", "instance", "instance"], [alone])
    (member,) = {
        i["InstanceId"]
        for r in account.ec2.describe_instances()["Reservations"]
        for i in r["Instances"]
    } - {alone}
    assert account.state_of(member) == "terminated"


def test_a_machine_that_ec2_hides_is_not_taken_for_gone(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For up to a minute EC2 may not know what it has launched; asked to end it, it refuses the
    others with it.
    """
    hidden, shown = account.instance("gone"), account.instance("gone")
    client, asked = workspace.aws.client("ec2"), []
    terminate = client.terminate_instances

    def hiding(*, InstanceIds: list[str]) -> Any:  # noqa: N803  as boto3 names it
        asked.append(InstanceIds)
        if hidden in InstanceIds and len(asked) < 6:
            raise ClientError(
                {"Error": {"Code": "InvalidInstanceID.NotFound", "Message": "no"}},
                "TerminateInstances",
            )
        return terminate(InstanceIds=InstanceIds)

    monkeypatch.setattr(client, "terminate_instances", hiding)
    end_instances(workspace.aws, [hidden, shown], cluster="gone", progress=lambda _: None)
    assert {account.state_of(hidden), account.state_of(shown)} == {"terminated"}
    assert len(asked) >= 6


def test_without_a_bucket_everything_is_a_stray(workspace: Workspace, account: Account) -> None:
    account.s3.delete_bucket(Bucket=BUCKET)
    machine, firewall = account.instance("gone"), account.security_group("gone")
    assert {stray.id for stray in swept(workspace).removed} == {machine, firewall}


def test_expired_plans_of_this_machine_go(root: Path, workspace: Workspace) -> None:
    plans = root / ".terradask/plans"
    plans.mkdir(parents=True)
    for name, days in (("old--1.tfplan", 2), ("new--1.tfplan", 0)):
        (plans / name).write_text("x")
        os.utime(plans / name, times=(time.time() - days * 86_400,) * 2)
    assert [Path(stray.id).name for stray in swept(workspace).removed] == ["old--1.tfplan"]
    assert [path.name for path in plans.iterdir()] == ["new--1.tfplan"]


def test_the_command(
    root: Path, workspace: Workspace, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    def sweep(*arguments: str, code: int = 0) -> Any:
        assert run(["-C", str(root), "sweep", *arguments]) == code
        return capsys.readouterr()

    assert (
        "nothing to sweep in workspace default, us-east-1, account 123456789012"
        in sweep("--yes").err
    )
    group = account.group("gone", "terradask-default-gone-workers")
    shown = sweep("--dry-run", "--grace", "900").out.splitlines()
    assert shown[0].split() == ["KIND", "ID", "CLUSTER", "AGE", "$", "AN", "HOUR", "WHY"]
    assert shown[1].split()[:3] == ["group", group, "gone"]
    assert "kept until it is 900 s old" in shown[1]
    document = json.loads(sweep("--yes", "--json", "--grace", "900").out)
    assert (document["removed"], len(document["kept"]), document["strays"][0]["removable"]) == (
        [],
        1,
        False,
    )
    assert account.groups() == {group}
    told = sweep("--yes", "--grace", "1").err
    assert f"removing group {group}: its cluster's deployment is gone" in told
    assert "removed 1 of 1" in told
    assert account.groups() == set()


def test_a_state_that_cant_be_read_counts_as_a_deployment(
    workspace: Workspace, account: Account
) -> None:
    account.put("clusters/half/terraform.tfstate", "no JSON")
    assert keys(workspace.strays(grace_seconds=GRACE)) == {("deployment", "half")}
