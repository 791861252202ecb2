"""A sweep of an account with everything in it that commands which died can leave; on moto, and so without Terraform."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from terradask._aws.session import Aws
from terradask._cleanup import instances
from terradask._cleanup import sweep as sweeping
from terradask._cleanup.findings import Sweep, Swept
from terradask._deployments.deployment import Deployment
from terradask._pricing.prices import Quotes
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.lock_owner import here
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.destroyer import Destroyer
from terradask._workspace.stack_runner import StackRunner
from terradask._workspace.workspace import Workspace
from terradask.cli import run
from terradask.errors import AccessDenied, FolderBusy, TerraformCancelled
from terradask_modules.names import clusters_role_path, role_name
from terradask_simulator.aws.fidelity import placement_groups

ACCOUNT, REGION = "123456789012", "us-east-1"
BUCKET = f"terradask-default-{ACCOUNT}-{REGION}"
#: As if everything had been there for a while: nothing is waited for.
GRACE = -2
DEAD = 4_000_000
STACK = "cdktf.out/stacks/made"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace whose clusters are isolated, in an account of its own with the workspace's bucket."""
    for name in [name for name in os.environ if name.startswith(("TERRADASK_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr(instances, "PAUSE_SECONDS", 0)
    # moto knows no prices, and a client for them takes a second to make.
    monkeypatch.setattr(sweeping, "AwsPriceList", lambda aws: SimpleNamespace(look_up=lambda keys: Quotes("nobody")))
    (tmp_path / "terradask.toml").write_text('[workspace]\nisolation = "cluster"\n')
    # moto has none.
    placement_groups.install()
    with mock_aws():
        yield tmp_path


@pytest.fixture(scope="module")
def region() -> Iterator[Aws]:
    """One set of clients: making them takes longer than the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield Aws(REGION)


@pytest.fixture
def workspace(root: Path, region: Aws) -> Workspace:
    found = Workspace(WorkspaceContext.load(SettingsSource(root, {}), aws=region))
    found.aws.client("s3").create_bucket(Bucket=BUCKET)
    return found


class Account:
    """Makes things as clusters' stacks and hosts do."""

    def __init__(self, workspace: Workspace) -> None:
        client = workspace.aws.client
        self.ec2, self.s3, self.iam, self.secrets, self.autoscaling = map(client, ("ec2", "s3", "iam", "secretsmanager", "autoscaling"))
        self.subnet = self.ec2.describe_subnets()["Subnets"][0]

    @staticmethod
    def tags(cluster: str | None, workspace: str = "default", **more: str) -> list[dict[str, str]]:
        whose = {"terradask:workspace": workspace, **({} if cluster is None else {"terradask:cluster": cluster}), **more}
        return [{"Key": key, "Value": value} for key, value in whose.items()]

    def put(self, key: str, body: str = "{}") -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body.encode())

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]

    def instance(self, cluster: str | None, group: str | None = None, workspace: str = "default") -> str:
        more = {} if group is None else {"aws:autoscaling:groupName": group}
        tags = [{"ResourceType": "instance", "Tags": self.tags(cluster, workspace, **more)}]
        made = self.ec2.run_instances(ImageId="ami-12c6146b", InstanceType="m6i.large", MinCount=1, MaxCount=1, TagSpecifications=tags)
        return str(made["Instances"][0]["InstanceId"])

    def state_of(self, instance: str) -> str:
        return str(self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]["State"]["Name"])

    def group(self, cluster: str, name: str, workspace: str = "default") -> str:
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "m6i.large", "ImageId": "ami-1"})
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=1,
            VPCZoneIdentifier=self.subnet["SubnetId"],
            LaunchTemplate={"LaunchTemplateName": name},
            Tags=[{**tag, "PropagateAtLaunch": True} for tag in self.tags(cluster, workspace)],
        )
        return name

    def groups(self) -> set[str]:
        return {group["AutoScalingGroupName"] for group in self.autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]}

    def secret(self, cluster: str, workspace: str = "default", *, scheduled: bool = False) -> None:
        name = f"terradask/{workspace}/{cluster}"
        self.secrets.create_secret(Name=name, SecretString="{}", Tags=self.tags(cluster, workspace))
        if scheduled:
            self.secrets.delete_secret(SecretId=name)

    def secret_names(self) -> set[str]:
        return {secret["Name"] for secret in self.secrets.list_secrets(IncludePlannedDeletion=True)["SecretList"]}

    def volume(self, name: str) -> str:
        tags = [{"ResourceType": "volume", "Tags": self.tags(None, Name=name)}]
        zone = self.subnet["AvailabilityZone"]
        return str(self.ec2.create_volume(AvailabilityZone=zone, Size=8, VolumeType="gp3", TagSpecifications=tags)["VolumeId"])

    def interface(self, name: str) -> str:
        tags = [{"ResourceType": "network-interface", "Tags": self.tags(None, Name=name)}]
        made = self.ec2.create_network_interface(SubnetId=self.subnet["SubnetId"], TagSpecifications=tags)
        return str(made["NetworkInterface"]["NetworkInterfaceId"])

    def security_group(self, cluster: str) -> str:
        tags = [{"ResourceType": "security-group", "Tags": self.tags(cluster)}]
        made = self.ec2.create_security_group(
            GroupName=f"terradask-default.{cluster}-worker", Description="x", VpcId=self.subnet["VpcId"], TagSpecifications=tags
        )
        return str(made["GroupId"])

    def role(self, cluster: str) -> str:
        name, path = role_name("default", "worker", "", cluster), clusters_role_path("default")
        self.iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument="{}", Tags=self.tags(cluster))
        self.iam.create_instance_profile(InstanceProfileName=name, Path=path, Tags=self.tags(cluster))
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return name

    def roles(self) -> set[str]:
        return {role["RoleName"] for role in self.iam.list_roles()["Roles"]}


@pytest.fixture
def account(workspace: Workspace) -> Account:
    return Account(workspace)


def keys(found: Sweep) -> set[tuple[str, str]]:
    return {stray.key for stray in found.strays}


def swept(workspace: Workspace) -> Swept:
    return workspace.sweep(grace_seconds=GRACE)


def test_everything_of_a_cluster_without_a_deployment_goes_and_nothing_else(workspace: Workspace, account: Account) -> None:
    account.put("clusters/live/cluster.json")
    account.put("clusters/live/hosts/i-1.json")
    account.put("clusters/gone/hosts/i-2.json")
    account.put("workspace.json", json.dumps({"format": 0}))
    stays = {account.group("live", "terradask-default-live-workers"), account.group("gone", "terradask-other-gone-workers", "other")}
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
    assert [volume["VolumeId"] for volume in account.ec2.describe_volumes()["Volumes"] if volume["State"] == "available"] == [data]
    assert {
        i["NetworkInterfaceId"] for i in account.ec2.describe_network_interfaces()["NetworkInterfaces"] if i["Status"] == "available"
    } == {theirs}
    groups = {group["GroupId"] for group in account.ec2.describe_security_groups()["SecurityGroups"]}
    assert (firewall in groups, kept_firewall in groups) == (False, True)
    assert account.roles() == {kept_role}
    # The lock that kept others out is gone as well.
    assert account.keys() == ["clusters/live/cluster.json", "clusters/live/hosts/i-1.json", "workspace.json"]
    assert keys(workspace.strays(grace_seconds=GRACE)) == set()
    assert swept(workspace) == Swept((), {}, {})


def test_what_is_young_is_left_alone_and_what_has_no_date_is_looked_at_twice(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, firewall = account.group("gone", "terradask-default-gone-workers"), account.security_group("fire")
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


def test_what_somebody_owns_by_now_stays(workspace: Workspace, account: Account) -> None:
    group = account.group("late", "terradask-default-late-workers")
    found = workspace.strays(grace_seconds=GRACE)
    account.put("clusters/late/cluster.json")
    done = workspace.sweep(found)
    assert (done.removed, list(done.kept.values())) == ((), ["it is gone, or somebody owns it by now"])
    assert account.groups() == {group}


def test_what_has_ended_and_was_made_for_that_alone_is_to_go(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deployment itself says so, from its run."""
    for key in ("kept/cluster.json", "over/cluster.json", "over/run.json"):
        account.put(f"clusters/{key}")
    assert workspace.strays(grace_seconds=GRACE).strays == ()
    monkeypatch.setattr(Deployment, "marked_closing", property(lambda deployment: True))
    assert keys(workspace.strays(grace_seconds=GRACE)) == {("deployment", "over")}
    assert not workspace.strays(grace_seconds=900).strays[0].may_go(datetime.datetime.now(datetime.UTC))


@pytest.mark.parametrize("name", ["network", "../../etc", "Their Cluster"])
def test_a_name_that_no_cluster_has_makes_nothing_ours(workspace: Workspace, account: Account, name: str) -> None:
    machine = account.instance(name)
    account.put(f"clusters/{name}/x")
    assert swept(workspace) == Swept((), {}, {})
    assert account.state_of(machine) == "running"
    assert not list(workspace.root.glob("**/.*.lock"))


def test_a_missing_bucket_of_states_is_in_nobodys_way(root: Path, region: Aws, account: Account) -> None:
    (root / "terradask.toml").write_text('[state]\nbackend = "s3"\n')
    workspace = Workspace(WorkspaceContext.load(SettingsSource(root, {}), aws=region))
    machine = account.instance("gone")
    assert [stray.id for stray in swept(workspace).removed] == [machine]


def test_while_somebody_holds_the_state_nothing_of_the_cluster_goes(workspace: Workspace, account: Account) -> None:
    group = account.group("made", "terradask-default-made-workers")
    lock = {"ID": "1", "Who": "ana@laptop", "Created": "2026-11-20T05:00:00Z", "Operation": "OperationTypeApply"}
    account.put("clusters/made/terraform.tfstate.tflock", json.dumps(lock))
    found = workspace.strays(grace_seconds=GRACE)
    assert {stray.held for stray in found.strays} == {"its state is locked by ana@laptop since 2026-11-20T05:00:00Z (apply)"}
    done = workspace.sweep(found)
    assert (done.removed, done.failed, len(done.kept)) == ((), {}, 2)
    assert account.groups() == {group}
    assert account.keys() == ["clusters/made/terraform.tfstate.tflock"]


def test_the_lock_of_a_command_that_was_killed_here_is_broken_and_written_down(root: Path, workspace: Workspace, account: Account) -> None:
    group = account.group("made", "terradask-default-made-workers")
    now = datetime.datetime.now(datetime.UTC)
    who = f"{here()['user']}@{here()['host']}"
    lock = {"ID": "1", "Who": who, "Created": now.isoformat().replace("+00:00", "Z"), "Path": "b/k"}
    account.put("clusters/made/terraform.tfstate.tflock", json.dumps(lock))
    folder = root / STACK
    folder.parent.mkdir(parents=True)
    note = {**here(), "pid": DEAD, "child": DEAD, "child_started": "7", "command": "terraform apply", "started_at": now.timestamp() - 1}
    folder.with_name(".made.lock").write_text(json.dumps(note))
    found = workspace.strays(grace_seconds=GRACE)
    assert keys(found) == {("lock", "made"), ("group", group), ("objects", "clusters/made/")}
    done = workspace.sweep(found)
    assert ({stray.key for stray in done.removed}, done.failed) == (keys(found), {})
    assert account.groups() == set()
    (record,) = map(json.loads, (root / ".terradask/unlocks.jsonl").read_text().splitlines())
    assert record["stack"] == "made"
    assert record["reason"].startswith("terraform apply (process ")
    assert account.keys() == [f"unlocks/{record['at']}.json"]


def test_a_sweep_that_is_killed_leaves_a_lock_that_the_next_one_breaks(root: Path, workspace: Workspace, account: Account) -> None:
    group, lock = account.group("made", "terradask-default-made-workers"), "clusters/made/terraform.tfstate.tflock"
    context = WorkspaceContext.load(SettingsSource(root, {}), aws=workspace.aws)
    with StackRunner(context).holding_state("made"):
        held = account.s3.get_object(Bucket=BUCKET, Key=lock)["Body"].read()
        note = (root / STACK).with_name(".made.lock")
        noted = json.loads(note.read_text())
        # Nobody else may deploy it meanwhile.
        with pytest.raises(FolderBusy), FolderLock((root / STACK), limit_seconds=0):
            pass
    assert account.keys() == []
    # As if that process had ended there.
    account.put(lock, held.decode())
    note.write_text(json.dumps({**noted, "pid": DEAD, "child": DEAD}))
    assert {stray.key for stray in swept(workspace).removed} == {("lock", "made"), ("group", group), ("objects", "clusters/made/")}
    left = account.keys()
    assert [key.partition("/")[0] for key in left] == ["unlocks"]


@pytest.fixture
def refuse(workspace: Workspace) -> Iterator[Callable[..., None]]:
    """Let AWS refuse operations of a service, as it does to a caller without the right."""
    registered: list[tuple[Any, Any]] = []

    def refuse(service: str, *operations: str) -> None:
        def answer(model: Any, **_: Any) -> Any:
            if model.name in operations:
                return SimpleNamespace(status_code=403), {"Error": {"Code": "AccessDenied", "Message": "no"}}
            return None

        events = workspace.aws.client(service).meta.events
        events.register("before-call", answer)
        registered.append((events, answer))

    yield refuse
    for events, answer in registered:
        events.unregister("before-call", answer)


def test_what_may_not_be_looked_at_is_said_and_the_rest_goes(workspace: Workspace, account: Account, refuse: Callable[..., None]) -> None:
    machine = account.instance("gone")
    account.secret("gone")
    account.volume("terradask-default-worker")
    refuse("ec2", "DescribeVolumes")
    refuse("secretsmanager", "ListSecrets")
    refuse("iam", "ListRoles")
    found = workspace.strays(grace_seconds=GRACE)
    assert keys(found) == {("instance", machine)}
    assert {one.action for one in found.unseen} == {"ec2:DescribeVolumes", "secretsmanager:ListSecrets", "iam:ListRoles"}
    # Nobody guesses a price.
    assert found.hourly_usd(found.strays[0]) is None
    assert [stray.id for stray in workspace.sweep(found).removed] == [machine]


def test_without_the_groups_no_machine_of_a_living_cluster_is_judged(
    workspace: Workspace, account: Account, refuse: Callable[..., None]
) -> None:
    account.put("clusters/live/cluster.json")
    account.instance("live", "a-group")
    refuse("autoscaling", "DescribeAutoScalingGroups")
    found = workspace.strays(grace_seconds=GRACE)
    assert (found.strays, [one.action for one in found.unseen]) == ((), ["autoscaling:DescribeAutoScalingGroups"])


def test_without_the_bucket_nobody_knows_what_lives(workspace: Workspace, account: Account, refuse: Callable[..., None]) -> None:
    account.instance("gone")
    refuse("s3", "ListObjectsV2")
    with pytest.raises(AccessDenied):
        workspace.strays(grace_seconds=GRACE)


def test_what_cant_be_removed_keeps_no_other_cluster(workspace: Workspace, account: Account, refuse: Callable[..., None]) -> None:
    for name in ("a", "b"):
        account.secret(name)
    account.group("a", "terradask-default-a-workers")
    refuse("autoscaling", "DeleteAutoScalingGroup")
    done = swept(workspace)
    assert {stray.id for stray in done.removed} == {"terradask/default/b"}
    assert {stray.id: why for stray, why in done.failed.items()} == {
        "terradask-default-a-workers": "AWS refuses DeleteAutoScalingGroup",
        "terradask/default/a": "something that uses it could not be removed",
    }
    assert account.keys() == []


def test_machines_end_with_their_group_or_by_themselves(workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    group = account.group("gone", "terradask-default-gone-workers")
    account.autoscaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=1)
    alone = account.instance("gone", "terradask-default-gone-other")
    asked: list[str] = []
    monkeypatch.setattr(instances, "end_instances", lambda aws, ids, **_: asked.extend(ids))
    kinds = sorted(stray.kind for stray in swept(workspace).removed)
    assert (kinds, asked) == (["group", "instance", "instance"], [alone])
    (member,) = {i["InstanceId"] for r in account.ec2.describe_instances()["Reservations"] for i in r["Instances"]} - {alone}
    assert account.state_of(member) == "terminated"


def test_ctrl_c_during_a_destruction_ends_the_sweep(workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        account.put(f"clusters/{name}/cluster.json")
        account.put(f"clusters/{name}/closing.json")
    begun: list[str] = []

    def cancelled(_destroyer: Destroyer, name: str) -> None:
        begun.append(name)
        raise TerraformCancelled("cancelled")

    monkeypatch.setattr(Destroyer, "destroy_cluster", cancelled)
    with pytest.raises(TerraformCancelled):
        swept(workspace)
    assert begun == ["a"]


def test_a_machine_that_ec2_hides_is_not_taken_for_gone(workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """For up to a minute EC2 may not know what it has launched; asked to end it, it refuses the others with it."""
    hidden, shown = account.instance("gone"), account.instance("gone")
    client, asked = workspace.aws.client("ec2"), []
    terminate = client.terminate_instances

    def hiding(*, InstanceIds: list[str]) -> Any:  # noqa: N803  as boto3 names it
        asked.append(InstanceIds)
        if hidden in InstanceIds and len(asked) < 6:
            raise ClientError({"Error": {"Code": "InvalidInstanceID.NotFound", "Message": "no"}}, "TerminateInstances")
        return terminate(InstanceIds=InstanceIds)

    monkeypatch.setattr(client, "terminate_instances", hiding)
    instances.end_instances(workspace.aws, [hidden, shown], cluster="gone", progress=lambda _: None)
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


def test_the_command(root: Path, workspace: Workspace, account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    def sweep(*arguments: str, code: int = 0) -> Any:
        assert run(["-C", str(root), "sweep", *arguments]) == code
        return capsys.readouterr()

    assert "nothing to sweep in workspace default, us-east-1, account 123456789012" in sweep("--yes").err
    group = account.group("gone", "terradask-default-gone-workers")
    shown = sweep("--dry-run", "--grace", "900").out.splitlines()
    assert shown[0].split() == ["KIND", "ID", "CLUSTER", "AGE", "USD/H", "WHY"]
    assert shown[1].split()[:3] == ["group", group, "gone"]
    assert "left alone until it is 900 s old" in shown[1]
    document = json.loads(sweep("--yes", "--json", "--grace", "900").out)
    assert (document["removed"], len(document["kept"]), document["strays"][0]["removable"]) == ([], 1, False)
    assert account.groups() == {group}
    told = sweep("--yes", "--grace", "1").err
    assert f"removing group {group}: its cluster's deployment is gone" in told
    assert "removed 1 of 1" in told
    assert account.groups() == set()


def test_a_state_that_cant_be_read_counts_as_a_deployment(workspace: Workspace, account: Account) -> None:
    account.put("clusters/half/terraform.tfstate", "no JSON")
    assert keys(workspace.strays(grace_seconds=GRACE)) == {("deployment", "half")}
