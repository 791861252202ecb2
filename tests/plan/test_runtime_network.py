"""The network by the Python API: clean plans, what no state knows, changes, and its end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from terradask import Workspace
from terradask._common.progress import Message, PhaseFinished, ProgressEvent
from terradask._doctor.doctor import examine
from terradask._network.baseline import Baseline
from terradask._terraform.terraform import Terraform
from terradask.errors import (
    InUse,
    InvalidInput,
    NoBaseline,
    NoMatchingType,
    QuotaExceeded,
    SettingsError,
    TerraformError,
)
from terradask_modules.iam import policy_text, statement

from ..left_over import leftovers
from .deployed import BUCKET, REGION, SETTINGS, STATE_BUCKET, STATE_KEY

pytestmark = [pytest.mark.plan, pytest.mark.usefixtures("no_events")]


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
        "provider": "not checked: it needs terraform",
        **dict.fromkeys(
            ("region", "account-plan", "service-roles", "volume-key", "network", "host-packages"),
            "not checked: it needs credentials",
        ),
    }


EMPTY = policy_text([statement("Allow", "s3:ListAllMyBuckets", resource="*")])


def _empty_security_group(name: str) -> str:
    """Leave a group as Terraform leaves it when it is killed just after it was made: with the rule
    that AWS gives it.
    """
    ec2 = boto3.client("ec2", REGION)
    groups = {
        g["GroupName"]: g["GroupId"] for g in ec2.describe_security_groups()["SecurityGroups"]
    }
    rules = ec2.describe_security_group_rules()["SecurityGroupRules"]
    for rule in rules:
        if groups[name] in (rule["GroupId"], rule.get("ReferencedGroupInfo", {}).get("GroupId")):
            revoke = (
                ec2.revoke_security_group_egress
                if rule["IsEgress"]
                else ec2.revoke_security_group_ingress
            )
            revoke(GroupId=rule["GroupId"], SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]])
    ec2.authorize_security_group_egress(
        GroupId=groups[name],
        IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    )
    return groups[name]


@pytest.mark.life
def test_network_that_the_state_does_not_know_is_imported(
    workspace: Workspace, events: list[ProgressEvent]
):
    ec2 = boto3.client("ec2", REGION)
    before = workspace.baseline()
    s3, place = boto3.client("s3", REGION), {"Bucket": STATE_BUCKET, "Key": STATE_KEY}
    written = s3.get_object(**place)["Body"].read()
    document = json.loads(written)
    s3.put_object(**place, Body=written[:5000])
    with pytest.raises(TerraformError, match="aws s3api list-object-versions"):
        workspace.plan_network()

    # As after a kill while these were being made.
    gateway = ec2.describe_internet_gateways()["InternetGateways"][0]["InternetGatewayId"]
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=before.vpc_id)
    ec2.delete_launch_template(LaunchTemplateId=before.templates["worker"]["x86_64"].id)
    unfinished = _empty_security_group("terradask-default-worker")
    in_flight = (
        "aws_internet_gateway",
        "aws_subnet",
        "aws_route_table_association",
        "aws_launch_template",
    )
    document["resources"] = [
        r for r in document["resources"] if r["type"] not in in_flight and "worker" not in r["name"]
    ]
    s3.put_object(**place, Body=json.dumps(document))
    actions = {change.address: change.action for change in workspace.plan_network().summary.changes}
    assert (
        actions[f"aws_subnet.public-{REGION}a"]
        == actions[f"aws_route_table_association.private-{REGION}a"]
        == "import"
    )
    assert actions["aws_internet_gateway.this"] == "update"
    # Imported, and from now on deleted with whatever else is attached to it.
    assert actions["aws_iam_role.worker"] == "update"
    # Imported, the rule that lets everything out would stay, and no plan would show it.
    assert actions["aws_security_group.worker"] == "create"

    # It is lost. Beside that, a network of somebody else's has the same name.
    s3.put_object(**place, Body=b"")
    names = [
        {"Key": "Name", "Value": "terradask-default"},
        {"Key": "terradask:workspace", "Value": "other"},
    ]
    foreign = ec2.create_vpc(
        CidrBlock="10.64.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": names}]
    )["Vpc"]["VpcId"]
    events.clear()
    plan = workspace.plan_network()
    counts = plan.summary.counts
    assert (counts.replace, counts.delete) == (0, 0)
    assert counts.imports + counts.update >= 20
    assert any(
        isinstance(event, Message) and "the plan imports them" in event.text for event in events
    )
    assert workspace.open_plan(plan.save(workspace.root / "artifact")).changed

    after = workspace.apply(plan)
    assert isinstance(after, Baseline)
    assert (after.vpc_id, after.zones, after.roles) == (before.vpc_id, before.zones, before.roles)
    assert after.security_groups["scheduler"] == before.security_groups["scheduler"]
    assert after.security_groups["worker"] != unfinished
    assert unfinished not in {
        group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]
    }
    assert not workspace.plan_network().changed
    assert not (workspace.root / "cdktf.out/stacks/network/imports.tf.json").exists()
    ec2.delete_vpc(VpcId=foreign)


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


@pytest.mark.life
def test_a_topic_changes_rights_and_templates_in_place(workspace: Workspace):
    topic = f"arn:aws:sns:{REGION}:123456789012:ends"
    telling = Workspace.load(workspace.root, network={"notify_topic_arn": topic})
    plan = telling.plan_network()
    actions = {change.address: change.action for change in plan.summary.changes}
    templates = [address for address in actions if address.startswith("aws_launch_template.")]
    # Of two architectures.
    assert len(templates) == 2 * 10
    assert actions == dict.fromkeys(
        [
            "aws_iam_role_policy.scheduler",
            *templates,
            "aws_s3_object.workspace",
        ],
        "update",
    )
    assert telling.report(plan).findings == workspace.report(workspace.plan_network()).findings


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
    attached = iam.create_policy(PolicyName="company", PolicyDocument=EMPTY)["Policy"]["Arn"]
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
