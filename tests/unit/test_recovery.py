"""What an interruption leaves of isolated clusters and of the network: found by tags and names, removed in order; on moto."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from terradask._aws.session import Aws
from terradask._cleanup import delete, search
from terradask._cleanup.delete import delete_resource, delete_resources
from terradask._cleanup.recover_cluster import ClusterRecovery
from terradask._cleanup.recover_network import NetworkRecovery
from terradask._cleanup.resources import (
    AUTOSCALING_GROUP,
    EGRESS_RULE,
    INGRESS_RULE,
    OF_CLUSTERS,
    SECRET,
    Owner,
    Resource,
    outermost,
    unknown,
)
from terradask._cleanup.search import clusters_with_resources, find_cluster, find_network, find_security_groups
from terradask._common.progress import Message, ProgressEvent
from terradask._deployments.deployment import Deployment
from terradask._network.baseline import Isolated
from terradask.errors import AccessDenied, BaselineError, ClusterError
from terradask_modules.names import ROLES, boundary_name, clusters_role_path, host_name, placement_group_name, role_name
from terradask_simulator import leftovers
from terradask_simulator.aws.fidelity import placement_groups

REGION = "us-east-1"
PREFIX = "dept-"
DOCUMENT = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
DASK = {"IpProtocol": "tcp", "FromPort": 1024, "ToPort": 65535}


def isolated(workspace: str = "default") -> Isolated:
    return Isolated(role_path=clusters_role_path(workspace), role_name_prefix=PREFIX)


@pytest.fixture(scope="module")
def region() -> Iterator[Aws]:
    """One set of clients: making them takes longer than the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setattr(delete, "PAUSE_SECONDS", 0)
        # moto has none.
        placement_groups.install()
        yield Aws(REGION)


@pytest.fixture
def aws(region: Aws) -> Iterator[Aws]:
    """An account with nothing of ours in it."""
    with mock_aws():
        yield region


class Planted:
    """Everything that an isolated cluster has of its own, as its stack makes it; without a cluster, the network's of the same kinds."""

    def __init__(self, aws: Aws, workspace: str, cluster: str | None, *, kinds: frozenset[str] = OF_CLUSTERS) -> None:
        self._ec2, self._iam = aws.client("ec2"), aws.client("iam")
        self._workspace, self._cluster = workspace, cluster
        self._tags = tagged(workspace, cluster)
        self.groups: dict[str, str] = {}
        if "aws_placement_group" in kinds and cluster is not None:
            self._ec2.create_placement_group(
                GroupName=placement_group_name(workspace, cluster),
                Strategy="cluster",
                TagSpecifications=[{"ResourceType": "placement-group", "Tags": self._tags}],
            )
        if "aws_security_group" in kinds:
            self._make_groups()
        for role in ROLES:
            if "aws_iam_role" in kinds:
                self._make_role(role)
            if "aws_launch_template" in kinds:
                self._ec2.create_launch_template(
                    LaunchTemplateName=host_name(workspace, role, cluster),
                    LaunchTemplateData={"InstanceType": "m6i.large"},
                    TagSpecifications=[{"ResourceType": "launch-template", "Tags": self._tags}],
                )

    def _make_groups(self) -> None:
        vpc = self._ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        for role in ROLES:
            name = host_name(self._workspace, role, self._cluster)
            specification = {"ResourceType": "security-group", "Tags": [*self._tags, {"Key": "Name", "Value": name}]}
            self.groups[role] = self._ec2.create_security_group(
                GroupName=name, Description=name, VpcId=vpc, TagSpecifications=[specification]
            )["GroupId"]
        # They name each other.
        for role, peer in (("scheduler", "worker"), ("worker", "scheduler"), ("worker", "worker")):
            self.admit(role, peer)
            self.let_out(role, peer)

    def admit(self, role: str, peer: str, *, tags: bool = True) -> str:
        """Make a rule, and return its id."""
        return self._rule(self._ec2.authorize_security_group_ingress, role, peer, tags)

    def let_out(self, role: str, peer: str, *, tags: bool = True) -> str:
        """Make a rule, and return its id."""
        return self._rule(self._ec2.authorize_security_group_egress, role, peer, tags)

    def _rule(self, authorize: Any, role: str, peer: str, tags: bool) -> str:
        specifications = [{"ResourceType": "security-group-rule", "Tags": self._tags}] if tags else []
        permission = {**DASK, "UserIdGroupPairs": [{"GroupId": self.groups[peer]}]}
        made = authorize(GroupId=self.groups[role], IpPermissions=[permission], TagSpecifications=specifications)
        identity: str = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return identity

    def _make_role(self, role: str) -> None:
        name, path = role_name(self._workspace, role, PREFIX, self._cluster), clusters_role_path(self._workspace)
        self._iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=DOCUMENT, Tags=self._tags)
        self._iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=DOCUMENT)
        self._iam.create_instance_profile(InstanceProfileName=name, Path=path, Tags=self._tags)
        self._iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)


def templates(aws: Aws) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aws.client("ec2").describe_launch_templates()["LaunchTemplates"]
    return found


def tagged(workspace: str, cluster: str | None = None) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in Owner(workspace, cluster).tags.items()]


def own(aws: Aws, cluster: str, workspace: str = "default") -> list[Resource]:
    return find_cluster(aws, workspace=workspace, cluster=cluster, isolated=isolated(workspace))


def ids(found: list[Resource]) -> set[tuple[str, str]]:
    return {(resource.type, resource.id) for resource in found}


def as_state(found: list[Resource]) -> dict[str, str]:
    """Return a state that knows all of them."""
    numbers = itertools.count()
    return {f"{resource.type}.r{next(numbers)}": resource.id for resource in found}


def remains(
    aws: Aws, cluster: str, events: list[ProgressEvent], *, is_isolated: bool = True, own_templates: bool = False
) -> ClusterRecovery:
    network: Any = SimpleNamespace(isolated=lambda: isolated() if is_isolated else None, own_templates=lambda: own_templates)
    return ClusterRecovery(
        aws,
        Deployment(aws, "terradask-default-123456789012-us-east-1", cluster),
        workspace="default",
        network=network,
        progress=events.append,
    )


# ---- pure ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "networks", "clusters"),
    [
        ({"terradask:workspace": "w"}, True, False),
        ({"terradask:workspace": "w", "terradask:cluster": "etl"}, False, True),
        ({"terradask:workspace": "w", "terradask:cluster": "other"}, False, False),
        ({"terradask:workspace": "v", "terradask:cluster": "etl"}, False, False),
        ({"terradask:cluster": "etl"}, False, False),
        ({}, False, False),
    ],
)
def test_whose_a_resource_is_its_tags_say(tags: Mapping[str, str], networks: bool, clusters: bool):
    resource = Resource("aws_security_group", "sg-1", {"Name": "x", **tags})
    assert (Owner("w").owns(resource), Owner("w", "etl").owns(resource)) == (networks, clusters)


def test_a_state_knows_by_type_and_id():
    role, profile = Resource("aws_iam_role", "same"), Resource("aws_iam_instance_profile", "same")
    assert unknown([role, profile], {"aws_iam_role.worker": "same"}) == [profile]
    assert unknown([role, profile], {}) == [role, profile]


def test_what_lies_within_another_goes_with_it():
    group, role = Resource("aws_security_group", "sg-1"), Resource("aws_iam_role", "r")
    rule = Resource(INGRESS_RULE, "sgr-1", description={"GroupId": "sg-1"})
    alone = Resource(EGRESS_RULE, "sgr-2", description={"GroupId": "sg-2"})
    policy = Resource("aws_iam_role_policy", "r:p", description={"RoleName": "r", "PolicyName": "p"})
    assert outermost([group, rule, alone, role, policy]) == [group, alone, role]
    assert outermost([rule, policy]) == [rule, policy]


# ---- a cluster's own -------------------------------------------------------------------------------------------------


def test_everything_of_one_cluster_is_found_and_nothing_of_anothers(aws: Aws):
    for workspace, cluster in (("default", "etl"), ("default", "etl-2"), ("default-etl", "x"), ("other", "etl")):
        Planted(aws, workspace, cluster)
    kinds = [resource.type for resource in own(aws, "etl")]
    assert {kind: kinds.count(kind) for kind in OF_CLUSTERS} == {
        **dict.fromkeys(OF_CLUSTERS, 2),
        INGRESS_RULE: 3,
        EGRESS_RULE: 3,
        "aws_placement_group": 1,
    }
    assert own(aws, "absent") == []

    others = [own(aws, "etl-2"), own(aws, "x", "default-etl"), own(aws, "etl", "other")]
    delete_resources(aws, own(aws, "etl"), progress=lambda _: None, cluster="etl")
    assert own(aws, "etl") == []
    assert [own(aws, "etl-2"), own(aws, "x", "default-etl"), own(aws, "etl", "other")] == others
    assert leftovers("default", cluster="etl", session=boto3.Session(region_name=REGION)) == []


def test_names_alone_make_nothing_a_clusters(aws: Aws):
    iam = aws.client("iam")
    name = role_name("default", "worker", PREFIX, "etl")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=DOCUMENT)
    iam.create_instance_profile(InstanceProfileName=name, Tags=tagged("default"))
    assert own(aws, "etl") == []


def test_leftovers_of_a_cluster_are_what_it_has_of_its_own(aws: Aws):
    Planted(aws, "default", "etl")
    Planted(aws, "default", "other")
    left = leftovers("default", cluster="etl", session=boto3.Session(region_name=REGION))
    assert sorted(line.partition(" ")[0] for line in left if not line.startswith("arn ")) == [
        *["instance-profile"] * 2,
        *["launch-template"] * 2,
        "placement-group",
        *["role"] * 2,
        *["security-group"] * 2,
    ]
    assert f"role {role_name('default', 'worker', PREFIX, 'etl')}" in left


def test_only_what_the_state_does_not_know_is_removed(aws: Aws):
    planted = Planted(aws, "default", "etl")
    known = own(aws, "etl")
    late = planted.admit("scheduler", "scheduler")
    by_hand = planted.let_out("scheduler", "scheduler", tags=False)
    iam = aws.client("iam")
    role = role_name("default", "worker", PREFIX, "etl")
    iam.put_role_policy(RoleName=role, PolicyName="late", PolicyDocument=DOCUMENT)
    left = remains(aws, "etl", [])
    assert left.remove_unknown(lambda: as_state(known))
    assert ids(own(aws, "etl")) == ids(known)
    rules = {rule["SecurityGroupRuleId"] for rule in aws.client("ec2").describe_security_group_rules()["SecurityGroupRules"]}
    assert (late in rules, by_hand in rules) == (False, True)
    assert iam.list_role_policies(RoleName=role)["PolicyNames"] == [role]
    assert not left.remove_unknown(lambda: as_state(known))


def test_strays_are_removed_where_a_plan_makes_them(aws: Aws):
    Planted(aws, "default", "etl")
    found = own(aws, "etl")
    events: list[ProgressEvent] = []
    secrets = aws.client("secretsmanager")
    secrets.create_secret(Name="terradask/default/etl", Tags=tagged("default", "etl"))
    left = remains(aws, "etl", events)
    # A plan that makes nothing of the kind, and one that somebody else's apply has overtaken.
    left.remove_leftovers(["aws_s3_object.descriptor"], dict)
    state = {"aws_secretsmanager_secret.keys": "arn", **as_state(found)}
    left.remove_leftovers(["aws_secretsmanager_secret.keys", "aws_iam_role.worker"], lambda: state)
    assert own(aws, "etl") == found
    assert len(secrets.list_secrets()["SecretList"]) == 1
    assert events == []
    left.remove_leftovers(["aws_secretsmanager_secret.keys", "aws_iam_role.worker"], dict)
    assert own(aws, "etl") == []
    assert secrets.list_secrets()["SecretList"] == []


def test_without_isolation_nothing_more_than_a_placement_group_is_asked_for(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    Planted(aws, "default", "etl", kinds=OF_CLUSTERS - {"aws_placement_group"})
    made: list[str] = []
    monkeypatch.setattr(aws, "client", lambda name, make=aws.client: made.append(name) or make(name))
    left = remains(aws, "etl", [], is_isolated=False)
    left.remove_leftovers(["aws_iam_role.worker"], dict)
    assert not left.remove_unknown(dict)
    assert not left.remove_all()
    assert set(made) == {"autoscaling", "ec2", "secretsmanager"}
    assert len(templates(aws)) == 2


def test_hosts_end_before_their_placement_group_does(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    Planted(aws, "default", "etl", kinds=frozenset({"aws_placement_group"}))
    Planted(aws, "default", "plain", kinds=frozenset())
    ec2 = aws.client("ec2")
    running = {
        name: ec2.run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tagged("default", name)}],
        )["Instances"][0]["InstanceId"]
        for name in ("etl", "plain")
    }
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        ec2.terminate_instances(InstanceIds=[running["etl"]])

    monkeypatch.setattr("terradask._common.polling.time.sleep", wait)
    state = as_state(own(aws, "etl"))
    for name, expected in (("plain", 0), ("etl", 1), ("etl", 1)):
        remains(aws, name, [], is_isolated=False).make_way(lambda: state)
        assert len(waited) == expected
    assert [resource.id for resource in own(aws, "etl")] == ["terradask-default.etl"]


def test_whoever_may_not_see_placement_groups_has_none(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    def refused(**_: object) -> None:
        raise AccessDenied("ec2:DescribePlacementGroups", "no")

    monkeypatch.setattr(aws.client("ec2"), "describe_placement_groups", refused)
    assert not remains(aws, "etl", [], is_isolated=False).remove_unknown(dict)


def test_templates_alone_are_removed_where_clusters_may_have_no_more(aws: Aws):
    Planted(aws, "default", "etl")
    before = own(aws, "etl")
    assert remains(aws, "etl", [], is_isolated=False, own_templates=True).remove_all()
    gone = {resource.type for resource in before} - {resource.type for resource in own(aws, "etl")}
    assert gone == {"aws_launch_template", "aws_placement_group"}


def test_clusters_are_known_by_their_templates(aws: Aws):
    Planted(aws, "default", "etl")
    assert clusters_with_resources(aws, workspace="default", isolated=None) == {"etl"}
    assert clusters_with_resources(aws, workspace="other", isolated=None) == set()


def test_a_cluster_without_a_state_is_removed_whole(aws: Aws):
    Planted(aws, "default", "etl")
    assert remains(aws, "etl", []).remove_all()
    assert own(aws, "etl") == []
    assert not remains(aws, "etl", []).remove_all()


def test_clusters_are_known_by_any_of_their_own(aws: Aws):
    def clusters(*known: str) -> set[str]:
        return clusters_with_resources(aws, workspace="default", isolated=isolated(), known=known)

    assert clusters() == set()
    Planted(aws, "default", "roles", kinds=frozenset({"aws_iam_role"}))
    Planted(aws, "default", "groups", kinds=frozenset({"aws_security_group"}))
    Planted(aws, "default", "templates", kinds=frozenset({"aws_launch_template"}))
    Planted(aws, "default-2", "elsewhere")
    assert clusters() == {"roles", "groups", "templates"}
    # Of those that are known anyhow, nobody asks.
    assert clusters("roles") == {"groups", "templates"}


# ---- order -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to remove a security group that a rule of another one names, or that an interface is in, as AWS does and moto doesn't."""
    from botocore.client import BaseClient

    call = BaseClient._make_api_call

    def checked(self: Any, operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "DeleteSecurityGroup":
            group = arguments["GroupId"]
            rules = call(self, "DescribeSecurityGroupRules", {})["SecurityGroupRules"]
            named = any(r["GroupId"] != group and r.get("ReferencedGroupInfo", {}).get("GroupId") == group for r in rules)
            interfaces = call(self, "DescribeNetworkInterfaces", {})["NetworkInterfaces"]
            if named or any(g["GroupId"] == group for i in interfaces for g in i["Groups"]):
                raise ClientError({"Error": {"Code": "DependencyViolation", "Message": "has a dependent object"}}, operation)
        return call(self, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", checked)


@pytest.mark.usefixtures("strict")
def test_groups_that_name_each_other_go(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delete, "LIMIT_SECONDS", -1)
    Planted(aws, "default", "etl")
    delete_resources(aws, own(aws, "etl"), progress=lambda _: None, cluster="etl")
    assert own(aws, "etl") == []


@pytest.mark.usefixtures("strict")
def test_a_group_waits_for_the_interfaces_of_instances_that_end(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    ec2 = aws.client("ec2")
    worker = Planted(aws, "default", "etl").groups["worker"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    interface = ec2.create_network_interface(SubnetId=subnet, Groups=[worker])["NetworkInterface"]["NetworkInterfaceId"]
    monkeypatch.setattr(delete, "LIMIT_SECONDS", -1)
    with pytest.raises(ClusterError, match=rf"aws_security_group {worker} .* can't be removed") as caught:
        remains(aws, "etl", []).remove_unknown(dict)
    assert caught.value.cluster == "etl"
    assert "terradask destroy etl" in str(caught.value)
    with pytest.raises(BaselineError, match="terradask destroy network"):
        delete_resources(aws, own(aws, "etl"), progress=lambda _: None)

    def end(event: ProgressEvent) -> None:
        if isinstance(event, Message) and event.text.startswith("waiting"):
            ec2.delete_network_interface(NetworkInterfaceId=interface)

    monkeypatch.setattr(delete, "LIMIT_SECONDS", 5)
    delete_resources(aws, own(aws, "etl"), progress=end, cluster="etl")
    assert own(aws, "etl") == []


# ---- the network's part ----------------------------------------------------------------------------------------------


def test_the_boundary_is_the_networks(aws: Aws):
    iam = aws.client("iam")
    name, path = boundary_name("default", PREFIX), clusters_role_path("default")
    configuration = {"resource": {"aws_iam_policy": {"boundary": {"name": name, "path": path}}}}

    def network(configuration: Mapping[str, Any]) -> list[Resource]:
        found = find_network(aws, workspace="default", bucket="terradask-default-1", configuration=configuration)
        return [resource for resource in found if resource.type == "aws_iam_policy"]

    assert network(configuration) == []
    arn = iam.create_policy(PolicyName=name, Path=path, PolicyDocument=DOCUMENT, Tags=tagged("default"))["Policy"]["Arn"]
    assert network({}) == []
    assert [policy.id for policy in network(configuration)] == [arn]
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=DOCUMENT, SetAsDefault=True)
    iam.create_role(RoleName="x", AssumeRolePolicyDocument=DOCUMENT, PermissionsBoundary=arn)
    role = Resource("aws_iam_role", "x")
    calls: list[str] = []
    events = iam.meta.events
    events.register("before-call.iam.*", lambda model, **_: calls.append(model.name), unique_id="calls")
    delete_resources(aws, [*network(configuration), role], progress=lambda _: None)
    events.unregister("before-call.iam.*", unique_id="calls")
    deleted = [call for call in calls if call.startswith("Delete")]
    assert deleted == ["DeleteRole", "DeletePolicyVersion", "DeletePolicy"]
    assert network(configuration) == []


def test_a_rule_between_groups_that_the_state_knows_is_removed_before_them(aws: Aws):
    planted = Planted(aws, "default", None)
    Planted(aws, "default", "etl")
    unknown_rule = planted.admit("scheduler", "scheduler")
    groups = find_security_groups(aws, workspace="default")
    state = as_state([resource for resource in groups if resource.id != unknown_rule and resource.tags])
    state |= {f"aws_launch_template.{t['LaunchTemplateName']}": t["LaunchTemplateId"] for t in templates(aws)}
    terraform = SimpleNamespace(configuration=dict)
    stack: Any = SimpleNamespace(terraform=terraform, ids=lambda: state)
    others = own(aws, "etl")
    recovery = NetworkRecovery(aws, workspace="default", bucket="terradask-default-1", stack=stack, progress=lambda _: None)
    assert recovery.remove_unknown()
    assert ids(find_security_groups(aws, workspace="default")) == ids(groups) - {(INGRESS_RULE, unknown_rule)}
    assert not recovery.remove_unknown()
    assert own(aws, "etl") == others


def test_what_clusters_have_of_their_own_is_not_the_networks(aws: Aws):
    Planted(aws, "default", "etl")
    groups = Planted(aws, "default", None).groups
    found = find_network(aws, workspace="default", bucket="terradask-default-1", configuration={})
    assert [resource.type for resource in found] == ["aws_security_group"] * 2 + ["aws_launch_template"] * 2
    assert {resource.id for resource in found} >= set(groups.values())


def test_every_page_of_what_ec2_has_is_read(aws: Aws):
    assert {kind for kind, (method, _, _) in search._IN_EC2.items() if not aws.client("ec2").can_paginate(method)} == {
        "aws_eip",
        "aws_placement_group",
    }


def test_an_address_waits_for_its_nat_gateway(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    """EC2 says of such an address what it says of wrong credentials, too."""
    ec2 = aws.client("ec2")
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    make, told = ec2._make_api_call, []

    def refusing(operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "ReleaseAddress" and not told:
            raise ClientError({"Error": {"Code": "AuthFailure", "Message": "in use"}}, operation)
        return make(operation, arguments)

    monkeypatch.setattr(ec2, "_make_api_call", refusing)
    delete_resources(aws, [Resource("aws_eip", address)], progress=told.append)
    assert ec2.describe_addresses()["Addresses"] == []


@pytest.mark.parametrize("kind", [AUTOSCALING_GROUP, SECRET, "aws_vpc", "aws_iam_role", "aws_cloudwatch_log_group"])
def test_what_is_gone_already_is_no_error(aws: Aws, kind: str):
    identity = "vpc-00000000" if kind == "aws_vpc" else "gone"
    delete_resource(aws, Resource(kind, identity))
