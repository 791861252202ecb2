"""The scheduler's host scales: what it asks AWS and sends to the scheduler's process."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest

from terradask_host.agent import worker_hosts
from terradask_host.scaling_policy import ScalingPolicy

from ..waiting import eventually
from .scaler_stand import Stand, stands


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(worker_hosts, "LEAST_SECONDS_BETWEEN_LOOKS", 0.0)


stand = pytest.fixture(stands)

EAGER = ScalingPolicy(0, 6, target_duration_seconds=1.0, wait_count=1)


def test_a_group_grows_on_its_first_market(stand):
    here = stand({"workers": EAGER})
    here.load("i-1", waiting=3)
    assert here.groups.changes == [("workers-spot", 4)]
    assert here.told == [
        "workers: from 1 to 4 hosts: 3 tasks wait and 1 are at workers, about 4 s of work"
    ]


def test_a_group_with_a_name_grows_with_the_tasks_that_ask_for_its_resources(stand):
    here = stand({"gpu": EAGER})
    here.load("i-1", waiting=2, MEMORY=1)
    assert here.groups.changes == []
    here.load("i-1", waiting=2, GPU=1)
    assert here.groups.changes == [("gpu", 2)]


def test_what_grows_is_one_call_for_any_number(stand):
    here = stand({"workers": dataclasses.replace(EAGER, maximum=9)})
    here.load("i-1", waiting=500)
    assert here.groups.calls == ["look", ("workers-spot", 9)]


def test_while_nothing_changes_aws_is_not_asked(stand):
    here = stand({"workers": dataclasses.replace(EAGER, wait_count=9)})
    for _ in range(5):
        here.load("i-1")
    assert here.groups.calls == ["look"]
    # One that is gone at the scheduler may be gone at AWS.
    here.load()
    assert here.groups.calls == ["look"] * 2


def test_idle_hosts_are_retired_and_then_ended(stand):
    here = stand({"workers": EAGER})
    here.load("i-1", idle=1)
    assert here.sent == [{"do": "retire", "hosts": ["i-1"], "drain": False}]
    # While its data is moved, nothing is done to it.
    here.load("i-1", idle=1)
    assert here.groups.changes == []
    here.scaler.take({"hosts": ["i-1"], "kept": []})
    here.settle()
    assert here.groups.changes == [("end", "i-1", False)]
    assert here.groups.desired["workers-spot"] == 0


def test_a_host_that_could_not_be_emptied_stays(stand):
    here = stand({"workers": EAGER})
    here.load("i-1", idle=1)
    here.scaler.take({"hosts": [], "kept": ["i-1"]})
    here.settle()
    here.load("i-1")
    assert here.groups.changes == []
    assert here.groups.desired["workers-spot"] == 1


def test_work_that_comes_while_a_host_leaves_gets_one_in_its_place(stand):
    here = stand({"workers": EAGER})
    here.load("i-1", idle=1)
    here.load("i-1", idle=1, waiting=2)
    # The one that leaves lowers the number by one when it goes.
    assert here.groups.changes == [("workers-spot", 3)]


def test_a_retired_host_that_hangs_is_ended(stand, monkeypatch):
    here = stand({"workers": EAGER})
    here.load("i-1", idle=1)
    monkeypatch.setattr(worker_hosts, "RETIRED_SECONDS", 0.0)
    here.load("i-1", idle=1)
    assert here.groups.changes == [("end", "i-1", False)]


def test_launches_that_have_not_come_are_given_up_and_booting_hosts_ended(stand):
    here = stand({"workers": EAGER})
    here.groups.holds = True
    here.groups.desired["workers-spot"], here.groups.members["workers-spot"] = 4, ["i-1", "i-2"]
    here.load("i-1")
    assert here.groups.changes == [("workers-spot", 2), ("end", "i-2", False)]
    assert here.groups.desired["workers-spot"] == 1


def test_a_clients_word_is_answered_when_it_is_kept(stand):
    here = stand({})
    answer = here.adapt({"workers": EAGER.to_document()})
    assert answer == {
        "do": "policies",
        "number": 1,
        "why": None,
        "policies": {"workers": EAGER.to_document()},
    }
    assert here.kept == [{"workers": EAGER}]
    here.sent.clear()
    assert here.adapt({"workers": None})["policies"] == {}
    assert here.kept[-1] == {}
    assert here.told == [
        "workers: adapts between 0 and 6 hosts",
        "workers: adapts no more: its number was set",
    ]
    here.load("i-1", waiting=5)
    assert here.groups.changes == []


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ({"tpu": EAGER.to_document()}, "no group of workers tpu"),
        ({"workers": {"minimum": 3, "maximum": 1}}, "not a policy"),
        ({"workers": [1, 2]}, "not a policy"),
    ],
)
def test_a_word_that_can_not_be_is_refused(stand, policies, says):
    here = stand({"workers": EAGER})
    answer = here.adapt(policies)
    assert says in answer["why"]
    assert answer["policies"] == {"workers": EAGER.to_document()}
    assert here.kept == []


def test_a_word_that_can_not_be_kept_changes_nothing(stand):
    here = stand({"workers": EAGER})
    here.refuses = OSError("no bucket")
    answer = here.adapt({"workers": None})
    assert "no bucket" in answer["why"]
    assert answer["policies"] == {"workers": EAGER.to_document()}


def test_a_word_waits_for_workers_that_are_being_retired(stand):
    here = stand({"workers": EAGER})
    here.load("i-1", idle=1)
    here.scaler.adapt(1, {"workers": None})
    time.sleep(0.2)
    assert not [one for one in here.sent if one.get("number") == 1]
    here.scaler.take({"hosts": ["i-1"], "kept": []})
    eventually(lambda: [one for one in here.sent if one.get("number") == 1])
    # The client finds the number without it.
    assert here.groups.desired["workers-spot"] == 0


def test_a_group_that_is_given_up_is_left_alone_until_a_client_says_otherwise(stand):
    here = stand({"workers": EAGER})
    here.scaler.give_up("workers-spot")
    here.scaler.give_up("workers")
    here.load("i-1", waiting=3)
    assert here.groups.changes == []
    here.adapt({"workers": EAGER.to_document()})
    here.load("i-1", waiting=3)
    assert here.groups.changes == [("workers-spot", 4)]


def test_what_aws_refuses_is_said_once_and_tried_again(stand):
    here = stand({"workers": EAGER})
    here.groups.fails = OSError("throttled")
    for _ in range(3):
        here.scaler.take({"hosts": [], "idle_count": 0, "kept_count": 0, "waiting": [[{}, 3, 3.0]]})
        eventually(here.scaler._items.empty)
        time.sleep(0.05)
    assert here.told == ["can't scale: OSError: throttled"]
    here.groups.fails = None
    here.load(waiting=3)
    assert here.groups.changes == [("workers-spot", 3)]


def test_closing_waits_for_the_call_under_way_and_no_other_follows():
    here = Stand({"workers": EAGER, "gpu": EAGER})
    here.groups.may_go.clear()
    waits = [[{}, 3, 3.0], [{"GPU": 1}, 2, 2.0]]
    here.scaler.take({"hosts": [], "idle_count": 0, "kept_count": 0, "waiting": waits})
    eventually(lambda: here.groups.calls)
    threading.Timer(0.3, here.groups.may_go.set).start()
    here.scaler.close(10)
    assert here.groups.changes == [("workers-spot", 3)]
    here.scaler.take({"hosts": [], "idle_count": 0, "kept_count": 0, "waiting": waits})
    time.sleep(0.2)
    assert here.groups.changes == [("workers-spot", 3)]
