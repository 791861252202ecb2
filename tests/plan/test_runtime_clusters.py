"""A workspace by the Python API, its network and its clusters: plan, look, apply exactly that,
destroy, and trouble on the way.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import boto3
import pytest

from terradask import Plan, Workspace
from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    ProgressEvent,
    ResourceChanged,
)
from terradask._doctor.doctor import examine
from terradask._terraform.terraform import Terraform
from terradask.errors import (
    ClusterNotFound,
    InUse,
    InvalidInput,
    NoBaseline,
    NoMatchingType,
    PlanChanged,
    QuotaExceeded,
    SettingsError,
    StalePlan,
    StateConflict,
    TerraformCancelled,
    TerraformError,
)
from terradask_modules.iam import policy_text, statement

from ..left_over import leftovers
from .deployed import (
    BUCKET,
    OLD,
    REGION,
    SETTINGS,
    STATE_BUCKET,
    STATE_KEY,
    groups,
    keys,
    killing_terraform,
)

pytestmark = [pytest.mark.plan, pytest.mark.usefixtures("no_events")]

LISTING = policy_text([statement("Allow", "s3:ListAllMyBuckets", resource="*")])


@pytest.mark.usefixtures("direct_provider")
def test_second_plan_of_the_network_is_clean(workspace: Workspace):
    plan = workspace.plan_network()
    assert (plan.summary.headline, plan.summary.drift, plan.summary.dangers) == (
        "network: no changes",
        (),
        (),
    )
    # The provider reports more than that after every first apply.
    assert len(plan.document["resource_drift"]) > 10
    report = workspace.report(plan)
    assert {finding.check for finding in report.findings} == {"P3"}
    assert (report.verdict, report.running, report.context.account) == (
        "no changes",
        (),
        "123456789012",
    )


def test_state_and_plans_stay_out_of_version_control(workspace: Workspace):
    subprocess.run(["git", "init", "--quiet", str(workspace.root)], check=True)
    shown = subprocess.run(
        ["git", "-C", str(workspace.root), "status", "--short", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.rmtree(workspace.root / ".git")
    assert shown.stdout.splitlines() == [
        "?? .terraform.lock.hcl",
        "?? terradask.lock.json",
        "?? terradask.toml",
    ]


def test_unchanged_stacks_are_found_without_planning_them(
    workspace: Workspace, machine: Callable[[str], Path], events: list[ProgressEvent]
):
    plans = workspace.plan(["network"], changed_only=True)
    assert (plans.plans, plans.report.unchanged, plans.report.verdict) == (
        (),
        ("network",),
        "no changes",
    )
    assert not any(
        isinstance(event, PhaseFinished) and event.phase in ("init", "plan") for event in events
    )
    folder = machine("changed")
    (folder / "terradask.toml").write_text(f"{SETTINGS}[clusters.new]\n")
    changed = Workspace.load(folder, network={"log_retention_days": 7})
    assert changed._stacks.states.applied.unchanged(changed.synth()) == ()


def test_bad_input_is_refused_before_anything_runs(
    workspace: Workspace, events: list[ProgressEvent]
):
    with pytest.raises(InvalidInput, match="network"):
        workspace.plan_cluster("network")
    with pytest.raises(InvalidInput):
        workspace.plan_cluster("Bad_Name")
    with pytest.raises(SettingsError, match="max_workers"):
        workspace.plan_cluster("x", max_workers=5000)
    with pytest.raises(SettingsError, match="no_such"):
        workspace.plan_cluster("x", no_such=1)
    with pytest.raises(NoMatchingType, match="xlarge"):
        workspace.plan_cluster("x", worker_vm_types=["m6i.xlrge"])
    assert not any(isinstance(e, PhaseFinished) and e.phase in ("init", "plan") for e in events)


def test_doctor_finds_everything(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(workspace.root)
    findings = {finding.check: finding for finding in examine()}
    assert [f for f in findings.values() if not f.ok] == []
    assert "123456789012" in findings["credentials"].found
    assert workspace.baseline().vpc_id in findings["network"].found
    monkeypatch.setenv("TERRADASK_WORKSPACE__NAME", "other")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("TERRAFORM_BINARY_NAME", "/no/such/terraform")
    broken = {finding.check: finding for finding in examine()}
    assert [name for name, f in broken.items() if not f.ok and f.checked] == [
        "terraform",
        "credentials",
    ]
    assert all(f.fix for f in broken.values() if not f.ok and f.checked)
    # Each error once: what depends on it isn't checked, and says so.
    assert {name: f.found for name, f in broken.items() if not f.checked} == {
        "provider": "not checked: it depends on terraform",
        **dict.fromkeys(
            ("region", "account-plan", "service-roles", "volume-key", "network", "host-packages"),
            "not checked: it depends on credentials",
        ),
        "budgets": "not checked: it depends on network",
    }


def test_adding_a_zone_and_changing_hosts_replaces_nothing(workspace: Workspace):
    larger = Workspace.load(
        workspace.root, network={"zones": [f"{REGION}a", f"{REGION}b"], "worker_disk_size_gib": 200}
    )
    plan = larger.plan_network()
    actions = {change.address: change.action for change in plan.summary.changes}
    created = {address for address, action in actions.items() if action == "create"}
    assert {address.partition(".")[2] for address in created} == {
        f"public-{REGION}b",
        f"private-{REGION}b",
    }
    assert {address: action for address, action in actions.items() if address not in created} == {
        "aws_launch_template.worker-500mibps-arm64": "update",
        "aws_launch_template.worker-500mibps-x86_64": "update",
        "aws_launch_template.worker-arm64": "update",
        "aws_launch_template.worker-x86_64": "update",
        "aws_s3_object.workspace": "update",
        "aws_vpc_endpoint.s3": "update",
    }
    # Clusters name the template's version: theirs stays until they are planned again.
    assert "latest_version" in {
        a.path
        for c in plan.summary.changes
        if c.type == "aws_launch_template"
        for a in c.attributes
    }


def test_more_addresses_than_the_account_may_have_are_refused_before_the_first(
    workspace: Workspace,
):
    ec2 = boto3.client("ec2", REGION)
    others = [ec2.allocate_address(Domain="vpc")["AllocationId"] for _ in range(4)]
    zones = {"zones": [f"{REGION}a", f"{REGION}b"]}
    plans = workspace.root / ".terradask"
    before = set(plans.rglob("network--*"))
    with pytest.raises(
        QuotaExceeded, match=r"L-0263D0A3, is 5, of which 4 are in use; 2 are needed"
    ):
        Workspace.load(workspace.root, network={**zones, "nat": "per_zone"}).plan_network()
    assert set(plans.rglob("network--*")) == before
    for address in others:
        ec2.release_address(AllocationId=address)


def test_network_of_another_format_is_refused_by_the_stack_itself(workspace: Workspace):
    # As the cdktf command runs it, with nobody beside who would refuse first.
    terraform = Terraform(workspace.synth(["foreign"])["foreign"])
    s3 = boto3.client("s3", REGION)
    body = s3.get_object(Bucket=BUCKET, Key="workspace.json")["Body"].read()
    s3.put_object(
        Bucket=BUCKET,
        Key="workspace.json",
        Body=json.dumps({**json.loads(body), "format": 99}),
        ContentType="application/json",
    )
    try:
        terraform.init()
        with pytest.raises(TerraformError) as refused:
            terraform.plan(workspace.root / "foreign.tfplan")
    finally:
        s3.put_object(
            Bucket=BUCKET, Key="workspace.json", Body=body, ContentType="application/json"
        )
    assert "terradask apply network" in " ".join(
        diagnostic.detail for diagnostic in refused.value.diagnostics
    )


OFFERS = """
[offers.small]
worker_vm_types = ["m6i.xlarge"]
n_workers = 1
[offers.small.choose]
worker_vm_types = ["m6i.xlarge", "m6i.2xlarge"]
n_workers = { min = 1, max = 3 }
spot_policy = ["on-demand", "spot"]
"""


def test_an_offer_is_planned_at_its_bounds(workspace: Workspace, machine: Callable[[str], Path]):
    folder = machine("offers")
    (folder / "terradask.toml").write_text(f"{SETTINGS}{OFFERS}")
    offering = Workspace.load(folder)
    largest, usual = offering.plan_offer("small"), offering.plan_cluster("one", offer="small")

    def price(plan: Plan) -> tuple[Decimal, Decimal]:
        cost = offering.report(plan).cost
        assert cost is not None
        return cost.desired_hourly_usd, cost.maximum_hourly_usd

    assert largest.stack == "offer-small"
    # Three of the dearer type, also to start with; a cluster that chooses nothing has one.
    assert price(largest)[0] == price(largest)[1] > price(usual)[1] > price(usual)[0]
    for plan, types in (largest, ["m6i.xlarge", "m6i.2xlarge"]), (usual, ["m6i.xlarge"]):
        (group,) = (c for c in plan.summary.changes if c.address.endswith(".workers"))
        assert {a.path: a.after for a in group.attributes}["max_size"] == 3
        text = str(group.attributes)
        assert [one for one in ("m6i.xlarge", "m6i.2xlarge") if one in text] == types
    with pytest.raises(SettingsError, match="allowed: 1 to 3"):
        offering.plan_cluster("one", offer="small", n_workers=4)
    with pytest.raises(InvalidInput, match="no such offer"):
        offering.plan_offer("large")
    assert groups() == []


def test_a_plan_has_prepared_hosts_and_the_price_of_their_volumes(workspace: Workspace):
    with_two, without = (workspace.plan_cluster("kept", standby=n) for n in (2, 0))
    (group,) = (c for c in with_two.summary.changes if c.address.endswith(".workers"))
    after = {each.path: each.after for each in group.attributes}
    assert after["warm_pool[0].max_group_prepared_capacity"] == 2
    costs = [workspace.report(plan).cost for plan in (with_two, without)]
    assert all(costs)
    stopped, desired, maximum = (
        getattr(costs[0], name) - getattr(costs[1], name)
        for name in ("stopped_hourly_usd", "desired_hourly_usd", "maximum_hourly_usd")
    )
    assert stopped == desired == maximum > 0


def test_cluster_from_plan_to_nothing(
    workspace: Workspace, machine: Callable[[str], Path], events: list[ProgressEvent]
):
    plan = workspace.plan_cluster("etl", max_workers=7)
    assert [c.type for c in plan.summary.changes].count("aws_autoscaling_group") == 2
    assert groups() == []
    assert workspace.deployments() == []

    deployment = workspace.apply(plan)
    resources = [e for e in events if isinstance(e, ResourceChanged)]
    assert resources[-1].done == resources[-1].total == plan.summary.counts.create
    assert {e.phase for e in events if isinstance(e, PhaseFinished)} == {
        "resolve",
        "synthesise",
        "init",
        "plan",
        "show",
        "apply",
    }
    assert deployment.status().state == "stopped"
    assert deployment.descriptor.max_workers == 7
    assert [d.name for d in workspace.deployments()] == ["etl"]
    assert workspace.unfinished() == []
    assert not workspace.plan_cluster("etl", max_workers=7).changed

    with pytest.raises(InUse, match="still use this network") as caught:
        workspace.destroy_network()
    assert caught.value.clusters == ("etl",)
    assert caught.value.advice == "destroy them first: terradask destroy etl"
    with pytest.raises(InUse, match="still use this network"):
        workspace.plan_network(destroy=True)

    # Another machine, which has never seen this cluster, and whose settings differ.
    boto3.client("autoscaling", REGION).set_desired_capacity(
        AutoScalingGroupName="terradask-default-etl-workers", DesiredCapacity=2
    )
    folder = machine("second")
    second = Workspace.load(folder, progress=killing_terraform(folder, "etl", "delete"))
    with pytest.raises(TerraformError, match="ended by signal 9"):
        second.destroy_cluster("etl")
    # What is to go is known from then on: a sweep finishes.
    assert "clusters/etl/closing.json" in keys("clusters/etl/")
    swept = Workspace.load(folder).sweep(grace_seconds=OLD)
    assert ({stray.kind for stray in swept.removed}, swept.kept, swept.failed) == (
        {"lock", "deployment"},
        {},
        {},
    )
    assert groups() == []
    assert keys("clusters/") == []
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
    assert groups() == []

    second = workspace.plan_cluster("exact", max_workers=9)
    workspace.apply(other)
    with pytest.raises(StalePlan):
        workspace.apply(second)
    # What the other plan made is no stray.
    assert len(groups()) == 2
    with pytest.raises(PlanChanged, match="file is missing"):
        workspace.apply(other)

    removal = workspace.plan_cluster("exact", destroy=True)
    assert removal.destroy
    assert {d.kind for d in removal.summary.dangers} == {"destroy"}
    assert workspace.apply(removal) is None
    assert groups() == []
    assert keys("clusters/exact/") == []


def test_saved_plan_is_applied_on_another_machine(
    workspace: Workspace, machine: Callable[[str], Path], tmp_path: Path
):
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
    with pytest.raises(InvalidInput, match="no saved plan"):
        elsewhere.open_plan(tmp_path / "artifact")

    # An earlier version of the state is put back: nothing is planned or destroyed from it before
    # somebody says so.
    s3 = boto3.client("s3", REGION)
    state = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    s3.put_object(
        Bucket=BUCKET, Key=key, Body=json.dumps({**state, "serial": state["serial"] - 1}).encode()
    )
    for refused in (workspace.plan_cluster, elsewhere.destroy_cluster):
        with pytest.raises(
            StateConflict, match=r"(?s)older than after the last apply.*--accept-older-state"
        ):
            refused("saved")
    workspace.deployment("saved").mark_closing()
    assert "older" in "".join(workspace.sweep(grace_seconds=OLD).failed.values())
    assert len(groups()) == 2
    workspace.accept_older_state("saved")

    # Somebody's process has ended without destroying it; who applies it wants it, also where
    # nothing changes.
    workspace.deployment("saved").mark_closing()
    assert [(stray.kind, stray.id) for stray in workspace.strays(grace_seconds=OLD).strays] == [
        ("deployment", "saved")
    ]
    elsewhere.note_applied(opened)
    assert workspace.strays(grace_seconds=OLD).strays == ()
    # Otherwise a sweep finishes, on any machine.
    workspace.deployment("saved").mark_closing()
    assert [stray.id for stray in workspace.sweep(grace_seconds=OLD).removed] == ["saved"]
    assert (groups(), keys("clusters/saved/"), keys("applied/clusters/saved")) == ([], [], [])


def test_interrupted_deployment_is_found_finished_or_destroyed(
    machine: Callable[[str], Path], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    # At the worst moment: while requests are on their way.
    monkeypatch.setattr("terradask._terraform.terraform.REQUEST_SECONDS", 0)

    cancelled: list[ProgressEvent] = []

    def cancel_at_first(event: ProgressEvent) -> None:
        # Another call would kill Terraform, which then keeps its lock.
        if isinstance(event, ResourceChanged) and not cancelled:
            cancelled.append(event)
            interrupted.cancel()

    interrupted = Workspace.load(machine("fourth"), progress=cancel_at_first)
    with pytest.raises(TerraformCancelled):
        interrupted.apply(interrupted.plan_cluster("half"))
    # Found from anywhere, and in the network's way, however far it came.
    with pytest.raises(InUse, match="still use this network") as caught:
        workspace.destroy_network()
    assert caught.value.clusters == ("half",)

    # What AWS made, and the answer never arrived: the name is taken, and no state knows.
    boto3.client("s3", REGION).delete_object(Bucket=BUCKET, Key="clusters/half/terraform.tfstate")
    secrets = boto3.client("secretsmanager", REGION)
    tags = [
        {"Key": "terradask:workspace", "Value": "default"},
        {"Key": "terradask:cluster", "Value": "half"},
    ]
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
    assert (part.kind, part.reason) == ("deployment", "it was deployed or destroyed only in part")
    boto3.client("s3", REGION).delete_object(Bucket=BUCKET, Key="clusters/half/terraform.tfstate")
    boto3.client("s3", REGION).put_object(Bucket=BUCKET, Key="clusters/half/run.json", Body=b"{}")
    interrupted.destroy_cluster("half")
    assert groups() == []
    assert secrets.list_secrets()["SecretList"] == []
    assert keys("clusters/") == []
    assert workspace.unfinished() == []


@pytest.mark.usefixtures("direct_provider")
@pytest.mark.life
def test_killed_terraform_stands_in_nobodys_way(machine: Callable[[str], Path]):
    folder = machine("fifth")
    # Two groups and the secret, all at once; then comes the descriptor.
    number = random.SystemRandom().randint(1, 3)
    print(f"killed at creation {number}")
    killed = Workspace.load(
        folder, progress=killing_terraform(folder, "killed", "create", at=number)
    )
    with pytest.raises(TerraformError, match="ended by signal 9"):
        killed.apply(killed.plan_cluster("killed"))
    assert "clusters/killed/terraform.tfstate.tflock" in keys("clusters/")
    told: list[ProgressEvent] = []
    # Where Terraform was killed before its first call, there is nothing to keep.
    made = [*groups(), *boto3.client("secretsmanager", REGION).list_secrets()["SecretList"]]
    # Nobody elsewhere can know that nobody holds it, and so nothing goes.
    kept = Workspace.load(machine("elsewhere")).sweep(grace_seconds=OLD).kept
    assert all("locked by" in why for why in kept.values())
    assert kept or not made

    killed.with_progress(told.append).destroy_cluster("killed")
    assert any(isinstance(event, Message) and "lock on the state" in event.text for event in told)
    (record,) = map(json.loads, (folder / ".terradask/unlocks.jsonl").read_text().splitlines())
    assert (record["stack"], record["forced"]) == ("killed", False)
    assert f"unlocks/{record['at']}.json" in keys("unlocks/")
    assert groups() == []
    assert boto3.client("secretsmanager", REGION).list_secrets()["SecretList"] == []
    assert keys("clusters/") == []


@pytest.mark.usefixtures("direct_provider")
def test_interrupted_first_plan_leaves_no_trace(machine: Callable[[str], Path]):
    def cancel(event: ProgressEvent) -> None:
        if event == PhaseStarted("plan", "early"):
            threading.Timer(1.0, interrupted.cancel).start()

    interrupted = Workspace.load(machine("sixth"), progress=cancel)
    with pytest.raises(TerraformCancelled):
        interrupted.plan_cluster("early")
    assert keys("clusters/early/") == []


@pytest.mark.life
def test_the_network_under_a_running_cluster_is_not_replaced(workspace: Workspace):
    workspace.apply(workspace.plan_cluster("stands"))
    scheduler = {"AutoScalingGroupName": "terradask-default-stands-scheduler"}
    autoscaling = boto3.client("autoscaling", REGION)
    autoscaling.set_desired_capacity(**scheduler, DesiredCapacity=1)
    vpc = workspace.baseline().vpc_id
    moved = Workspace.load(workspace.root, network={"cidr": "10.77.0.0/16"})
    plan = moved.plan_network()
    lost = {change.address for change in plan.summary.changes if change.action == "replace"}
    assert "aws_vpc.this" in lost
    with pytest.raises(InUse, match="terradask stop stands") as refused:
        moved.apply(plan)
    named = str(refused.value.given).partition("; ")[0].partition(" and ")[0].split(", ")
    assert set(named) <= lost
    assert refused.value.clusters == ("stands",)
    assert workspace.baseline().vpc_id == vpc
    plan.remove()
    workspace.destroy_cluster("stands")


@pytest.mark.life
def test_the_network_under_stopped_clusters_is_replaced(workspace: Workspace):
    vpc = workspace.baseline().vpc_id
    moved = Workspace.load(workspace.root, network={"cidr": "10.77.0.0/16"})
    moved.apply(moved.plan_network())
    assert moved.baseline().vpc_id != vpc


def test_network_is_destroyed_last(workspace: Workspace, machine: Callable[[str], Path]):
    ec2 = boto3.client("ec2", REGION)
    foreign = ec2.create_vpc(CidrBlock="10.65.0.0/16")["Vpc"]["VpcId"]
    # A cluster's group of which the bucket knows nothing.
    boto3.client("secretsmanager", REGION).create_secret(
        Name="terradask/default/lost",
        Tags=[
            {"Key": "terradask:workspace", "Value": "default"},
            {"Key": "terradask:cluster", "Value": "lost"},
        ],
    )
    # As Systems Manager's Quick Setup does with every role of instances.
    iam = boto3.client("iam", REGION)
    attached = iam.create_policy(PolicyName="company", PolicyDocument=LISTING)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="terradask-default-worker", PolicyArn=attached)
    # Nothing but the tag leads there: the state is lost.
    s3, place = boto3.client("s3", REGION), {"Bucket": STATE_BUCKET, "Key": STATE_KEY}
    written = s3.get_object(**place)["Body"].read()
    s3.delete_object(**place)
    elsewhere = Workspace.load(machine("last"))
    with pytest.raises(InUse, match="lost"):
        elsewhere.destroy_network()
    elsewhere.destroy_cluster("lost")
    elsewhere.destroy_network()
    buckets = boto3.client("s3", REGION).list_buckets()["Buckets"]
    assert [one["Name"] for one in buckets] == [STATE_BUCKET]
    assert leftovers("default", session=boto3.Session(region_name=REGION)) == []
    assert foreign in {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]}
    with pytest.raises(NoBaseline):
        Workspace.load(elsewhere.root).baseline()
    with pytest.raises(NoBaseline, match="no network to destroy"):
        elsewhere.destroy_network()
    # An earlier version of the state, which knew it, finds that it is gone.
    s3.put_object(**place, Body=written)
    workspace.destroy_network()
    with pytest.raises(NoBaseline, match="no network to destroy"):
        workspace.destroy_network()
