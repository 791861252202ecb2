"""A type of resource is known everywhere by its entry among the kinds; on moto."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._cleanup.adopt import _Adoption, imports, unknown_addresses
from terradask._cleanup.delete import delete_resources
from terradask._cleanup.resources import Resource
from terradask._cleanup.search import find_cluster, find_everything_in_ec2, find_network
from terradask._workspace.workspace import Workspace
from terradask_modules.kinds import KINDS, Deletion, Listed, Named, ResourceKind
from terradask_modules.names import TAG_WORKSPACE

from .planted import tagged
from .swept_account import Account, keys, swept

KEY_PAIR = "aws_key_pair"
INVENTED = ResourceKind(
    KEY_PAIR,
    find=Listed("describe_key_pairs", "KeyPairs", "KeyName"),
    delete=Deletion("delete_key_pair", "KeyName"),
    adopt="tagged",
    orphan="key-pair",
    born="CreateTime",
    clusters="each",
)


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, KEY_PAIR, INVENTED)


def made(aws: Aws, name: str, cluster: str | None = None) -> Resource:
    tags = [*tagged("default", cluster), {"Key": "Name", "Value": name}]
    aws.client("ec2").create_key_pair(
        KeyName=name, TagSpecifications=[{"ResourceType": "key-pair", "Tags": tags}]
    )
    return Resource(KEY_PAIR, name)


def ids_of(found: list[Resource]) -> list[str]:
    return [resource.id for resource in found if resource.type == KEY_PAIR]


@pytest.mark.usefixtures("invented")
def test_an_invented_kind_is_found_adopted_and_removed_with_the_network(aws: Aws):
    mine = made(aws, "mine")
    made(aws, "theirs", "etl")
    found = find_network(aws, workspace="default", bucket="terradask-default-1", configuration={})
    assert ids_of(found) == [mine.id]
    configuration = {
        "resource": {KEY_PAIR: {"x": {"tags": {"Name": "mine", TAG_WORKSPACE: "default"}}}}
    }
    assert unknown_addresses(configuration, {}) == [f"{KEY_PAIR}.x"]
    assert imports(configuration, {}, found) == {f"{KEY_PAIR}.x": mine.id}
    delete_resources(aws, [mine], progress=lambda _: None)
    assert ids_of(find_everything_in_ec2(aws.client("ec2"), "default")) == ["theirs"]


@pytest.mark.usefixtures("invented")
def test_an_invented_kind_of_a_cluster_without_a_deployment_is_swept(
    workspace: Workspace, account: Account
):
    account.put("workspace.json")
    lost = made(workspace.aws, "lost", "gone")
    found = find_cluster(workspace.aws, workspace="default", cluster="gone", isolated=None)
    assert ids_of(found) == [lost.id]
    assert ("key-pair", lost.id) in keys(workspace.strays(grace_seconds=-2))
    done = swept(workspace)
    assert ("key-pair", lost.id) in {stray.key for stray in done.removed}
    assert ids_of(find_everything_in_ec2(account.ec2, "default")) == []


def test_each_stands_on_earlier_kinds_only():
    """So it is adopted after them, and deleted before them."""
    order = list(KINDS)
    assert all(
        order.index(kind.part_of[0]) < order.index(name)
        for name, kind in KINDS.items()
        if kind.part_of is not None
    )


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_call_and_key_of_a_kind_is_one_of_its_services(kind: ResourceKind):
    client = boto3.client(kind.service, region_name="us-east-1")

    def model(call: str) -> Any:
        return client.meta.service_model.operation_model(client.meta.method_to_api_mapping[call])

    if isinstance(kind.find, Listed):
        found = model(kind.find.call)
        assert kind.find.id in found.output_shape.members[kind.find.listing].member.members
    elif isinstance(kind.find, Named) and kind.find.call:
        found = model(kind.find.call)
        assert kind.find.argument in found.input_shape.members
        assert kind.find.key in found.output_shape.members
    if kind.delete is not None:
        taken = {kind.delete.argument, *kind.delete.more, *(kind.part_of or ())[1:]}
        members = model(kind.delete.call).input_shape.members
        assert taken <= members.keys()
        assert kind.delete.in_list == (members[kind.delete.argument].type_name == "list")
    assert kind.adopt is None or callable(getattr(_Adoption, kind.adopt))
