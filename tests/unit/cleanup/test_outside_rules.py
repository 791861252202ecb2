"""Rules of other security groups that keep AWS from removing those of a plan; on moto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws import listing
from terradask._aws.session import Aws
from terradask._cleanup.outside_rules import refuse_named_groups
from terradask._workspace import applier as applying
from terradask._workspace.applier import Applier
from terradask.errors import AccessDenied, InUse

from .planted import Planted

POSTGRES = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432}


class Neighbour:
    """A security group that isn't ours."""

    def __init__(self, aws: Aws, name: str, vpc: str | None = None) -> None:
        self._ec2 = aws.client("ec2")
        vpc = vpc or self._ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        made = self._ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)
        self.id: str = made["GroupId"]

    def name(self, group: str, way: str = "ingress", **permission: Any) -> str:
        """Make a rule that names a group, and return its id."""
        asked = {**(permission or POSTGRES), "UserIdGroupPairs": [{"GroupId": group}]}
        authorize = getattr(self._ec2, f"authorize_security_group_{way}")
        made = authorize(GroupId=self.id, IpPermissions=[asked])
        identity: str = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return identity


def test_rules_of_other_groups_are_named_with_the_commands_that_remove_them(aws: Aws) -> None:
    ours = Planted(aws, "default", "etl").groups
    removed = set(ours.values())
    # Those that are removed name each other.
    refuse_named_groups(aws, "etl", removed, known=())
    refuse_named_groups(aws, "etl", (), known=())
    database, cache = Neighbour(aws, "orders"), Neighbour(aws, "cache")
    first = database.name(ours["worker"])
    second = database.name(ours["worker"], IpProtocol="udp", FromPort=1, ToPort=9)
    out = cache.name(ours["scheduler"], "egress", IpProtocol="-1")
    database.name(cache.id)
    with pytest.raises(InUse) as caught:
        refuse_named_groups(aws, "etl", removed, known=())
    for text in (
        "3 rules of other security groups",
        f"{database.id} (orders): TCP 5432 from {ours['worker']}",
        f"{database.id} (orders): UDP 1-9 from {ours['worker']}",
        f"{cache.id} (cache): all traffic to {ours['scheduler']}",
        f"aws ec2 revoke-security-group-ingress --group-id {database.id} "
        f"--security-group-rule-ids {first} {second};",
        f"aws ec2 revoke-security-group-egress --group-id {cache.id} "
        f"--security-group-rule-ids {out};",
    ):
        assert text in str(caught.value)
    # Terraform removes those in its state.
    refuse_named_groups(aws, "etl", removed, known=[first, second, out])
    with pytest.raises(InUse, match="1 rule of other"):
        refuse_named_groups(aws, "etl", {ours["scheduler"]}, known=[first, second, *_rules(aws)])


def _rules(aws: Aws) -> list[str]:
    """Return the ids of the rules that the stack has made, by their tags."""
    rules = aws.client("ec2").describe_security_group_rules()["SecurityGroupRules"]
    return [rule["SecurityGroupRuleId"] for rule in rules if rule.get("Tags")]


def test_rules_of_a_peered_vpc_keep_no_group(aws: Aws) -> None:
    ours = Planted(aws, "default", "etl").groups
    vpc = aws.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    Neighbour(aws, "peered", vpc).name(ours["worker"])
    refuse_named_groups(aws, "etl", set(ours.values()), known=())


def test_a_filter_has_as_many_values_as_ec2_takes(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_VALUES", 1)
    ours = Planted(aws, "default", "etl").groups
    for name, role in (("one", "worker"), ("two", "scheduler")):
        Neighbour(aws, name).name(ours[role])
    with pytest.raises(InUse, match="2 rules"):
        refuse_named_groups(aws, "etl", set(ours.values()), known=())


class Stacks:
    """A network's stack that a destroy comes to, with these ids in its state."""

    def __init__(self, ids: dict[str, str]) -> None:
        self.ids = lambda: ids
        self.name = "network"
        self.states = SimpleNamespace(check_not_rolled_back=lambda _name: None)

    def check_tools(self, *, synthesises: bool) -> None:
        """This machine has what it needs."""

    @contextmanager
    def locked(self, _name: str) -> Iterator[Stacks]:
        yield self


class WentOn(Exception):
    """A destroy has come to what follows the check."""


@pytest.mark.parametrize("may_look", [True, False])
def test_without_the_right_to_look_a_destroy_goes_on_with_a_warning(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, may_look: bool
) -> None:
    ours = Planted(aws, "default", None).groups
    Neighbour(aws, "orders").name(ours["worker"])
    warnings: list[str] = []

    def go_on(_context: Any) -> Any:
        raise WentOn

    def refuse(*_: Any, **__: Any) -> None:
        raise AccessDenied("ec2:DescribeSecurityGroups", "no")

    monkeypatch.setattr(applying, "configuration_of", go_on)
    if not may_look:
        monkeypatch.setattr(applying, "refuse_named_groups", refuse)
    stacks: Any = Stacks({f"aws_security_group.{role}": one for role, one in ours.items()})
    context: Any = SimpleNamespace(aws=aws, warn=warnings.append)
    clusters: Any = SimpleNamespace(refuse_network_in_use=lambda: None)
    unused: Any = None
    applier = Applier(context, stacks, clusters, unused, unused)
    with pytest.raises(InUse if may_look else WentOn):
        applier.destroy_network()
    assert len(warnings) == (0 if may_look else 1)
    assert all("of network" in one and "ec2:DescribeSecurityGroups" in one for one in warnings)


def test_only_groups_that_a_plan_removes_are_looked_for(aws: Aws) -> None:
    ours = Planted(aws, "default", None).groups
    Neighbour(aws, "orders").name(ours["worker"])
    known = {f"aws_vpc_security_group_ingress_rule.{one}": one for one in _rules(aws)}
    stack: Any = Stacks(known | {f"aws_security_group.{role}": one for role, one in ours.items()})
    running: Any = SimpleNamespace(running=lambda _stack: ())
    context: Any = SimpleNamespace(aws=aws)
    unused: Any = None
    applier = Applier(context, stack, running, unused, unused)

    def plan(address: str, action: str) -> Any:
        change = SimpleNamespace(address=address, type=address.partition(".")[0], action=action)
        summary = SimpleNamespace(stack="network", changes=[change])
        return SimpleNamespace(stack="network", removes=True, summary=summary)

    for address, action in (
        ("aws_security_group.scheduler", "replace"),
        ("aws_security_group.worker", "update"),
        ("aws_nat_gateway.worker", "delete"),
    ):
        applier._refuse_while_running(stack, plan(address, action))
    for action in ("replace", "delete"):
        with pytest.raises(InUse, match="5432"):
            applier._refuse_while_running(stack, plan("aws_security_group.worker", action))
