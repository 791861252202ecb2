"""The scheduler's host scales: what it asks AWS and sends to the scheduler's process."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest
from botocore.exceptions import ClientError

from terradask_host.agent import scale_commands, worker_hosts
from terradask_host.scaling_policy import ScalingPolicy

from ..waiting import eventually
from .scaler_stand import Stand, stands


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(worker_hosts, "LEAST_SECONDS_BETWEEN_READS", 0.0)


stand = pytest.fixture(stands)


def refusal(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Describe")


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
    assert here.sent == [{"do": "retire", "hosts": ["i-1"], "drain": False, "forced": False}]
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
    assert here.groups.changes == [("workers-spot", 2)]
    # It may join meanwhile.
    assert here.sent == [{"do": "retire", "hosts": ["i-2"], "drain": False, "forced": True}]
    here.scaler.take({"hosts": ["i-2"], "kept": []})
    here.settle()
    assert here.groups.changes[1:] == [("end", "i-2", False)]
    assert here.groups.desired["workers-spot"] == 1


def test_a_clients_word_is_answered_when_it_is_kept(stand):
    here = stand({})
    answer = here.adapt({"workers": EAGER.to_document()})
    assert answer == {"do": "answer", "number": 1, "why": None}
    assert here.policies == {"workers": EAGER.to_document()}
    assert here.kept == [{"workers": EAGER}]
    here.sent.clear()
    here.adapt({"workers": None})
    assert here.policies == {}
    assert here.kept[-1] == {}
    assert here.told == [
        "workers: adapts between 0 and 6 hosts",
        "workers: no longer adapts: its number was set",
    ]
    here.load("i-1", waiting=5)
    assert here.groups.changes == []


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ({"tpu": EAGER.to_document()}, "no group of workers tpu"),
        ({"workers": {"minimum": 3, "maximum": 1}}, "not a valid policy"),
        ({"workers": [1, 2]}, "not a valid policy"),
    ],
)
def test_a_word_that_can_not_be_is_refused(stand, policies, says):
    here = stand({"workers": EAGER})
    answer = here.adapt(policies)
    assert says in answer["why"]
    assert here.scaler.policies == {"workers": EAGER}
    assert here.kept == []


def test_a_word_that_can_not_be_kept_changes_nothing(stand):
    here = stand({"workers": EAGER})
    here.refuses = OSError("no bucket")
    answer = here.adapt({"workers": None})
    assert "no bucket" in answer["why"]
    assert here.scaler.policies == {"workers": EAGER}


def test_a_group_that_is_given_up_is_left_alone_until_a_client_says_otherwise(stand):
    here = stand({"workers": EAGER})
    here.scaler.give_up("workers-spot")
    here.scaler.give_up("workers")
    here.load("i-1", waiting=3)
    assert here.groups.changes == []
    here.adapt({"workers": EAGER.to_document()})
    here.load("i-1", waiting=3)
    assert here.groups.changes == [("workers-spot", 4)]


# ---- a client's numbers --------------------------------------------------------------------------


def test_a_clients_number_is_one_look_and_one_call_and_ends_adapting(stand):
    here = stand({"workers": EAGER, "gpu": EAGER})
    answer = here.scale({"workers": 4}, loaded=["i-1"])
    assert here.groups.calls == ["look", ("workers-spot", 4)]
    assert (answer["why"], answer["leaving"]) == (None, [])
    assert answer["ended"] == {"workers": EAGER.to_document()}
    assert here.policies == {"gpu": EAGER.to_document()}
    assert here.kept == [{"gpu": EAGER}]
    assert here.told == [
        "workers: no longer adapts: its number was set",
        "workers: from 1 to 4 hosts, as a client set",
    ]


def test_hosts_leave_once_retired_and_the_client_is_answered_then(stand):
    here = stand({})
    here.groups.desired["workers-spot"], here.groups.members["workers-spot"] = (
        3,
        ["i-1", "i-2", "i-3"],
    )
    # One has not joined; of the others, one is idle.
    assert here.scale({"workers": 1}, loaded=["i-2", "i-1"], idle=1) is None
    retired = [each["hosts"] for each in here.sent if each["do"] == "retire"]
    assert retired == [["i-3"], ["i-2"]]
    assert all(each["forced"] for each in here.sent if each["do"] == "retire")
    number = here.scaler._commands._answers[0].number
    here.scaler.take({"hosts": ["i-3"], "kept": []})
    here.settle()
    assert here.answer(number) is None
    here.scaler.take({"hosts": ["i-2"], "kept": []})
    here.settle()
    assert here.answer(number)["leaving"] == ["i-2", "i-3"]
    assert here.groups.changes == [("end", "i-3", False), ("end", "i-2", False)]
    assert here.groups.members["workers-spot"] == ["i-1"]


def test_hosts_of_a_group_that_goes_to_zero_are_ended_by_one_call(stand):
    here = stand({})
    here.groups.desired["workers-spot"], here.groups.members["workers-spot"] = (
        3,
        ["i-1", "i-2", "i-3"],
    )
    here.scale({"workers": 0}, loaded=["i-1", "i-2", "i-3"])
    here.scaler.take({"hosts": ["i-1", "i-2", "i-3"], "kept": []})
    here.settle()
    assert here.groups.changes == [("workers-spot", 0)]


def test_a_larger_number_while_hosts_leave_gets_others_in_their_place(stand):
    here = stand({})
    here.groups.have("i-1", "i-2")
    here.scale({"workers": 1}, loaded=["i-1", "i-2"])
    here.scale({"workers": 2}, loaded=["i-1", "i-2"])
    # The one that leaves lowers the number when it goes.
    assert here.groups.changes == [("workers-spot", 3)]


def test_launches_are_cancelled_once_aws_shows_what_it_has_launched(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.05)
    here = stand({})
    here.groups.have("i-1", "i-2", desired=2)
    here.scale({"workers": 4}, loaded=["i-1", "i-2"])
    here.scale({"workers": 1}, loaded=["i-1", "i-2"])
    here.observed("i-1", "i-2")
    here.settle()

    def numbers():
        return [each for each in here.groups.changes if each[0] != "why"]

    assert numbers() == [("workers-spot", 4)]
    monkeypatch.setattr(worker_hosts, "SHOWN_SECONDS", 0.0)
    eventually(lambda: here.observed("i-1", "i-2") or numbers()[1:] == [("workers-spot", 2)])

    def retired():
        return [each["hosts"] for each in here.sent if each["do"] == "retire"]

    eventually(lambda: here.observed("i-1", "i-2") or retired() == [["i-1"]])


def test_certain_hosts_leave_and_no_others_and_adapting_goes_on(stand):
    here = stand({"workers": EAGER})
    here.groups.have("i-1", "i-2")
    here.scale({}, ["i-2", "i-9", "scheduler-i-3"], ["i-1", "i-2"])
    assert [each["hosts"] for each in here.sent if each["do"] == "retire"] == [["i-2"]]
    assert here.scaler.policies == {"workers": EAGER}


def test_who_would_leave_is_said_and_nothing_is_done(stand):
    here = stand({"workers": EAGER})
    here.groups.holds = True
    here.groups.desired["workers-spot"], here.groups.members["workers-spot"] = (
        4,
        ["i-1", "i-2", "i-3"],
    )
    answer = here.scale({"workers": 1}, loaded=["i-2", "i-1"], act=False)
    assert answer["leaving"] == ["i-3", "i-2"]
    assert (here.groups.changes, here.kept) == ([], [])


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"tpu": 1}, "there is no group of workers tpu"),
        ({"workers": -1}, "not numbers of hosts"),
        ({"workers": True}, "not numbers of hosts"),
    ],
)
def test_a_number_that_can_not_be_is_refused(stand, numbers, says):
    here = stand({"workers": EAGER})
    assert says in here.scale(numbers)["why"]
    assert (here.groups.changes, here.kept) == ([], [])


def test_a_number_of_a_cluster_that_is_over_is_refused(stand):
    here = stand({})
    here.groups.worker_chains = dict
    assert "over" in here.scale({"workers": 3})["why"]


def test_what_aws_refuses_for_good_is_the_answer(stand):
    here = stand({})
    here.groups.fails = ClientError(
        {"Error": {"Code": "AccessDenied", "Message": "no"}}, "Describe"
    )
    assert "AccessDenied" in here.scale({"workers": 3})["why"]


def test_a_number_that_aws_throttles_is_tried_again_and_answered_then(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.05)
    here = stand({})
    here.groups.fails = refusal("Throttling")
    assert here.scale({"workers": 3}) is None
    here.groups.fails = None
    eventually(lambda: here.groups.desired["workers-spot"] == 3)
    eventually(lambda: [one for one in here.sent if one.get("ended") == {}])


def test_a_number_beyond_a_lowered_maximum_is_reached_when_it_is_back(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.05)
    here = stand({})
    here.groups.max_size = 2
    assert here.scale({"gpu": 3})["why"] is None
    assert here.groups.changes == [("gpu", 2)]
    here.groups.max_size = 9
    eventually(lambda: any(each["do"] == "observe" for each in here.sent))
    eventually(lambda: here.observed() or here.groups.desired["gpu"] == 3)


def test_a_number_that_another_sets_meanwhile_holds(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.05)
    here = stand({})
    here.groups.max_size = 2
    here.scale({"gpu": 3})
    here.groups.set_desired("gpu", 1)
    here.groups.max_size = 9
    eventually(lambda: any(each["do"] == "observe" for each in here.sent))
    # It is asked at each try.
    eventually(lambda: here.observed() or not here.scaler._commands._goals)
    assert here.groups.desired["gpu"] == 1


def test_a_number_is_kept_until_its_group_has_it_and_its_hosts_have_left(stand):
    here = stand({})
    here.groups.max_size = 2
    here.groups.have("i-1", "i-2")
    here.scale({"gpu": 3, "workers": 1}, loaded=["i-1", "i-2"])
    assert here.numbers == [{"gpu": 3, "workers": 1}]
    here.scaler.take({"hosts": ["i-1"], "kept": []})
    here.observed("i-2")
    here.settle()
    assert here.numbers[1:] == [{"gpu": 3}]
    here.adapt({"gpu": EAGER.to_document()})
    assert here.numbers[2:] == [{}]


def test_a_number_that_is_reached_at_once_is_not_stored(stand):
    here = stand({})
    here.scale({"workers": 4}, loaded=["i-1"])
    assert (here.groups.desired["workers-spot"], here.numbers) == (4, [])


def test_a_number_that_can_not_be_stored_holds_and_is_stored_later(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.05)
    here = stand({})
    here.groups.max_size = 2
    here.refuses = OSError("no bucket")
    assert here.scale({"gpu": 3})["why"] is None
    here.refuses = None
    eventually(lambda: here.numbers == [{"gpu": 3}])
    assert here.told.count("numbers of hosts can't be stored: OSError: no bucket") == 1


def test_the_next_host_program_goes_on_to_a_number_and_a_policy_comes_first(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "INHERITED_SECONDS", 0.0)
    here = stand({"workers": EAGER}, numbers={"gpu": 3, "workers": 5})
    eventually(lambda: any(each["do"] == "observe" for each in here.sent))
    here.observed()
    eventually(lambda: here.groups.desired["gpu"] == 3)
    here.settle()
    assert here.groups.desired["workers-spot"] == 1
    assert here.numbers[-1] == {}


def test_before_that_hosts_that_were_retired_leave_by_themselves(stand, monkeypatch):
    monkeypatch.setattr(scale_commands, "INHERITED_SECONDS", 0.5)
    began = time.monotonic()
    here = Stand({}, numbers={"workers": 1})
    here.groups.have("i-1", "i-2")
    # What the markets ask for may come before.
    here.observed("i-2")
    here.settle()
    assert (here.groups.changes, here.numbers) == ([], [])
    # As the host does, which waits for its end no longer.
    here.groups.end("i-1", replaced=False)
    eventually(lambda: here.observed("i-2") or here.numbers == [{}])
    assert time.monotonic() - began >= 0.5
    assert here.groups.members["workers-spot"] == ["i-2"]
    assert not [each for each in here.sent if each["do"] == "retire"]
    here.scaler.close(5)


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
