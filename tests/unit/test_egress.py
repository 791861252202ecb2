"""Ways out of hosts: settings, rules, and which of them lead to an address."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from pydantic import ValidationError

from terradask_modules.egress import Egress, in_vpc, rules_of, rules_to
from terradask_stacks.settings import Settings

from .baselines import baseline

DATABASE = {"destination": "10.1.0.0/16", "ports": [5432], "reason": "orders database"}
GROUP = "sg-0123456789abcdef0"


def settings(*rules: dict[str, Any], isolation: str = "workspace", **network: Any) -> Settings:
    return Settings.model_validate(
        {"network": {**network, "egress": list(rules)}, "workspace": {"isolation": isolation}}
    )


def refused(*rules: dict[str, Any], **more: Any) -> str:
    """Return the message and the advice."""
    with pytest.raises(ValidationError) as caught:
        settings(*rules, **more)
    (found,) = caught.value.errors()
    return f"{found['msg']} {found['ctx']['advice']}"


def test_each_range_of_ports_is_a_rule() -> None:
    given = settings({**DATABASE, "ports": [5432, "8000-8100"], "protocol": "udp"})

    assert given.network.all_egress == (
        Egress("10.1.0.0/16", (5432, 5432), "orders database", "udp"),
        Egress("10.1.0.0/16", (8000, 8100), "orders database", "udp"),
    )
    assert [str(rule) for rule in given.network.all_egress] == [
        "udp 5432 to 10.1.0.0/16",
        "udp 8000-8100 to 10.1.0.0/16",
    ]


@pytest.mark.parametrize(
    "destination",
    ["vpc", "10.1.2.3/32", GROUP, f"123456789012/{GROUP}", "pl-0123abcd", "0.0.0.0/0"],
)
def test_destinations(destination: str) -> None:
    (rule,) = settings({**DATABASE, "destination": destination}).network.all_egress
    assert rule.destination == destination
    assert (rule.network is not None) == (destination[0].isdigit() and "sg" not in destination)
    assert rule.is_group == ("sg-" in destination)
    assert rule.is_prefix_list == destination.startswith("pl-")


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("orders.example.com", "security groups know no names"),
        ("10.1.0.1/16", "host bits"),
        ("sg-nonsense", "is not a destination"),
        (f"1234/{GROUP}", "is not a destination"),
        ("arn:aws:rds:us-east-1:123456789012:db:orders", "is not a destination"),
    ],
)
def test_other_destinations_are_refused(destination: str, said: str) -> None:
    assert said in refused({**DATABASE, "destination": destination})


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_the_whole_internet_needs_a_reason_as_every_rule_does(reason: str | None) -> None:
    bare = {"destination": "0.0.0.0/0", "ports": [22], "reason": reason}
    said = refused(bare)

    assert "to 0.0.0.0/0, the whole internet, has no reason" in said
    assert 'reason = "orders database"' in said
    assert "the whole internet" not in refused({**bare, "destination": "10.0.0.0/8"})


def test_what_aws_would_refuse_as_a_duplicate_is_refused() -> None:
    assert "tcp 5432 to 10.1.0.0/16 is given twice" in refused(DATABASE, DATABASE)
    overlapping = refused(
        {**DATABASE, "clusters": ["etl"]}, {**DATABASE, "reason": "x"}, isolation="cluster"
    )
    assert "is given twice" in overlapping
    both = settings(
        {**DATABASE, "clusters": ["etl"]}, {**DATABASE, "clusters": ["b"]}, isolation="cluster"
    )
    assert [rule.clusters for rule in both.network.all_egress] == [("etl",), ("b",)]


def test_rules_for_one_cluster_need_isolation() -> None:
    said = refused({**DATABASE, "clusters": ["etl"]})
    assert "lets hosts of etl alone reach 10.1.0.0/16" in said
    assert 'workspace.isolation = "cluster"' in said


def test_rules_without_an_effect_are_refused() -> None:
    everywhere = {**DATABASE, "destination": "0.0.0.0/0", "ports": [443]}
    assert "which every network lets its hosts reach" in refused(everywhere)
    ipv6 = {**DATABASE, "destination": "2001:db8::/56"}
    assert "hosts have no IPv6 address" in refused(ipv6)
    assert settings(ipv6, dual_stack=True).network.all_egress[0].is_ipv6


def test_routes_lead_to_other_networks() -> None:
    peering = "pcx-0123456789abcdef0"
    given = Settings.model_validate({"network": {"routes": {"10.1.0.0/16": peering}}})
    assert given.network.routes == {"10.1.0.0/16": peering}
    for block, through, said in (
        ("0.0.0.0/0", peering, "is the default route"),
        ("10.1.0.1/16", peering, "host bits"),
        ("10.1.0.0/16", "igw-0123456789abcdef0", "is not a peering connection"),
        ("2001:db8::/56", peering, "hosts have no IPv6 address"),
    ):
        with pytest.raises(ValidationError, match=said):
            Settings.model_validate({"network": {"routes": {block: through}}})


def test_the_blocks_of_the_vpc_take_its_place() -> None:
    rules = [Egress("vpc", (2049, 2049), "files"), Egress("10.1.0.0/16", (22, 22), "x")]
    blocks = ["10.64.0.0/16", "vpc-ipv6"]

    assert [rule.destination for rule in in_vpc(rules, blocks)] == [*blocks, "10.1.0.0/16"]


def test_a_group_has_each_rule_once() -> None:
    """A setting may lead to the same rule as another: AWS refuses it twice."""
    first, again = Egress("vpc", (2049, 2049), "files"), Egress("vpc", (2049, 2049), "more files")
    own = Egress("vpc", (22, 22), "x", clusters=("etl",))

    assert rules_of([first, own, again]) == [first]
    assert rules_of([first, own, again], "etl") == [own]


def test_the_rules_to_an_address() -> None:
    block = Egress("10.1.0.0/16", (5000, 6000), "database")
    group = Egress(GROUP, (5432, 5432), "database")
    own = Egress("vpc", (5432, 5432), "x", clusters=("etl",))
    rules = [group, block, own]

    def found(address: str, port: int = 5432, **more: Any) -> list[Egress]:
        return rules_to(rules, ip_address(address), port, **more)

    assert found("10.1.2.3") == [block, group]
    assert found("10.2.0.1") == [group]
    assert found("10.1.2.3", 5431) == [block]
    assert found("10.1.2.3", 6001) == []
    assert found("10.1.2.3", protocol="udp") == []
    assert found("2001:db8::1", 5432) == [group]
    inside = found("10.64.0.9", cluster="etl", vpc_blocks=["10.64.0.0/16"])
    assert [rule.destination for rule in inside] == ["10.64.0.0/16", GROUP]
    assert found("10.64.0.9", cluster="other", vpc_blocks=["10.64.0.0/16"]) == [group]


def test_the_groups_that_a_destinations_owner_admits() -> None:
    rule = Egress("10.1.0.0/16", (5432, 5432), "database")
    shared = baseline(security_groups={"scheduler": "sg-4", "worker": "sg-5"})
    assert shared.egress == []
    assert shared.groups_out(rule) == ["sg-4", "sg-5"]
    written = {
        "destination": "10.1.0.0/16",
        "ports": [5432, 5432],
        "reason": "database",
        "protocol": "tcp",
        "clusters": ["etl"],
    }
    groups = {"clients": "sg-1", "hosts": "sg-2", "hosts-etl": "sg-3"}
    names = {"role_path": "/", "role_name_prefix": "", "security_groups": groups}
    apart = baseline(egress=[written], isolated=names, isolation="cluster")
    assert apart.egress == [replace(rule, clusters=("etl",))]
    assert apart.groups_out(apart.egress[0]) == ["sg-3"]
    assert apart.groups_out(rule) == ["sg-2"]
    # A network of a version before has none.
    del names["security_groups"]
    older = baseline(isolated=names, isolation="cluster")
    assert older.groups_out(rule) == []
