"""A type of resource is known everywhere by its entry among the kinds; on moto. Its price is among
the tests of components.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._cleanup.adopt import _Adoption, imports, unknown_addresses
from terradask._cleanup.delete import delete_resources
from terradask._cleanup.resources import Resource
from terradask._cleanup.search import find_everything_in_ec2, find_network
from terradask._cleanup.state_guard import StateGuard
from terradask._plans.impact import RunningCluster, impacts, refuse_while_running
from terradask._plans.summary import Change
from terradask._terraform.program import TERRAFORM
from terradask._workspace.workspace import Workspace
from terradask.errors import InUse
from terradask_modules import kinds
from terradask_modules.caller_policies import CALLERS, Caller, CallerScope, caller_statements
from terradask_modules.iam import allow, listed, policy_text
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.cluster_names import ClusterNames, exactly
from terradask_modules.kinds.kind import (
    FREE,
    Access,
    Deletion,
    Listed,
    Named,
    ResourceKind,
    Writer,
    in_ec2,
)
from terradask_modules.names import TAG_WORKSPACE, resource_name
from terradask_modules.policies import PolicyScope, trust_policy
from terradask_modules.where import Where
from terradask_stacks.bare_stack import resources_to_find
from terradask_stacks.settings import NetworkSettings, Settings

from ...left_over import leftovers
from ..iam_requests import asked, query
from ..plan_documents import dangers_of
from ..policy_plans import found as findings
from ..policy_plans import plan, resource
from ..report_data import of_changes
from .planted import place, search, tagged
from .swept_account import Account, keys, swept

KEY_PAIR = "aws_key_pair"
INVENTED = in_ec2(
    KEY_PAIR,
    prefix="key",
    id="KeyName",
    adopt="tagged",
    orphan="key-pair",
    born="CreateTime",
    within="nothing",
    price=FREE,
    clusters="each",
    shape=lambda names, address: exactly(id=f"{names.where.cluster}-{address}"),
    loss="nobody logs in",
    loss_to_hosts="its hosts let nobody in",
)
# A setting that the network has, for a kind that it doesn't.
SETTING, ALARM_NAME = "flow_logs", "terradask-default-alarm"
ALARM = ResourceKind(
    "aws_cloudwatch_metric_alarm",
    service="cloudwatch",
    find=Named(
        "list_tags_for_resource",
        "ResourceARN",
        "Tags",
        "arn:{partition}:cloudwatch:{region}:{account}:alarm:{name}",
        "{name}",
    ),
    delete=Deletion("delete_alarms", "AlarmNames", in_list=True),
    name_attribute="alarm_name",
    adopt="named",
    setting=SETTING,
    names=lambda where, value: {"on": resource_name(where.workspace, "alarm")} if value else {},
    policy=lambda where: policy_text([allow("Look", "cloudwatch:Get", where.arn("any", "*"))]),
    writer=Writer(
        "alarms",
        "alarms.amazonaws.com",
        "alarm",
        lambda where: policy_text([allow("Log", "logs:PutLogEvents", where.arn("logs", "x"))]),
    ),
)


SCOPE = CallerScope(
    hosts=PolicyScope(
        where=Where(
            partition="aws", region="us-east-1", account="123456789012", workspace="default"
        )
    )
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
    found = find_network(aws, place(), {})
    assert ids_of(found) == [mine.id]
    configuration = {
        "resource": {KEY_PAIR: {"x": {"tags": {"Name": "mine", TAG_WORKSPACE: "default"}}}}
    }
    assert unknown_addresses(configuration, {}) == [f"{KEY_PAIR}.x"]
    assert imports(configuration, {}, found) == {f"{KEY_PAIR}.x": mine.id}
    delete_resources(aws, [mine], progress=lambda _: None)
    assert ids_of(find_everything_in_ec2(aws.client("ec2"), place())) == ["theirs"]


@pytest.mark.usefixtures("invented")
def test_an_invented_kind_of_a_cluster_without_a_deployment_is_swept(
    workspace: Workspace, account: Account
):
    account.put("workspace.json")
    lost = made(workspace.aws, "lost", "gone")
    found = search(workspace.aws, None).find("gone")
    assert ids_of(found) == [lost.id]
    assert ("key-pair", lost.id) in keys(workspace.strays(grace_seconds=-2))
    done = swept(workspace)
    assert ("key-pair", lost.id) in {stray.key for stray in done.removed}
    assert ids_of(find_everything_in_ec2(account.ec2, place())) == []


@pytest.mark.usefixtures("invented")
def test_the_embedded_aws_finds_what_is_left_of_an_invented_kind(aws: Aws):
    name = made(aws, "mine", "etl").id
    assert leftovers("default", session=SESSION) == [f"key-pair {name}"]
    delete_resources(aws, [Resource(KEY_PAIR, name)], progress=lambda _: None)
    assert leftovers("default", session=SESSION) == []


def test_an_invented_kind_has_the_date_that_its_entry_names(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
):
    account.put("workspace.json")
    made(workspace.aws, "lost", "gone")
    for key in ("CreateTime", None):
        monkeypatch.setitem(KINDS, KEY_PAIR, replace(INVENTED, born=key))
        (orphan,) = [one for one in workspace.strays().strays if one.kind == "key-pair"]
        assert (orphan.born is None) == (key is None)


def test_an_invented_kind_is_found_adopted_and_removed_by_the_name_that_its_setting_gives(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(KINDS, ALARM.terraform, ALARM)
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName=ALARM_NAME,
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        Threshold=1,
        Tags=tagged("default"),
    )

    def configured(**network: Any) -> Any:
        return resources_to_find(Settings(network=NetworkSettings(**network)), SCOPE.where)

    assert ALARM.terraform not in configured()
    blocks = configured(**{SETTING: True})
    assert blocks[ALARM.terraform] == {"on": {"name": ALARM_NAME}}
    assert blocks["aws_cloudwatch_log_group"]["alarms"] == {"name": "/terradask/default/alarms"}
    assert blocks["aws_iam_role"]["alarms"]["name"] == "terradask-default-alarms"
    found = [one for one in find_network(aws, place(), blocks) if one.type == ALARM.terraform]
    assert [one.id for one in found] == [ALARM_NAME]
    stack = {"resource": {ALARM.terraform: {"on": {"alarm_name": ALARM_NAME}}}}
    assert imports(stack, {}, found) == {f"{ALARM.terraform}.on": ALARM_NAME}
    stack["resource"][ALARM.terraform]["on"]["alarm_name"] = "another"
    assert imports(stack, {}, found) == {}
    delete_resources(aws, found, progress=lambda _: None)
    assert aws.client("cloudwatch").describe_alarms()["MetricAlarms"] == []


def test_policy_takes_an_invented_kinds_own_policy_and_its_writers_role_alone(
    monkeypatch: pytest.MonkeyPatch,
):
    where, writer = SCOPE.where, ALARM.writer
    assert ALARM.policy is not None
    assert writer is not None
    own = f"{ALARM.terraform}.on"
    denied = policy_text([{"Effect": "Deny", "Action": "*", "Resource": "*", "Principal": "*"}])

    def told(policy: str, trust: str, rights: str) -> list[str]:
        document = plan(
            resource("aws_s3_bucket.x", {"bucket": where.bucket}),
            resource(own, {"policy": policy}),
            resource("aws_iam_role.alarms", {"assume_role_policy": trust}),
            resource("aws_iam_role_policy.alarms", {"policy": rights}),
        )
        return sorted(address for check, address in findings(document) if check == "P6")

    right = (denied, writer.trust_policy(where), writer.policy(where))
    assert told(*right) == ["aws_iam_role.alarms"] * 2 + ["aws_iam_role_policy.alarms"]
    kind = replace(ALARM, policy=lambda _where: denied)
    monkeypatch.setitem(KINDS, ALARM.terraform, kind)
    assert told(*right) == []
    assert set(told(ALARM.policy(where), *right[1:])) == {own}
    assert set(told(denied, trust_policy("aws"), right[2])) == {"aws_iam_role.alarms"}
    wider = json.loads(right[2])
    wider["Statement"][0]["Resource"] = "*"
    assert told(*right[:2], json.dumps(wider)) == ["aws_iam_role_policy.alarms"]


def test_a_file_in_the_folder_makes_a_kind_which_comes_after_those_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = "from terradask_modules.kinds.kind import ResourceKind\n"
    text += "THING = ResourceKind('aws_thing', after=('aws_subnet',))\n"
    (tmp_path / "invented.py").write_text(text)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    try:
        order = list(kinds._in_order({one.terraform: one for one in kinds._in_files()}))
    finally:
        del sys.modules["terradask_modules.kinds.invented"], kinds.invented  # type: ignore[attr-defined]
    assert set(order) == {*KINDS, "aws_thing"}
    assert order.index("aws_thing") > order.index("aws_subnet")


def test_the_embedded_aws_asks_for_the_right_on_an_invented_kind():
    assert asked(query("ec2", "DeleteKeyPair", KeyName="mine")) == [
        ("ec2:DeleteKeyPair", "key-pair/mine")
    ]
    assert asked(query("ec2", "DescribeKeyPairs")) == [("ec2:DescribeKeyPairs", "*")]
    tag = {"ResourceType": "key-pair", "Tag__1__Key": "a", "Tag__1__Value": "b"}
    tags = {f"TagSpecification__1__{key}": value for key, value in tag.items()}
    made = asked(query("ec2", "CreateKeyPair", KeyName="mine", **tags))
    assert made == [(f"ec2:{one}", "key-pair/*") for one in ("CreateKeyPair", "CreateTags")]


@pytest.mark.usefixtures("invented")
def test_an_invented_kind_may_be_in_a_clusters_state_with_its_tags(aws: Aws):
    names = ClusterNames(where=SCOPE.where.of_cluster("etl"))
    made(aws, "etl-own", "etl")
    made(aws, "etl-stolen", "gone")

    def foreign(address: str) -> list[str]:
        entry = {
            "mode": "managed",
            "type": KEY_PAIR,
            "name": address,
            "provider": TERRAFORM.provider_in_state,
            "instances": [{"attributes": {"id": f"etl-{address}"}}],
        }
        return [one["why"] for one in StateGuard(aws, names).foreign({"resources": [entry]})]

    assert foreign("own") == []
    assert "gone" in foreign("stolen")[0]


def test_what_an_invented_kind_means_is_in_plans(monkeypatch: pytest.MonkeyPatch):
    change = Change(f"{KEY_PAIR}.x", KEY_PAIR, "delete", None, ())
    summary = of_changes(change, stack="etl").summary
    running = [RunningCluster("etl", "running", {"scheduler": 1})]
    refuse_while_running(summary, running)
    assert dangers_of(None, {}, kind=KEY_PAIR, actions=["delete"]) == ["is destroyed"]
    monkeypatch.setitem(KINDS, KEY_PAIR, INVENTED)
    assert "its hosts let nobody in" in impacts(summary, running)[0].text
    with pytest.raises(InUse, match="resources of running clusters"):
        refuse_while_running(summary, running)
    assert dangers_of(None, {}, kind=KEY_PAIR, actions=["delete"]) == [
        "is destroyed: nobody logs in"
    ]


def actions(caller: Caller, scope: CallerScope = SCOPE) -> set[str]:
    return {
        action for one in caller_statements(scope, caller) for action in listed(one.get("Action"))
    }


SESSION = boto3.Session(region_name="us-east-1")
SEE, MAKE, REMOVE = (f"ec2:{one}" for one in ("DescribeKeyPairs", "CreateKeyPair", "DeleteKeyPair"))


def test_callers_may_see_make_and_remove_an_invented_kind_of_clusters(
    monkeypatch: pytest.MonkeyPatch,
):
    for caller in CALLERS:
        assert not actions(caller) & {SEE, MAKE, REMOVE}
    monkeypatch.setitem(KINDS, KEY_PAIR, INVENTED)
    assert actions("ongoing") >= {SEE, MAKE, REMOVE}
    assert actions("setup") & {SEE, MAKE, REMOVE} == {SEE}
    assert actions("ci") & {SEE, MAKE, REMOVE} == {SEE}


@pytest.mark.parametrize("clusters", ["templates", "isolated"])
def test_only_callers_whose_clusters_have_an_invented_kind_may_make_it(
    clusters: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(KINDS, KEY_PAIR, replace(INVENTED, clusters=clusters))
    assert not actions("ongoing") & {MAKE, REMOVE}
    own, isolated = replace(SCOPE, own_templates=True), replace(SCOPE, isolated=True)
    assert actions("ongoing", isolated) >= {SEE, MAKE, REMOVE}
    assert ({MAKE, REMOVE} <= actions("ongoing", own)) == (clusters == "templates")


def test_an_invented_kind_of_the_network_needs_its_setting(monkeypatch: pytest.MonkeyPatch):
    kind = replace(INVENTED, clusters=None, setting="key_pairs", is_optional=True)
    monkeypatch.setitem(KINDS, KEY_PAIR, kind)
    for caller in CALLERS:
        assert not actions(caller) & {SEE, MAKE, REMOVE}
    asked = replace(SCOPE, settings=frozenset({"key_pairs"}))
    assert actions("setup", asked) >= {SEE, MAKE, REMOVE}
    given = replace(asked, given_vpc="vpc-1")
    assert not actions("setup", given) & {MAKE, REMOVE}


def test_an_invented_kind_outside_of_ec2_is_kept_on_its_arn(monkeypatch: pytest.MonkeyPatch):
    access = Access(
        see=("SeeThing", ("things:Get",)),
        keep=("KeepThing", ("things:Make", "things:End")),
        arn=lambda where: where.arn("things", where.workspace),
    )
    kind = ResourceKind("aws_thing", service="things", access=access)
    monkeypatch.setitem(KINDS, "aws_thing", kind)
    kept = next(one for one in caller_statements(SCOPE, "setup") if one["Sid"] == "KeepThing")
    assert kept["Action"] == ["things:Make", "things:End"]
    assert kept["Resource"] == "arn:aws:things:us-east-1:123456789012:default"
    assert "things:Get" in actions("ci")
    assert "things:Make" not in actions("ci")


def test_each_stands_on_earlier_kinds_only():
    """So it is adopted after them, and deleted before them."""
    order = list(KINDS)
    assert all(
        order.index(kind.part_of[0]) < order.index(name)
        for name, kind in KINDS.items()
        if kind.part_of is not None
    )


def test_a_kinds_setting_is_one_of_the_networks():
    named = {kind.setting for kind in KINDS.values() if kind.setting}
    assert named
    assert named <= NetworkSettings.model_fields.keys()


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
        taken |= {kind.delete.account} - {""}
        members = model(kind.delete.call).input_shape.members
        assert taken <= members.keys()
        assert kind.delete.in_list == (members[kind.delete.argument].type_name == "list")
    assert kind.adopt is None or callable(getattr(_Adoption, kind.adopt))
