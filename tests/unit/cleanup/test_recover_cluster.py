"""What an interruption leaves of isolated clusters: found by tags and names, and
removed; on moto.
"""

from __future__ import annotations

from collections.abc import Mapping

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._cleanup.delete import delete_resources
from terradask._cleanup.resources import (
    EGRESS_RULE,
    INGRESS_RULE,
    Resource,
    cluster_resource_types,
    outermost,
    unknown,
)
from terradask._common.progress import ProgressEvent
from terradask.errors import AccessDenied, ForeignResources
from terradask_modules.names import role_name

from ...left_over import leftovers
from .planted import (
    DOCUMENT,
    PREFIX,
    REGION,
    Planted,
    as_state,
    ids,
    isolated,
    own,
    place,
    remains,
    search,
    tagged,
    templates,
)


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
    assert (resource.is_of(place("w")), resource.is_of(place("w", "etl"))) == (networks, clusters)


def test_a_state_knows_by_type_and_id():
    role, profile = Resource("aws_iam_role", "same"), Resource("aws_iam_instance_profile", "same")
    assert unknown([role, profile], {"aws_iam_role.worker": "same"}) == [profile]
    assert unknown([role, profile], {}) == [role, profile]


def test_what_lies_within_another_goes_with_it():
    group, role = Resource("aws_security_group", "sg-1"), Resource("aws_iam_role", "r")
    rule = Resource(INGRESS_RULE, "sgr-1", description={"GroupId": "sg-1"})
    alone = Resource(EGRESS_RULE, "sgr-2", description={"GroupId": "sg-2"})
    policy = Resource(
        "aws_iam_role_policy", "r:p", description={"RoleName": "r", "PolicyName": "p"}
    )
    assert outermost([group, rule, alone, role, policy]) == [group, alone, role]
    assert outermost([rule, policy]) == [rule, policy]


def test_everything_of_one_cluster_is_found_and_nothing_of_anothers(aws: Aws):
    for workspace, cluster in (
        ("default", "etl"),
        ("default", "etl-2"),
        ("default-etl", "x"),
        ("other", "etl"),
    ):
        Planted(aws, workspace, cluster)
    kinds = [resource.type for resource in own(aws, "etl")]
    assert {kind: kinds.count(kind) for kind in cluster_resource_types()} == {
        **dict.fromkeys(cluster_resource_types(), 2),
        INGRESS_RULE: 3,
        EGRESS_RULE: 3,
        "aws_placement_group": 1,
        # They go with their roles.
        "aws_iam_role_policy_attachment": 0,
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
    rules = {
        rule["SecurityGroupRuleId"]
        for rule in aws.client("ec2").describe_security_group_rules()["SecurityGroupRules"]
    }
    assert (late in rules, by_hand in rules) == (False, True)
    assert iam.list_role_policies(RoleName=role)["PolicyNames"] == [role]
    assert not left.remove_unknown(lambda: as_state(known))


def test_strays_are_removed_where_a_plan_makes_them(aws: Aws):
    Planted(aws, "default", "etl")
    found = own(aws, "etl")
    events: list[ProgressEvent] = []
    secrets = aws.client("secretsmanager")
    made = secrets.create_secret(Name="terradask/default/etl", Tags=tagged("default", "etl"))
    left = remains(aws, "etl", events)
    # A plan that makes nothing of the kind, and one that somebody else's apply has overtaken.
    left.remove_leftovers(["aws_s3_object.descriptor"], dict)
    state = {"aws_secretsmanager_secret.keys": made["ARN"], **as_state(found)}
    left.remove_leftovers(["aws_secretsmanager_secret.keys", "aws_iam_role.worker"], lambda: state)
    assert own(aws, "etl") == found
    assert len(secrets.list_secrets()["SecretList"]) == 1
    assert events == []
    left.remove_leftovers(["aws_secretsmanager_secret.keys", "aws_iam_role.worker"], dict)
    assert own(aws, "etl") == []
    assert secrets.list_secrets()["SecretList"] == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_secret_that_the_state_does_not_mean_makes_way(aws: Aws, deleted: bool):
    """Another caller made it anew, or has it deleted in days: Terraform could not make its own."""
    name, address = "terradask/default/etl", "aws_secretsmanager_secret.keys"
    secrets, left = aws.client("secretsmanager"), remains(aws, "etl", [])
    old = secrets.create_secret(Name=name, Tags=tagged("default", "etl"))["ARN"]
    secrets.delete_secret(
        SecretId=name, **({} if deleted else {"ForceDeleteWithoutRecovery": True})
    )
    if not deleted:
        secrets.create_secret(Name=name, SecretString="x", Tags=tagged("default", "etl"))
    left.remove_leftovers([address], lambda: {address: old})
    assert secrets.list_secrets(IncludePlannedDeletion=True)["SecretList"] == []


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("tags", [[], tagged("default", "other")])
def test_a_secret_of_others_is_left_alone(aws: Aws, deleted: bool, tags: list[dict[str, str]]):
    name, secrets = "terradask/default/etl", aws.client("secretsmanager")
    secrets.create_secret(Name=name, Tags=tags)
    if deleted:
        secrets.delete_secret(SecretId=name)
    left = remains(aws, "etl", [])
    left.remove_leftovers(["aws_autoscaling_group.workers"], dict)
    with pytest.raises(ForeignResources, match="isn't this cluster's") as refused:
        left.remove_leftovers(["aws_secretsmanager_secret.keys"], dict)
    assert "delete-secret" in str(refused.value.advice)
    assert secrets.describe_secret(SecretId=name).get("Tags", []) == tags


def test_without_isolation_nothing_more_than_a_placement_group_is_asked_for(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    Planted(aws, "default", "etl", kinds=cluster_resource_types() - {"aws_placement_group"})
    made: list[str] = []
    monkeypatch.setattr(
        aws, "client", lambda name, make=aws.client: made.append(name) or make(name)
    )
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
        remains(aws, name, [], is_isolated=False).remove_blockers(lambda: state)
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
    assert search(aws, None).clusters() == {"etl"}
    assert search(aws, None, "other").clusters() == set()


def test_a_cluster_without_a_state_is_removed_whole(aws: Aws):
    Planted(aws, "default", "etl")
    assert remains(aws, "etl", []).remove_all()
    assert own(aws, "etl") == []
    assert not remains(aws, "etl", []).remove_all()


def test_clusters_are_known_by_any_of_their_own(aws: Aws):
    def clusters(*known: str) -> set[str]:
        return search(aws, isolated()).clusters(known)

    assert clusters() == set()
    Planted(aws, "default", "roles", kinds=frozenset({"aws_iam_role"}))
    Planted(aws, "default", "groups", kinds=frozenset({"aws_security_group"}))
    Planted(aws, "default", "templates", kinds=frozenset({"aws_launch_template"}))
    Planted(aws, "default-2", "elsewhere")
    assert clusters() == {"roles", "groups", "templates"}
    # Of those that are known anyhow, nobody asks.
    assert clusters("roles") == {"groups", "templates"}
