"""The Python API, with the real Terraform and provider, on moto: plan, look, apply exactly that, destroy, and trouble on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from terradask import Workspace
from terradask._common.progress import Message, PhaseFinished, PhaseStarted, ProgressEvent, ResourceChanged
from terradask._doctor.doctor import examine
from terradask._network.baseline import Baseline
from terradask._plans.applied import AppliedNotes
from terradask._terraform.terraform import Terraform
from terradask.errors import (
    BaselineInUse,
    ClusterNotFound,
    InvalidInput,
    NoBaseline,
    PlanChanged,
    SettingsError,
    StalePlan,
    StateRolledBack,
    TerraformCancelled,
    TerraformError,
    UnknownInstanceType,
)
from terradask_simulator import leftovers

from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.plan, pytest.mark.timeout(180)]

REGION = "us-east-1"
BUCKET = f"terradask-default-123456789012-{REGION}"
#: A grace with which nothing is too young to be swept.
OLD = -2
SETTINGS = """
[network]
zones = ["us-east-1a"]
nat = "none"
public_workers = true
[[network.ingress]]
cidr = "203.0.113.7/32"
[cluster]
max_workers = 5
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """moto in a process of its own, with its faults mended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}
    command = [sys.executable, str(Path(__file__).with_name("moto_faults.py")), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until_it_answers(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert process.poll() is None, "moto ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/data.json", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("moto doesn't answer")


@pytest.fixture(scope="module")
def machine(endpoint: str, quick_provider: QuickProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Make folders that are like machines of their own: each with the settings, none with another's files."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "TERRADASK_STATE_DIR"):
            patched.delenv(name, raising=False)
        patched.setenv("AWS_ENDPOINT_URL", endpoint)
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patched.setenv("AWS_REGION", REGION)
        for name, value in quick_provider.environ.items():
            patched.setenv(name, value)

        def make(name: str) -> Path:
            folder = tmp_path_factory.mktemp(name)
            (folder / "terradask.toml").write_text(SETTINGS)
            quick_provider.lock(folder)
            return folder

        yield make


@pytest.fixture(scope="module")
def events() -> list[ProgressEvent]:
    return []


@pytest.fixture(scope="module")
def workspace(machine: Callable[[str], Path], events: list[ProgressEvent]) -> Workspace:
    """A workspace whose network is deployed."""
    workspace = Workspace.load(machine("first"), progress=events.append)
    with pytest.raises(NoBaseline, match="terradask apply network"):
        workspace.plan_cluster("early")
    assert workspace.deployments() == []
    plan = workspace.plan_network()
    summary = plan.summary
    assert summary.counts.create > 20
    assert summary.counts.total == summary.counts.create
    assert [d.kind for d in summary.dangers] == ["ingress"]
    assert boto3.client("s3", REGION).list_buckets()["Buckets"] == []
    baseline = workspace.apply(plan)
    assert baseline == workspace.baseline()
    assert not plan.file.exists()
    return workspace


@pytest.fixture(autouse=True)
def _fresh(workspace: Workspace, events: list[ProgressEvent]) -> None:
    events.clear()


def _groups() -> list[str]:
    return [g["AutoScalingGroupName"] for g in boto3.client("autoscaling", REGION).describe_auto_scaling_groups()["AutoScalingGroups"]]


def _keys(prefix: str) -> list[str]:
    found = boto3.client("s3", REGION).list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"] for entry in found.get("Contents", [])]


def _killing_terraform(folder: Path, stack: str, action: str, *, at: int = 1) -> Callable[[ProgressEvent], None]:
    """Return what kills a stack's Terraform, as the end of a machine's memory does, as soon as it acts for so many times."""
    begun: set[str] = set()

    def kill(event: ProgressEvent) -> None:
        if not isinstance(event, ResourceChanged) or event.action != action or event.address in begun:
            return
        begun.add(event.address)
        if len(begun) == at:
            note = json.loads((folder / f"cdktf.out/stacks/.{stack}.lock").read_text())
            os.killpg(note["child"], signal.SIGKILL)

    return kill


@pytest.mark.usefixtures("direct_provider")
def test_second_plan_of_the_network_is_clean(workspace: Workspace):
    plan = workspace.plan_network()
    assert (plan.summary.headline, plan.summary.drift, plan.summary.dangers) == ("network: no changes", (), ())
    # The provider reports more than that after every first apply.
    assert len(plan.document["resource_drift"]) > 10
    report = workspace.report(plan)
    assert (report.verdict, report.running, report.context.account) == ("no changes", (), "123456789012")


def test_state_and_plans_stay_out_of_version_control(workspace: Workspace):
    subprocess.run(["git", "init", "--quiet", str(workspace.root)], check=True)
    shown = subprocess.run(
        ["git", "-C", str(workspace.root), "status", "--short", "--untracked-files=all"], capture_output=True, text=True, check=True
    )
    shutil.rmtree(workspace.root / ".git")
    assert shown.stdout.splitlines() == ["?? .terraform.lock.hcl", "?? terradask.lock.json", "?? terradask.toml"]


def test_unchanged_stacks_are_found_without_planning_them(
    workspace: Workspace, machine: Callable[[str], Path], events: list[ProgressEvent]
):
    plans = workspace.plan(["network"], changed_only=True)
    assert (plans.plans, plans.report.unchanged, plans.report.verdict) == ((), ("network",), "no changes")
    assert not any(isinstance(event, PhaseFinished) and event.phase in ("init", "plan") for event in events)
    folder = machine("changed")
    (folder / "terradask.toml").write_text(f"{SETTINGS}[clusters.new]\n")
    changed = Workspace.load(folder, network={"log_retention_days": 7})
    notes = AppliedNotes(changed.aws, changed.bucket)
    assert notes.unchanged(changed.synth()) == ()


def test_cluster_from_plan_to_nothing(workspace: Workspace, machine: Callable[[str], Path], events: list[ProgressEvent]):
    plan = workspace.plan_cluster("etl", max_workers=7)
    assert [c.type for c in plan.summary.changes].count("aws_autoscaling_group") == 2
    assert _groups() == []
    assert workspace.deployments() == []

    deployment = workspace.apply(plan)
    resources = [e for e in events if isinstance(e, ResourceChanged)]
    assert resources[-1].done == resources[-1].total == plan.summary.counts.create
    assert {e.phase for e in events if isinstance(e, PhaseFinished)} == {"resolve", "synthesise", "init", "plan", "show", "apply"}
    assert deployment.status().state == "stopped"
    assert deployment.descriptor.max_workers == 7
    assert [d.name for d in workspace.deployments()] == ["etl"]
    assert workspace.unfinished() == []
    assert not workspace.plan_cluster("etl", max_workers=7).changed

    with pytest.raises(BaselineInUse) as caught:
        workspace.destroy_network()
    assert caught.value.clusters == ("etl",)
    with pytest.raises(BaselineInUse):
        workspace.plan_network(destroy=True)

    # Another machine, which has never seen this cluster, and whose settings differ.
    boto3.client("autoscaling", REGION).set_desired_capacity(AutoScalingGroupName="terradask-default-etl-workers", DesiredCapacity=2)
    folder = machine("second")
    second = Workspace.load(folder, progress=_killing_terraform(folder, "etl", "delete"))
    with pytest.raises(TerraformError, match="ended by signal 9"):
        second.destroy_cluster("etl")
    # What is to go is known from then on: a sweep finishes.
    assert "clusters/etl/closing.json" in _keys("clusters/etl/")
    swept = Workspace.load(folder).sweep(grace_seconds=OLD)
    assert ({stray.kind for stray in swept.removed}, swept.kept, swept.failed) == ({"lock", "deployment"}, {}, {})
    assert _groups() == []
    assert _keys("clusters/") == []
    assert boto3.client("secretsmanager", REGION).list_secrets()["SecretList"] == []
    assert workspace.deployments() == []
    with pytest.raises(ClusterNotFound):
        workspace.destroy_cluster("etl")


def test_exactly_the_reviewed_plan_is_applied_or_none(workspace: Workspace):
    plan = workspace.plan_cluster("exact")
    original = plan.file.read_bytes()
    plan.file.write_bytes(original + b"x")
    with pytest.raises(PlanChanged) as caught:
        workspace.apply(plan)
    assert caught.value.what == "file"
    plan.file.write_bytes(original)

    other = workspace.plan_cluster("exact", max_workers=9)
    with pytest.raises(PlanChanged) as caught:
        workspace.apply(plan)
    assert caught.value.what == "configuration"
    assert _groups() == []

    second = workspace.plan_cluster("exact", max_workers=9)
    workspace.apply(other)
    with pytest.raises(StalePlan):
        workspace.apply(second)
    # What the other plan made is no stray.
    assert len(_groups()) == 2
    with pytest.raises(PlanChanged, match="gone"):
        workspace.apply(other)

    removal = workspace.plan_cluster("exact", destroy=True)
    assert removal.destroy
    assert {d.kind for d in removal.summary.dangers} == {"destroy"}
    assert workspace.apply(removal) is None
    assert _groups() == []
    assert _keys("clusters/exact/") == []


def test_saved_plan_is_applied_on_another_machine(workspace: Workspace, machine: Callable[[str], Path], tmp_path: Path):
    plan = workspace.plan_cluster("saved", out=tmp_path / "artifact")
    assert oct((tmp_path / "artifact/plan.tfplan").stat().st_mode)[-3:] == "600"
    there = machine("third")
    with pytest.raises(PlanChanged, match="configuration"):
        Workspace.load(there, cluster={"max_workers": 6}).open_plan(tmp_path / "artifact")
    with pytest.raises(PlanChanged) as caught:
        Workspace.load(there, workspace={"name": "other"}).open_plan(tmp_path / "artifact")
    assert caught.value.what == "workspace"
    elsewhere = Workspace.load(there)
    key = "clusters/saved/terraform.tfstate"
    state = {"version": 4, "serial": 3, "lineage": "of-somebody-else", "resources": []}
    boto3.client("s3", REGION).put_object(Bucket=BUCKET, Key=key, Body=json.dumps(state).encode())
    with pytest.raises(PlanChanged) as caught:
        elsewhere.open_plan(tmp_path / "artifact")
    assert caught.value.what == "state lineage"
    boto3.client("s3", REGION).delete_object(Bucket=BUCKET, Key=key)
    opened = elsewhere.open_plan(tmp_path / "artifact")
    assert opened.hash == opened.summary.plan_hash == plan.hash
    elsewhere.apply(opened)
    assert [d.name for d in workspace.deployments()] == ["saved"]
    with pytest.raises(InvalidInput, match="no plan"):
        elsewhere.open_plan(tmp_path / "artifact")

    # An earlier version of the state is put back: nothing is planned or destroyed from it before somebody says so.
    s3 = boto3.client("s3", REGION)
    state = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps({**state, "serial": state["serial"] - 1}).encode())
    for refused in (workspace.plan_cluster, elsewhere.destroy_cluster):
        with pytest.raises(StateRolledBack, match="--accept-older-state"):
            refused("saved")
    workspace.deployment("saved").mark_closing()
    assert "older" in "".join(workspace.sweep(grace_seconds=OLD).failed.values())
    assert len(_groups()) == 2
    workspace.accept_older_state("saved")

    # Somebody's process has ended without destroying it; who applies it wants it, also where nothing changes.
    workspace.deployment("saved").mark_closing()
    assert [(stray.kind, stray.id) for stray in workspace.strays(grace_seconds=OLD).strays] == [("deployment", "saved")]
    elsewhere.note_applied(opened)
    assert workspace.strays(grace_seconds=OLD).strays == ()
    # Otherwise a sweep finishes, on any machine.
    workspace.deployment("saved").mark_closing()
    assert [stray.id for stray in workspace.sweep(grace_seconds=OLD).removed] == ["saved"]
    assert (_groups(), _keys("clusters/saved/"), _keys("applied/saved")) == ([], [], [])


@pytest.mark.usefixtures("direct_provider")
def test_interrupted_deployment_is_found_finished_or_destroyed(
    machine: Callable[[str], Path], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    # At the worst moment: while requests are on their way.
    monkeypatch.setattr("terradask._terraform.terraform.REQUEST_SECONDS", 0)

    def cancel_at_first(event: ProgressEvent) -> None:
        if isinstance(event, ResourceChanged):
            interrupted.cancel()

    interrupted = Workspace.load(machine("fourth"), progress=cancel_at_first)
    with pytest.raises(TerraformCancelled):
        interrupted.apply(interrupted.plan_cluster("half"))
    # Found from anywhere, and in the network's way, however far it came.
    with pytest.raises(BaselineInUse) as caught:
        workspace.destroy_network()
    assert caught.value.clusters == ("half",)

    # What AWS made, and the answer never arrived: the name is taken, and no state knows.
    boto3.client("s3", REGION).delete_object(Bucket=BUCKET, Key="clusters/half/terraform.tfstate")
    secrets = boto3.client("secretsmanager", REGION)
    tags = [{"Key": "terradask:workspace", "Value": "default"}, {"Key": "terradask:cluster", "Value": "half"}]
    if not secrets.list_secrets()["SecretList"]:
        secrets.create_secret(Name="terradask/default/half", Tags=tags)

    # The next command goes on, on any machine.
    deployment = workspace.apply(workspace.plan_cluster("half"))
    assert deployment.exists
    assert deployment.status().state == "stopped"

    # As after an interruption before the descriptor was written, and with the state lost as well.
    boto3.client("s3", REGION).delete_object(Bucket=BUCKET, Key="clusters/half/cluster.json")
    assert workspace.unfinished() == ["half"]
    assert workspace.deployments() == []
    (part,) = workspace.strays(grace_seconds=OLD).strays
    assert (part.kind, part.reason) == ("deployment", "it was deployed or destroyed in part")
    boto3.client("s3", REGION).delete_object(Bucket=BUCKET, Key="clusters/half/terraform.tfstate")
    boto3.client("s3", REGION).put_object(Bucket=BUCKET, Key="clusters/half/run.json", Body=b"{}")
    interrupted.destroy_cluster("half")
    assert _groups() == []
    assert secrets.list_secrets()["SecretList"] == []
    assert _keys("clusters/") == []
    assert workspace.unfinished() == []


@pytest.mark.usefixtures("direct_provider")
def test_killed_terraform_stands_in_nobodys_way(machine: Callable[[str], Path]):
    folder = machine("fifth")
    # Two groups and the secret, all at once; then comes the descriptor.
    number = random.SystemRandom().randint(1, 3)
    print(f"killed at creation {number}")
    killed = Workspace.load(folder, progress=_killing_terraform(folder, "killed", "create", at=number))
    with pytest.raises(TerraformError, match="ended by signal 9"):
        killed.apply(killed.plan_cluster("killed"))
    assert "clusters/killed/terraform.tfstate.tflock" in _keys("clusters/")
    told: list[ProgressEvent] = []
    # Nobody elsewhere can know that nobody holds it, and so nothing goes.
    kept = Workspace.load(machine("elsewhere")).sweep(grace_seconds=OLD).kept
    assert all("locked by" in why for why in kept.values())
    assert kept

    killed.with_progress(told.append).destroy_cluster("killed")
    assert any(isinstance(event, Message) and "lock on the state" in event.text for event in told)
    (record,) = map(json.loads, (folder / ".terradask/unlocks.jsonl").read_text().splitlines())
    assert (record["stack"], record["forced"]) == ("killed", False)
    assert f"unlocks/{record['at']}.json" in _keys("unlocks/")
    assert _groups() == []
    assert boto3.client("secretsmanager", REGION).list_secrets()["SecretList"] == []
    assert _keys("clusters/") == []


@pytest.mark.usefixtures("direct_provider")
def test_interrupted_first_plan_leaves_no_trace(machine: Callable[[str], Path]):
    def cancel(event: ProgressEvent) -> None:
        if event == PhaseStarted("plan", "early"):
            threading.Timer(1.0, interrupted.cancel).start()

    interrupted = Workspace.load(machine("sixth"), progress=cancel)
    with pytest.raises(TerraformCancelled):
        interrupted.plan_cluster("early")
    assert _keys("clusters/early/") == []


def test_bad_input_is_refused_before_anything_runs(workspace: Workspace, events: list[ProgressEvent]):
    with pytest.raises(InvalidInput, match="network"):
        workspace.plan_cluster("network")
    with pytest.raises(InvalidInput):
        workspace.plan_cluster("Bad_Name")
    with pytest.raises(SettingsError, match="max_workers"):
        workspace.plan_cluster("x", max_workers=5000)
    with pytest.raises(SettingsError, match="no_such"):
        workspace.plan_cluster("x", no_such=1)
    with pytest.raises(UnknownInstanceType, match="xlarge"):
        workspace.plan_cluster("x", worker_vm_types=["m6i.xlrge"])
    assert not any(isinstance(e, PhaseFinished) and e.phase in ("init", "plan") for e in events)


def test_doctor_finds_everything(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(workspace.root)
    findings = {finding.check: finding for finding in examine()}
    assert [f for f in findings.values() if not f.ok] == []
    assert "123456789012" in findings["credentials"].found
    assert workspace.baseline().vpc_id in findings["baseline"].found
    monkeypatch.setenv("TERRADASK_WORKSPACE__NAME", "other")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("TERRAFORM_BINARY_NAME", "/no/such/terraform")
    broken = {finding.check: finding for finding in examine()}
    assert {name for name, f in broken.items() if not f.ok} == {"terraform", "credentials", "region", "service-roles", "baseline"}
    assert all(f.fix for f in broken.values() if not f.ok)


def _state_of_the_network(workspace: Workspace) -> Path:
    return workspace.root / ".terradask/state/network.tfstate"


def _empty_security_group(name: str) -> str:
    """Leave a group as Terraform leaves it when it is killed just after it was made: with the rule that AWS gives it."""
    ec2 = boto3.client("ec2", REGION)
    groups = {g["GroupName"]: g["GroupId"] for g in ec2.describe_security_groups()["SecurityGroups"]}
    rules = ec2.describe_security_group_rules()["SecurityGroupRules"]
    for rule in rules:
        if groups[name] in (rule["GroupId"], rule.get("ReferencedGroupInfo", {}).get("GroupId")):
            revoke = ec2.revoke_security_group_egress if rule["IsEgress"] else ec2.revoke_security_group_ingress
            revoke(GroupId=rule["GroupId"], SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]])
    ec2.authorize_security_group_egress(GroupId=groups[name], IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}])
    return groups[name]


def test_network_that_the_state_does_not_know_is_imported(workspace: Workspace, events: list[ProgressEvent]):
    ec2 = boto3.client("ec2", REGION)
    before = workspace.baseline()
    state = workspace.root / ".terradask/state/network.tfstate"
    document = json.loads(state.read_text())
    state.write_text(state.read_text()[:5000])
    with pytest.raises(TerraformError, match=r"put it aside.*terradask plan network"):
        workspace.plan_network()

    # As after a kill while these were being made.
    gateway = ec2.describe_internet_gateways()["InternetGateways"][0]["InternetGatewayId"]
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=before.vpc_id)
    ec2.delete_launch_template(LaunchTemplateId=before.templates["worker"]["x86_64"].id)
    unfinished = _empty_security_group("terradask-default-worker")
    in_flight = ("aws_internet_gateway", "aws_subnet", "aws_route_table_association", "aws_launch_template")
    document["resources"] = [r for r in document["resources"] if r["type"] not in in_flight and "worker" not in r["name"]]
    state.write_text(json.dumps(document))
    actions = {change.address: change.action for change in workspace.plan_network().summary.changes}
    assert actions["aws_subnet.public-us-east-1a"] == actions["aws_route_table_association.private-us-east-1a"] == "import"
    assert actions["aws_internet_gateway.this"] == "update"
    assert actions["aws_iam_role.worker"] == "import"
    # Imported, the rule that lets everything out would stay, and no plan would show it.
    assert actions["aws_security_group.worker"] == "create"

    # Terraform empties the file before it writes. Beside that, a network of somebody else's has the same name.
    state.write_text("")
    names = [{"Key": "Name", "Value": "terradask-default"}, {"Key": "terradask:workspace", "Value": "other"}]
    foreign = ec2.create_vpc(CidrBlock="10.64.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": names}])["Vpc"]["VpcId"]
    events.clear()
    plan = workspace.plan_network()
    counts = plan.summary.counts
    assert (counts.replace, counts.delete) == (0, 0)
    assert counts.imports + counts.update >= 20
    assert any(isinstance(event, Message) and "the plan imports them" in event.text for event in events)
    assert workspace.open_plan(plan.save(state.parent / "artifact")).changed

    after = workspace.apply(plan)
    assert isinstance(after, Baseline)
    assert (after.vpc_id, after.zones, after.roles) == (before.vpc_id, before.zones, before.roles)
    assert after.security_groups["scheduler"] == before.security_groups["scheduler"]
    assert after.security_groups["worker"] != unfinished
    assert unfinished not in {group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]}
    assert not workspace.plan_network().changed
    assert not (workspace.root / "cdktf.out/stacks/network/imports.tf.json").exists()
    ec2.delete_vpc(VpcId=foreign)


def test_adding_a_zone_and_changing_hosts_replaces_nothing(workspace: Workspace):
    larger = Workspace.load(workspace.root, network={"zones": ["us-east-1a", "us-east-1b"], "worker_disk_size_gib": 200})
    plan = larger.plan_network()
    actions = {change.address: change.action for change in plan.summary.changes}
    created = {address for address, action in actions.items() if action == "create"}
    assert {address.partition(".")[2] for address in created} == {"public-us-east-1b", "private-us-east-1b"}
    assert {address: action for address, action in actions.items() if address not in created} == {
        "aws_launch_template.worker-arm64": "update",
        "aws_launch_template.worker-x86_64": "update",
        "aws_s3_object.workspace": "update",
        "aws_vpc_endpoint.s3": "update",
    }
    # Clusters name the template's version: theirs stays until they are planned again.
    assert "latest_version" in {a.path for c in plan.summary.changes if c.type == "aws_launch_template" for a in c.attributes}


def test_network_of_another_format_is_refused_by_the_stack_itself(workspace: Workspace):
    # As the cdktf command runs it, with nobody beside who would refuse first.
    terraform = Terraform(workspace.synth(["foreign"])["foreign"])
    s3 = boto3.client("s3", REGION)
    body = s3.get_object(Bucket=BUCKET, Key="workspace.json")["Body"].read()
    s3.put_object(Bucket=BUCKET, Key="workspace.json", Body=json.dumps({**json.loads(body), "format": 99}), ContentType="application/json")
    try:
        terraform.init()
        with pytest.raises(TerraformError) as refused:
            terraform.plan(workspace.root / "foreign.tfplan")
    finally:
        s3.put_object(Bucket=BUCKET, Key="workspace.json", Body=body, ContentType="application/json")
    assert "terradask apply network" in " ".join(diagnostic.detail for diagnostic in refused.value.diagnostics)


def test_network_is_destroyed_last(workspace: Workspace, machine: Callable[[str], Path]):
    ec2 = boto3.client("ec2", REGION)
    foreign = ec2.create_vpc(CidrBlock="10.65.0.0/16")["Vpc"]["VpcId"]
    # A cluster's group of which the bucket knows nothing.
    boto3.client("secretsmanager", REGION).create_secret(
        Name="terradask/default/lost",
        Tags=[{"Key": "terradask:workspace", "Value": "default"}, {"Key": "terradask:cluster", "Value": "lost"}],
    )
    # Nothing but the tag leads there: this machine has no state.
    elsewhere = Workspace.load(machine("last"))
    with pytest.raises(BaselineInUse, match="lost"):
        elsewhere.destroy_network()
    elsewhere.destroy_cluster("lost")
    elsewhere.destroy_network()
    assert boto3.client("s3", REGION).list_buckets()["Buckets"] == []
    assert leftovers("default", session=boto3.Session(region_name=REGION)) == []
    assert foreign in {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]}
    with pytest.raises(NoBaseline):
        Workspace.load(elsewhere.root).baseline()
    with pytest.raises(NoBaseline, match="no network to destroy"):
        elsewhere.destroy_network()
    # The state that knew it finds that it is gone.
    workspace.destroy_network()
    with pytest.raises(NoBaseline, match="no network to destroy"):
        workspace.destroy_network()
