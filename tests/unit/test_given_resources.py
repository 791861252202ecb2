"""Given resources as AWS describes them, and the change from own to given. moto answers in this
process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._network.given import check_given, replaced_settings
from terradask._synthesis.answers import check_network
from terradask.errors import AccessDenied, SettingsError
from terradask_stacks.loading import LoadedSettings, load_settings
from terradask_stacks.settings import NetworkSettings, Settings

from ..moto_account import moto_account
from .baselines import ACCOUNT, REGION, baseline

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
ALLOWED = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


@pytest.fixture(scope="module", autouse=True)
def _moto() -> Iterator[None]:
    with moto_account():
        yield


@pytest.fixture(scope="module")
def aws() -> Aws:
    return Aws(REGION)


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """A VPC with a private subnet behind a NAT gateway, groups, a profile and a key; as settings of
    the network.
    """
    ec2, iam = client("ec2"), client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20", AvailabilityZone="us-east-1b")[
        "Subnet"
    ]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"][
        "NatGatewayId"
    ]
    table = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"][
        0
    ]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    group = ec2.create_security_group(GroupName="dask", Description="hosts", VpcId=vpc)["GroupId"]
    everything = [
        {
            "IpProtocol": "tcp",
            "FromPort": 0,
            "ToPort": 65535,
            "UserIdGroupPairs": [{"GroupId": group}],
        }
    ]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=everything)
    iam.create_role(RoleName="dask", AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.create_instance_profile(InstanceProfileName="dask")
    iam.add_role_to_instance_profile(InstanceProfileName="dask", RoleName="dask")
    boundary = iam.create_policy(PolicyName="boundary", PolicyDocument=json.dumps(ALLOWED))
    return {
        "vpc_id": vpc,
        "subnets": {"us-east-1b": {"scheduler": subnet, "worker": subnet}},
        "security_groups": {"scheduler": group, "worker": group},
        "instance_profiles": {"scheduler": "dask", "worker": "dask"},
        "permissions_boundary": boundary["Policy"]["Arn"],
        "kms_key_arn": client("kms").create_key()["KeyMetadata"]["Arn"],
        "public_schedulers": False,
    }


def settings(**network: Any) -> Settings:
    return Settings.model_validate({"network": network})


def test_what_is_there_as_it_must_be_is_only_warned_about(given: dict[str, Any], aws: Aws) -> None:
    warnings = check_given(settings(**given), aws)

    # moto makes keys with a policy that names the account alone.
    assert [finding.where for finding in warnings] == ["network.kms_key_arn"] * 2


def test_what_is_not_there_is_told_at_once(given: dict[str, Any], aws: Aws) -> None:
    nothing = {
        **given,
        "subnets": {"us-east-1b": {"scheduler": "subnet-00000000", "worker": "subnet-00000000"}},
        "security_groups": {"scheduler": "sg-00000000", "worker": "sg-00000000"},
        "instance_profiles": {"scheduler": "none", "worker": "dask"},
        "permissions_boundary": f"arn:aws:iam::{ACCOUNT}:policy/none",
        "kms_key_arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/00000000-0000-0000-0000-000000000000",
        "image": "ami-00000000",
    }
    with pytest.raises(SettingsError) as error:
        check_given(settings(**nothing), aws)

    assert sorted(finding.where for finding in error.value.findings) == [
        "network.image",
        "network.instance_profiles.scheduler",
        "network.kms_key_arn",
        "network.permissions_boundary",
        "network.security_groups.scheduler",
        "network.security_groups.worker",
        "network.subnets.us-east-1b.scheduler",
        "network.subnets.us-east-1b.worker",
    ]


def test_without_a_vpc_nothing_else_is_said_of_it(given: dict[str, Any], aws: Aws) -> None:
    with pytest.raises(SettingsError) as error:
        check_given(settings(**{**given, "vpc_id": "vpc-00000000"}), aws)

    assert [finding.where for finding in error.value.findings if "vpc" in finding.where] == [
        "network.vpc_id"
    ]


def test_nothing_given_asks_nobody(monkeypatch: pytest.MonkeyPatch, aws: Aws) -> None:
    monkeypatch.setattr(aws, "client", None)

    assert check_given(settings(image="ami-00000000"), aws) == []


def test_what_may_not_be_looked_at_is_a_warning(
    given: dict[str, Any], aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: Any) -> None:
        raise AccessDenied("iam:GetPolicy", "no")

    monkeypatch.setattr(aws.client("iam"), "get_policy", denied)
    last = check_given(settings(**given), aws)[-1]

    assert "AWS refused iam:GetPolicy" in last.problem


# ---- from own to given ---------------------------------------------------------------------------


OWN: dict[str, Any] = {}
GIVEN: dict[str, Any] = {
    "vpc_id": "vpc-0123456789abcdef0",
    "subnets": {"us-east-1b": {"scheduler": "subnet-00000000", "worker": "subnet-00000000"}},
}
GROUPS = {"security_groups": {"scheduler": "sg-00000000", "worker": "sg-00000000"}}
PROFILES = {"instance_profiles": {"scheduler": "a", "worker": "b"}}


@pytest.mark.parametrize(
    ("network", "deployed", "replaced"),
    [
        (OWN, {}, []),
        (
            {
                "cidr": "10.0.0.0/16",
                "nat": "none",
                "permissions_boundary": f"arn:aws:iam::{ACCOUNT}:policy/b",
            },
            {},
            [],
        ),
        (GIVEN, {"given": ["vpc"]}, []),
        (GIVEN, {}, ["vpc_id"]),
        (OWN, {"given": ["vpc"]}, ["vpc_id"]),
        ({**GIVEN, "vpc_id": "vpc-00000000"}, {"given": ["vpc"]}, ["vpc_id"]),
        ({**GIVEN, **GROUPS}, {"given": ["vpc"]}, ["security_groups"]),
        ({**GIVEN, **GROUPS}, {"given": ["vpc", "security_groups"]}, []),
        (PROFILES, {}, ["instance_profiles"]),
        (PROFILES, {"given": ["instance_profiles"]}, []),
        (OWN, {"given": ["instance_profiles"]}, []),
        ({"role_path": "/platform/"}, {}, ["role_path"]),
        ({"architectures": ["x86_64", "arm64"]}, {}, []),
        ({"architectures": ["x86_64"]}, {}, ["architectures"]),
        ({"role_name_prefix": "acme-"}, {}, ["role_name_prefix"]),
    ],
)
def test_only_what_clusters_stand_on_is_held(
    network: dict[str, Any], deployed: dict[str, Any], replaced: list[str]
) -> None:
    assert list(replaced_settings(NetworkSettings(**network), baseline(**deployed))) == replaced


def loaded(tmp_path: Path, **network: Any) -> LoadedSettings:
    return load_settings(
        overrides={"network": network}, environ={"TERRADASK_STATE_DIR": str(tmp_path)}
    )


def test_a_change_is_refused_as_long_as_clusters_stand(tmp_path: Path, aws: Aws) -> None:
    changed = loaded(tmp_path, role_path="/platform/")
    assert check_network(changed, aws) == []
    bucket, s3 = baseline().bucket, client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="workspace.json", Body=baseline().model_dump_json().encode())
    assert check_network(changed, aws) == []
    s3.put_object(Bucket=bucket, Key="clusters/etl/cluster.json", Body=b"{}")

    with pytest.raises(SettingsError, match="remove it from etl, which uses it") as error:
        check_network(changed, aws)
    (finding,) = error.value.findings
    assert (finding.where, finding.given) == ("network.role_path", "/platform/")
    assert "terradask destroy etl" in str(finding.advice)
    assert check_network(loaded(tmp_path), aws) == []

    # Isolating clusters takes nothing away from those that are there; no longer isolating them
    # does.
    s3.put_object(
        Bucket=bucket,
        Key="workspace.json",
        Body=baseline(isolation="cluster").model_dump_json().encode(),
    )
    with pytest.raises(
        SettingsError,
        match=(
            r"workspace\.isolation: the network is deployed with security groups for hosts of "
            r"isolated"
        ),
    ):
        check_network(loaded(tmp_path), aws)
