"""Destinations of hosts that are others', as AWS describes them: moto answers in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._network.given import check_given
from terradask._network.given_firewall import firewall_findings
from terradask.errors import AccessDenied
from terradask_modules.names import TAG_WORKSPACE
from terradask_stacks.errors import SettingsError
from terradask_stacks.settings import Settings

from ..moto_account import moto_account
from .given_facts import VPC, facts, healthy, rule
from .given_facts import settings as given_settings

ACCOUNT = "123456789012"


@pytest.fixture(autouse=True)
def _moto() -> Iterator[None]:
    with moto_account():
        yield


@pytest.fixture
def aws() -> Aws:
    return Aws("us-east-1")


@pytest.fixture
def ec2() -> Any:
    return boto3.client("ec2", "us-east-1")


def settings(destination: str, **network: Any) -> Settings:
    rule = {"destination": destination, "ports": [5432], "reason": "orders database"}
    return Settings.model_validate({"network": {**network, "egress": [rule]}})


def refused(given: Settings, aws: Aws) -> str:
    with pytest.raises(SettingsError) as error:
        check_given(given, aws)
    (finding,) = error.value.findings
    assert finding.where == "network.egress"
    return f"{finding.problem}; {finding.advice}"


def vpc_of(ec2: Any, block: str, tagged: bool = False) -> str:
    """Make a VPC, maybe the network's own."""
    vpc: str = ec2.create_vpc(CidrBlock=block)["Vpc"]["VpcId"]
    if tagged:
        ec2.create_tags(Resources=[vpc], Tags=[{"Key": TAG_WORKSPACE, "Value": "default"}])
    return vpc


def database_in(ec2: Any, vpc: str) -> str:
    made = ec2.create_security_group(GroupName="db", Description="database", VpcId=vpc)
    group: str = made["GroupId"]
    return group


def test_a_group_of_another_vpc_must_be_of_a_peered_one(ec2: Any, aws: Aws) -> None:
    other = vpc_of(ec2, "10.1.0.0/16")
    given = settings(database_in(ec2, other))
    assert f"in {other}, and the network has no VPC yet" in refused(given, aws)

    own = vpc_of(ec2, "10.64.0.0/16", tagged=True)
    said = refused(given, aws)
    assert f"belongs to another VPC, {other}, which isn't peered with {own}" in said
    assert f"--vpc-id {own} --peer-vpc-id {other}" in said

    peering = ec2.create_vpc_peering_connection(VpcId=own, PeerVpcId=other)
    peering_id = peering["VpcPeeringConnection"]["VpcPeeringConnectionId"]
    assert "isn't peered" in refused(given, aws)  # nobody has accepted it
    ec2.accept_vpc_peering_connection(VpcPeeringConnectionId=peering_id)
    assert check_given(given, aws) == []


def test_a_group_of_the_networks_vpc_is_a_destination(ec2: Any, aws: Aws) -> None:
    own = vpc_of(ec2, "10.64.0.0/16", tagged=True)
    assert check_given(settings(database_in(ec2, own)), aws) == []


def test_a_missing_group_or_list_is_told(ec2: Any, aws: Aws) -> None:
    said = refused(settings("sg-0123456789abcdef0"), aws)
    assert "no such security group in us-east-1" in said
    assert "is written ACCOUNT/sg-0123456789abcdef0" in said
    assert "no such prefix list" in refused(settings("pl-0123456789abcdef0"), aws)
    made = ec2.create_managed_prefix_list(
        PrefixListName="partners", MaxEntries=5, AddressFamily="IPv4"
    )
    assert check_given(settings(made["PrefixList"]["PrefixListId"]), aws) == []


def test_another_accounts_group_needs_a_peering_with_it(ec2: Any, aws: Aws) -> None:
    vpc_of(ec2, "10.64.0.0/16", tagged=True)
    said = refused(settings("999999999999/sg-0123456789abcdef0"), aws)
    assert "no VPC of account 999999999999 is peered" in said
    own = refused(settings(f"{ACCOUNT}/sg-0123456789abcdef0"), aws)
    assert "write sg-0123456789abcdef0" in own


def test_what_the_caller_may_not_see_is_left_to_aws(
    ec2: Any, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    vpc_of(ec2, "10.64.0.0/16", tagged=True)
    given = settings(database_in(ec2, vpc_of(ec2, "10.1.0.0/16")))
    refusal = AccessDenied("ec2:DescribeVpcPeeringConnections", "no")

    def denied(_operation: str) -> None:
        raise refusal

    client = aws.client("ec2")
    usual = client.get_paginator
    monkeypatch.setattr(
        client, "get_paginator", lambda name: (denied if "peering" in name else usual)(name)
    )
    (told,) = check_given(given, aws)
    assert "AWS refused ec2:DescribeVpcPeeringConnections" in told.problem


@pytest.mark.parametrize(
    ("destination", "network", "said"),
    [
        ("198.18.0.0/15", {}, "outside of the network's own VPC"),
        ("10.1.0.0/16", {}, "outside of the network's own VPC"),
        ("8.8.8.0/24", {"nat": "none"}, 'network.nat = "none"'),
        ("10.64.3.0/24", {"nat": "none"}, None),
        ("8.8.8.0/24", {}, None),
        ("8.8.8.0/24", {"nat": "none", "public_workers": True}, None),
        ("2600::/16", {"dual_stack": True, "nat": "none"}, None),
        ("vpc", {"nat": "none"}, None),
    ],
)
def test_addresses_without_a_route_are_warned_of(
    aws: Aws, destination: str, network: dict[str, Any], said: str | None
) -> None:
    told = [finding.problem for finding in check_given(settings(destination, **network), aws)]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]


def test_a_route_needs_an_active_peering_connection(ec2: Any, aws: Aws) -> None:
    def routed(through: str, block: str = "10.1.0.0/16") -> Settings:
        return settings("10.1.2.0/24", routes={block: through})

    with pytest.raises(SettingsError, match="which isn't deployed yet"):
        check_given(routed("pcx-0123456789abcdef0"), aws)
    own = vpc_of(ec2, "10.64.0.0/16", tagged=True)
    peering = ec2.create_vpc_peering_connection(VpcId=vpc_of(ec2, "10.1.0.0/16"), PeerVpcId=own)[
        "VpcPeeringConnection"
    ]["VpcPeeringConnectionId"]
    with pytest.raises(SettingsError, match=f"no such peering connection .* {own}, that is active"):
        check_given(routed(peering), aws)
    ec2.accept_vpc_peering_connection(VpcPeeringConnectionId=peering)
    # Its rule needs no other route.
    assert check_given(routed(peering), aws) == []
    (told,) = check_given(routed(peering, "10.2.0.0/16"), aws)
    assert '[network.routes], "10.1.2.0/24" = "pcx-…"' in str(told.advice)
    assert check_given(routed("tgw-0123456789abcdef0"), aws) == []
    with pytest.raises(SettingsError, match="in the network's own VPC"):
        check_given(routed("tgw-0123456789abcdef0", "10.64.8.0/24"), aws)


# ---- given security groups -----------------------------------------------------------------------


def told_of(destination: str, *rules: dict[str, Any], protocol: str = "tcp") -> list[str]:
    """Return what is wrong with the given group of workers that has these outbound rules."""
    described = healthy()
    described["vpcs"][VPC]["CidrBlockAssociationSet"] = [{"CidrBlock": "10.0.0.0/16"}]
    workers = described["security_groups"]["sg-000000000000000bb"]
    usual = [rule(0, 65535, block="10.0.0.0/16"), rule(443, 443, block="0.0.0.0/0")]
    workers["IpPermissionsEgress"] = [*usual, *rules]
    asked = {
        "destination": destination,
        "ports": [5432],
        "reason": "orders database",
        "protocol": protocol,
    }
    found = firewall_findings(given_settings(egress=[asked]), facts(**described))
    return [one.problem for one in found if one.where == "network.egress"]


DATABASE = "sg-000000000000000dd"


@pytest.mark.parametrize(
    ("destination", "rules"),
    [
        ("10.1.0.0/16", [rule(5000, 6000, block="10.0.0.0/8")]),
        (DATABASE, [rule(5432, 5432, group=DATABASE)]),
        (f"999999999999/{DATABASE}", [rule(5432, 5432, group=DATABASE)]),
        (DATABASE, [rule(0, 65535, block="0.0.0.0/0")]),
        ("pl-00000000", [{**rule(5432, 5432), "PrefixListIds": [{"PrefixListId": "pl-00000000"}]}]),
        ("vpc", []),
    ],
)
def test_given_groups_that_let_hosts_out(destination: str, rules: list[dict[str, Any]]) -> None:
    assert told_of(destination, *rules) == []


def test_given_groups_that_dont_are_told() -> None:
    (told,) = told_of("10.1.0.0/16", rule(5432, 5432, block="10.1.0.0/24"))
    assert (
        "given security group of workers doesn't let hosts out to 10.1.0.0/16 at tcp 5432" in told
    )
    assert len(told_of(DATABASE, rule(5432, 5432, block="10.1.0.0/16"))) == 1
    assert len(told_of("10.1.0.0/16", rule(5432, 5432, block="10.1.0.0/16"), protocol="udp")) == 1
    dns = {**rule(5432, 5432, block="10.1.0.0/16"), "IpProtocol": "17"}
    assert told_of("10.1.0.0/16", dns, protocol="udp") == []
