"""Values that AWS adds after this release crash nothing, and are read on the safe side."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terradask._catalog.instance_types.model import read_type
from terradask._catalog.prices.prices import PriceKey
from terradask._catalog.prices.products import query_for, read_price
from terradask._cleanup.recover import _has_instances
from terradask._cleanup.search import Resource
from terradask._doctor.account_check.rights import answers
from terradask._network.given_network import _default_target
from terradask._observe.documents import derive_state, state_by_numbers
from terradask._observe.events import observed_by_aws
from terradask._observe.instances import _read
from terradask._observe.run_costs.account import (
    Account,
    AccountGroup,
    Observation,
    merge_observation,
)
from terradask_host.agent.spot import stop_of_notice
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import launch_failure

from .price_facts import product

#: Each example is quick, and values differ in kind rather than in number.
few = settings(max_examples=30)

_AT = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)

#: Of the newest model, and the number of members that count is AWS's, by its guide.
_COUNTED = {
    "Pending": True,
    "Pending:Wait": True,
    "Pending:Proceed": True,
    "InService": True,
    "ReplacingRootVolume": True,
    "ReplacingRootVolume:Wait": True,
    "ReplacingRootVolume:Proceed": True,
    "RootVolumeReplaced": True,
    "Terminating": False,
    "Terminating:Wait": False,
    "Terminating:Proceed": False,
    "Terminating:Retained": False,
    "Terminated": False,
    "Detaching": False,
    "Detached": False,
    "EnteringStandby": False,
    "Standby": False,
    "Warmed:Pending": False,
    "Warmed:Pending:Retained": False,
    "Warmed:Running": False,
    "Warmed:Stopped": False,
    "Warmed:Hibernated": False,
    "Warmed:Terminating:Retained": False,
}

#: What no model has: words, also such as begin like known ones.
_unknown = st.one_of(
    st.text(min_size=1, max_size=30),
    st.builds(
        "{}{}".format,
        st.sampled_from(["Pend", "Service", "run", "avail", "Quarantine"]),
        st.text(st.characters(categories=["L"]), max_size=8),
    ),
)


def _described(*states):
    members = [
        {"InstanceId": f"i-{number}", "LifecycleState": state, "HealthStatus": state}
        for number, state in enumerate(states)
    ]
    return {"DesiredCapacity": len(states), "MaxSize": 9, "Instances": members}


@pytest.mark.parametrize(("state", "counts"), _COUNTED.items())
def test_members_count_as_aws_counts_them(state, counts):
    assert Member("i-1", state).active is counts
    assert Member("i-1", state).in_service is (state == "InService")


@few
@given(state=_unknown.filter(lambda one: one.partition(":")[0] not in {"Standby"}))
def test_a_member_in_a_state_of_later_is_there_and_is_not_protected(state):
    group = Group.of("scheduler", _described(state, "Terminating"))
    if state not in _COUNTED:
        assert group.active_ids == ("i-0",)
        assert not group.members[0].in_service
    assert derive_state({"scheduler": group}, None, None, (), closing=False) == "starting"
    assert state_by_numbers(group.desired, len(group.active_ids)) in ("running", "starting")


@few
@given(state=_unknown)
def test_a_group_with_a_member_in_a_state_of_later_is_no_leftover(state):
    found = Resource("aws_autoscaling_group", "g", {}, _described(state))
    assert _has_instances(found) is not state.startswith("Terminat")


@few
@given(status=_unknown, text=st.text(max_size=40))
def test_an_activity_with_a_status_of_later_is_neither_done_nor_failed(status, text):
    for word in ("Launching a new", "Terminating"):
        activity = {
            "ActivityId": "a",
            "StatusCode": status,
            "StatusMessage": text,
            "Description": f"{word} EC2 instance: i-0a",
            "Cause": text,
            "StartTime": _AT,
            "EndTime": _AT,
        }
        assert [one.state for one in observed_by_aws("workers", [activity])] in (
            ["requested"],
            ["retiring"],
        )
        assert launch_failure(activity) is None
        account = Account("r", "c", "arn", int(_AT.timestamp()), {"workers": AccountGroup("spot")})
        seen = Observation(account.started_at + 9, {"workers": [activity]}, ())
        costs = merge_observation(account, seen, is_over=False)
        # What may run costs money, until its end is known.
        assert set(costs.uses) == ({"i-0a"} if word.startswith("Launch") else set())


@few
@given(state=_unknown, market=_unknown)
def test_an_instance_in_a_state_of_later_is_on(state, market):
    described = {
        "InstanceId": "i-0a",
        "InstanceType": "m9z.large",
        "InstanceLifecycle": market,
        "LaunchTime": _AT,
        "State": {"Name": state},
    }
    found = _read(described, {})
    assert found.is_on is (state not in ("stopped", "stopping"))
    assert found.host.market == "on-demand" or market == "spot"


@few
@given(words=st.lists(_unknown, min_size=5, max_size=5))
def test_a_type_with_attributes_of_later_is_read_or_left_out(words):
    architecture, maker, network, usage, strategy = words
    described = {
        "InstanceType": "z9.large",
        "ProcessorInfo": {"SupportedArchitectures": [architecture]},
        "SupportedUsageClasses": [usage],
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "NetworkInfo": {"NetworkPerformance": network},
        "GpuInfo": {"Gpus": [{"Name": maker, "Manufacturer": maker, "Count": 1}]},
        "PlacementGroupInfo": {"SupportedStrategies": [strategy]},
        "Hypervisor": maker,
        "BootModes": [maker],
    }
    assert read_type(described) is None or architecture in ("x86_64", "arm64")
    described["ProcessorInfo"]["SupportedArchitectures"].append("x86_64")
    found = read_type(described)
    assert found is not None
    assert found.architecture in ("x86_64", "arm64")
    assert found.gpus is not None
    assert found.gpus.manufacturer == maker
    assert found.spot is (usage == "spot")


@few
@given(target=_unknown, state=_unknown)
def test_a_route_to_a_target_of_later_leads_somewhere(target, state):
    route = {"DestinationCidrBlock": "0.0.0.0/0", "Origin": state, "State": state, "NewGw": target}
    assert _default_target({"Routes": [route]}) == target
    route["State"] = "blackhole"
    assert _default_target({"Routes": [route]}) is None


@few
@given(decision=_unknown)
def test_a_right_with_a_decision_of_later_is_not_allowed(decision):
    asked = {"EvalActionName": "s3:GetObject", "EvalResourceName": "*", "EvalDecision": decision}
    (answer,) = answers([asked])
    assert answer.decision == decision


@few
@given(action=_unknown, at=_unknown)
def test_a_spot_notice_with_an_action_of_later_ends_the_host_in_time(action, at):
    stop = stop_of_notice(
        {"action": action, "time": at}, now=_AT, monotonic_seconds=100.0, margin_seconds=10.0
    )
    assert 90.0 <= stop.until <= 210.0


@few
@given(unit=_unknown.filter(lambda unit: unit.lower() not in ("hrs", "hours", "hour")))
def test_a_price_per_unit_of_later_is_no_price(unit):
    found = read_price(
        query_for(PriceKey("nat-gateway", "us-east-1")),
        [product("NatGateway-Hours", "1", unit=unit)],
    )
    assert found.usd is None
    assert unit in (found.problem or "")
