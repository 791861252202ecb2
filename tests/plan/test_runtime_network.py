"""Whole lives of a network by the Python API: what no state knows, and changes."""

from __future__ import annotations

import json

import boto3
import pytest

from terradask import Workspace
from terradask._common.progress import Message, ProgressEvent
from terradask._doctor.doctor import examine
from terradask._network.baseline import Baseline
from terradask.errors import InUse, TerraformError

from .deployed import REGION, STATE_BUCKET, STATE_KEY, keep_picture

pytestmark = [pytest.mark.plan, pytest.mark.usefixtures("no_events")]


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


@pytest.mark.life
def test_a_rule_of_anothers_group_keeps_the_network_until_it_is_removed(workspace: Workspace):
    ec2, baseline = boto3.client("ec2", REGION), workspace.baseline()
    worker = baseline.security_groups["worker"]
    database = ec2.create_security_group(
        GroupName="orders", Description="database", VpcId=baseline.vpc_id
    )["GroupId"]
    permission = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432}
    peer = [{"GroupId": worker}]
    (rule,) = ec2.authorize_security_group_ingress(
        GroupId=database, IpPermissions=[{**permission, "UserIdGroupPairs": peer}]
    )["SecurityGroupRules"]
    before, removal = workspace.baseline(), workspace.plan_network(destroy=True)
    for destroy in (workspace.destroy_network, lambda: workspace.apply(removal)):
        with pytest.raises(InUse) as caught:
            destroy()
        assert caught.value.given == f"{database} (orders): TCP 5432 from {worker}"
        assert (
            f"aws ec2 revoke-security-group-ingress --group-id {database} "
            f"--security-group-rule-ids {rule['SecurityGroupRuleId']};"
        ) in str(caught.value)
    assert not workspace.plan_network().changed
    assert workspace.baseline() == before
    ec2.revoke_security_group_ingress(
        GroupId=database, SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]]
    )
    ec2.delete_security_group(GroupId=database)
    # The plan in between has written the network's whole configuration.
    workspace.apply(workspace.plan_network(destroy=True))
    assert worker not in {g["GroupId"] for g in ec2.describe_security_groups()["SecurityGroups"]}

    # As it was found, for the next test.
    assert workspace.apply(workspace.plan_network()).security_groups["worker"] != worker


@pytest.mark.life
def test_another_description_of_a_rule_is_applied_once(workspace: Workspace):
    rule = {"cidr": "203.0.113.7/32", "description": "the office"}
    told = Workspace.load(workspace.root, network={"ingress": [rule]})
    plan = told.plan_network()
    rules = {
        change.address: change.action
        for change in plan.summary.changes
        if change.address.startswith("aws_vpc_security_group_ingress_rule.")
    }
    assert rules
    assert set(rules.values()) == {"update"}
    told.apply(plan)
    again = told.plan_network()
    assert (again.changed, again.summary.drift) == (False, ())
    workspace.apply(workspace.plan_network())


@pytest.mark.life
def test_destinations_are_rules_with_their_reason_and_no_others_stay(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    ec2 = boto3.client("ec2", REGION)
    baseline = workspace.baseline()
    group = baseline.security_groups["worker"]
    databases = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    database = ec2.create_security_group(GroupName="db", Description="db", VpcId=databases)
    peering = ec2.create_vpc_peering_connection(VpcId=baseline.vpc_id, PeerVpcId=databases)
    through = peering["VpcPeeringConnection"]["VpcPeeringConnectionId"]
    ec2.accept_vpc_peering_connection(VpcPeeringConnectionId=through)
    rules = [
        {"destination": database["GroupId"], "ports": [5432], "reason": "orders database"},
        {"destination": "10.1.0.0/16", "ports": ["27000-27009"], "reason": "licence server"},
    ]
    reaching = Workspace.load(
        workspace.root, network={"egress": rules, "routes": {"10.1.0.0/16": through}}
    )
    plan = reaching.plan_network()
    rule = "aws_vpc_security_group_egress_rule"
    actions = {change.address: change.action for change in plan.summary.changes}
    assert actions.pop("aws_s3_object.workspace") == "update"
    assert set(actions.values()) == {"create"}
    assert actions.keys() == {
        "aws_route.public-to-10_1_0_0_16",
        f"aws_route.private-{REGION}a-to-10_1_0_0_16",
    } | {
        f"{rule}.{role}-to-{destination}"
        for role in ("scheduler", "worker")
        for destination in (
            f"{database['GroupId'].replace('-', '_')}-5432-5432",
            "10_1_0_0_16-27000-27009",
        )
    }
    dangers = {danger.address: danger.text for danger in plan.summary.dangers}
    assert dangers.keys() == actions.keys()
    assert dangers[f"{rule}.worker-to-10_1_0_0_16-27000-27009"] == (
        "lets hosts out to 10.1.0.0/16 at tcp 27000-27009 (licence server); the other side must "
        f"admit {group} (terradask-default-worker)"
    )
    assert dangers["aws_route.public-to-10_1_0_0_16"] == f"routes 10.1.0.0/16 through {through}"
    report = reaching.report(plan)
    assert {finding.check for finding in report.findings} == {"P3"}
    keep_picture(plan.summary, "plan-egress.svg")
    reaching.apply(plan)
    assert [rule.reason for rule in reaching.baseline().egress] == [
        "orders database",
        "licence server",
    ]
    monkeypatch.chdir(workspace.root)
    (found,) = examine(["network"])
    assert (
        f"lets hosts out to {database['GroupId']} at tcp 5432 (orders database), whose owner must "
        f"admit {baseline.security_groups['scheduler']}, {group}"
    ) in found.found
    again = reaching.plan_network()
    assert (again.changed, again.summary.drift) == (False, ())
    by_hand = {"IpProtocol": "tcp", "FromPort": 1433, "ToPort": 1433}
    by_hand["IpRanges"] = [{"CidrIp": "10.1.0.0/16"}]
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[by_hand])
    opened = reaching.plan_network()
    assert [change.address for change in opened.summary.drift] == ["aws_security_group.worker"]
    (found,) = [one for one in reaching.report(opened).findings if one.check == "P2"]
    assert (found.severity, found.address) == ("error", "aws_security_group.worker")
    assert "allows egress to 10.1.0.0/16 at port 1433, which the settings don't name" in str(found)
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[by_hand])
    going = workspace.plan_network()
    assert {finding.check for finding in workspace.report(going).findings} == {"P3"}
    assert workspace.apply(going).egress == []
