"""A network in a VPC that somebody else made, planned with the real Terraform against the embedded
AWS.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask.errors import SettingsError
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator]

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


def somebody_elses(sim: Simulator, name: str) -> dict[str, Any]:
    """Make a VPC with a subnet behind a NAT gateway, a group and an instance profile; return them
    as settings.
    """
    ec2, iam = sim.client("ec2"), sim.client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/20", AvailabilityZone="us-east-1b")[
        "Subnet"
    ]["SubnetId"]
    nat = ec2.create_nat_gateway(
        SubnetId=subnet, AllocationId=ec2.allocate_address(Domain="vpc")["AllocationId"]
    )["NatGateway"]
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])[
        "RouteTables"
    ]
    ec2.create_route(
        RouteTableId=table["RouteTableId"],
        DestinationCidrBlock="0.0.0.0/0",
        NatGatewayId=nat["NatGatewayId"],
    )
    group = ec2.create_security_group(GroupName=name, Description="hosts", VpcId=vpc)["GroupId"]
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    for client in (ec2, iam):
        client.close()
    return {
        "vpc_id": vpc,
        "subnets": {"us-east-1b": {"scheduler": subnet, "worker": subnet}},
        "security_groups": {"scheduler": group, "worker": group},
        "instance_profiles": {"scheduler": name, "worker": name},
        "public_schedulers": False,
        "ingress": [],
    }


@pytest.mark.usefixtures("sim_environ")
def test_a_plan_makes_nothing_that_is_given(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside the workspace that everybody shares: with a state of its own.
    monkeypatch.delenv("TERRADASK_STATE_DIR")
    (tmp_path / "terradask.toml").write_text('[workspace]\nname = "given"\n')
    quick_provider.lock(tmp_path)
    network = somebody_elses(sim, "dask")
    workspace = Workspace.load(tmp_path, network=network)

    with pytest.raises(SettingsError) as error:
        workspace.plan_network()
    assert {finding.where for finding in error.value.findings} == {
        "network.security_groups.scheduler",
        "network.security_groups.worker",
    }

    ec2, group = sim.client("ec2"), network["security_groups"]["worker"]
    among_hosts = {
        "IpProtocol": "tcp",
        "FromPort": 0,
        "ToPort": 65535,
        "UserIdGroupPairs": [{"GroupId": group}],
    }
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[among_hosts])
    ec2.close()
    summary = workspace.plan_network().summary

    kinds = {change.address.partition(".")[0] for change in summary.changes}
    assert {kind for kind in kinds if not kind.startswith("aws_s3_")} == {
        "aws_cloudwatch_log_group",
        "aws_launch_template",
    }
    assert summary.counts.total == summary.counts.create


@pytest.mark.usefixtures("sim_environ")
@pytest.mark.life
def test_hosts_reach_all_blocks_of_a_given_vpc_at_the_ports_that_are_asked_for(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERRADASK_STATE_DIR")
    (tmp_path / "terradask.toml").write_text('[workspace]\nname = "reaching"\n')
    quick_provider.lock(tmp_path)
    given = somebody_elses(sim, "others")
    with contextlib.closing(sim.client("ec2")) as ec2:
        ec2.associate_vpc_cidr_block(VpcId=given["vpc_id"], CidrBlock="10.10.0.0/16")
    network = {name: given[name] for name in ("vpc_id", "subnets", "public_schedulers")}
    database = {"destination": "vpc", "ports": [5432], "reason": "orders database"}
    workspace = Workspace.load(tmp_path, network={**network, "egress": [database]})

    plan = workspace.plan_network()
    rules = {
        change.address.partition(".")[2]: {each.path: each.after for each in change.attributes}
        for change in plan.summary.changes
        if "egress_rule" in change.address and "5432" in change.address
    }
    assert {(name, rule["cidr_ipv4"], rule["description"]) for name, rule in rules.items()} == {
        (f"{role}-to-10_{block}_0_0_16-5432-5432", f"10.{block}.0.0/16", "orders database")
        for role in ("scheduler", "worker")
        for block in (9, 10)
    }
    told = {danger.text for danger in plan.summary.dangers if danger.kind == "egress"}
    assert {text.partition("admit ")[2] for text in told} == {
        f"terradask-reaching-{role}" for role in ("scheduler", "worker")
    }
    assert workspace.report(plan).findings == ()
