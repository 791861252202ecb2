"""The scheduler's host moves workers between markets: what it asks AWS, tells, and keeps."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask_host.agent import worker_hosts
from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.markets import Markets
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.rules.load import HostLoad, Load
from terradask_host.scaling_policy import Exchange, ScalingPolicy
from terradask_host.timing import Timing

from ..waiting import eventually
from .scaler_stand import START, Groups, stands

NO_SPOT = LaunchProblem("UnfulfillableCapacity", "Unable to fulfill capacity.")
NO_QUOTA = LaunchProblem("VcpuLimitExceeded", "more vCPU capacity than your current limit of 4")
AGAIN_AT_ONCE = Timing(spot_again_seconds=0.0)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(worker_hosts, "LEAST_SECONDS_BETWEEN_READS", 0.0)


class Turns:
    """Markets that are given their turns by hand."""

    def __init__(
        self, groups: Groups, timing=None, exchanges=None, fallback_seconds=1000.0, since=START
    ):
        self.groups = groups
        self.sent: list[Any] = []
        self.told: list[str] = []
        self.kept: list[dict[str, Exchange]] = []
        self.refuses: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.hosts = WorkerHosts(groups, send=self.sent.append, log=self.told.append)
        self.markets = Markets(
            self.hosts,
            groups.failures,
            timing or Timing(),
            fallback_seconds=fallback_seconds,
            since=since,
            exchanges=KeptByGroup("exchanges", exchanges or {}, self.keep, self.told.append),
            send=self.sent.append,
            report=lambda group, text: self.told.append(text),
            log=self.told.append,
        )

    def keep(self, exchanges):
        if self.refuses is not None:
            raise self.refuses
        self.kept.append(dict(exchanges))
        self.meanwhile()

    def observed(self, *, without=()):
        """Have a turn with what the scheduler's process says: all hosts have joined."""
        self.hosts.refresh(time.monotonic())
        there = sorted(self.hosts.active_ids - set(without))
        rows = tuple(HostLoad(one, 1, 0.0, 0, 0, 2**30) for one in there)
        self.markets.turn(Load(rows, idle_count=len(rows)))

    @property
    def desired(self):
        return self.groups.desired["workers-spot"], self.groups.desired["workers"]


def at(spot, on_demand, *, has=99, problem=NO_SPOT):
    groups = Groups()
    groups.problem = problem
    groups.desired |= {"workers-spot": spot, "workers": on_demand}
    groups.members |= {
        "workers-spot": [f"i-s{n}" for n in range(min(spot, has))],
        "workers": [f"i-d{n}" for n in range(on_demand)],
    }
    groups.has["workers-spot"] = has
    return groups


def test_what_spot_lacks_moves_at_once_where_aws_says_so():
    turns = Turns(at(6, 0, has=2))
    turns.markets.turn()
    assert turns.groups.changes == [("why", "workers-spot"), ("workers-spot", 2), ("workers", 4)]
    assert turns.told == [
        "4 hosts move from workers-spot to workers: AWS has none in workers-spot: "
        "UnfulfillableCapacity: Unable to fulfill capacity. Spot is tried again in 15 minutes"
    ]
    turns.markets.turn()
    assert turns.desired == (2, 4)
    assert turns.markets.exhausted == {"workers-spot"}


def test_without_a_reason_a_group_has_its_time():
    turns = Turns(at(6, 0, has=2, problem=None))
    turns.markets.turn()
    assert turns.desired == (6, 0)
    turns = Turns(at(6, 0, has=2, problem=None), fallback_seconds=0.0)
    turns.markets.turn()
    assert turns.desired == (2, 4)
    assert "workers-spot got no instance for" in turns.told[0]


def test_a_failure_of_an_earlier_run_says_nothing():
    began = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    turns = Turns(at(6, 0, has=2), since=began)
    turns.markets.turn()
    assert turns.groups.changes == [("why", "workers-spot")]


def test_a_role_without_the_right_waits_the_full_time_and_asks_once():
    turns = Turns(at(6, 0, has=2))
    asked = []

    def denied(group):
        asked.append(group)
        raise ClientError(
            {"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeScalingActivities"
        )

    turns.markets._failures = denied
    for _ in range(3):
        turns.markets.turn()
    assert asked == ["workers-spot"]
    assert turns.desired == (6, 0)
    assert "can't be read: AccessDenied" in turns.told[0]


def test_a_move_of_which_aws_took_half_is_finished():
    turns = Turns(at(6, 0, has=2))
    real = turns.groups.set_desired

    def refuse(group, n):
        if group == "workers":
            raise OSError("throttled")
        real(group, n)

    turns.groups.set_desired = refuse
    with pytest.raises(OSError, match="throttled"):
        turns.markets.turn()
    assert turns.desired == (2, 0)
    turns.groups.set_desired = real
    turns.markets.turn()
    assert turns.desired == (2, 4)


def test_a_move_that_is_cut_short_by_the_end_of_the_program_stays_stored():
    turns = Turns(at(6, 0, has=2))
    real = turns.groups.set_desired

    def close(group, n):
        real(group, n)
        turns.hosts.closing.set()

    turns.groups.set_desired = close
    turns.markets.turn()
    assert turns.desired == (2, 0)
    following = Turns(turns.groups, exchanges=turns.kept[-1])
    turns.groups.set_desired = real
    following.markets.turn()
    assert turns.desired == (2, 4)
    assert following.kept == [{}]


def test_a_move_that_cannot_be_stored_waits_and_one_that_is_over_is_not_forgotten():
    turns = Turns(at(6, 0, has=2))
    turns.refuses = OSError("slow down")
    with pytest.raises(OSError, match="slow down"):
        turns.markets.turn()
    assert turns.desired == (6, 0)
    turns.refuses = None
    real = turns.groups.set_desired

    def refuse_then(group, n):
        real(group, n)
        turns.refuses = OSError("slow down")

    turns.groups.set_desired = refuse_then
    turns.markets.turn()
    assert turns.desired == (2, 4)
    assert turns.kept[-1] == {"workers": Exchange(6, 4, 2)}
    assert turns.told[-1] == "exchanges can't be stored: OSError: slow down"
    turns.refuses = None
    turns.markets.turn()
    assert turns.kept[-1] == {}


@pytest.mark.parametrize("come", [4, 6])
def test_a_move_whose_instances_come_while_it_is_stored_ends_none_of_them(come):
    turns = Turns(at(6, 0, has=2))
    turns.meanwhile = lambda: turns.groups.come("workers-spot", come)
    turns.markets.turn()
    assert turns.groups.changes == [("why", "workers-spot")]
    assert (turns.desired, len(turns.groups.members["workers-spot"])) == ((6, 0), come)
    assert turns.kept[-1] == {}


def test_nothing_moves_to_a_group_in_which_nothing_can_join():
    turns = Turns(at(6, 0, has=2))
    turns.hosts.given_up.add("workers")
    turns.markets.turn()
    assert turns.desired == (6, 0)


def test_what_no_market_has_is_told_once_with_its_reason():
    groups = at(2, 2, has=2, problem=NO_QUOTA)
    groups.members["workers"], groups.has["workers"] = ["i-d0"], 1
    turns = Turns(groups)
    for _ in range(3):
        turns.markets.turn()
    (told,) = turns.told
    assert told.startswith("1 host is missing on every market: AWS has none in workers: Vcpu")
    assert turns.groups.changes == [("why", "workers")] * 3


def test_hosts_go_back_to_spot_a_few_at_a_time_each_after_another_has_joined(monkeypatch):
    turns = Turns(at(1, 4), AGAIN_AT_ONCE)
    turns.markets.turn()
    assert turns.sent == [{"do": "observe"}]
    turns.observed()
    assert turns.kept == [{"workers": Exchange(planned=5, count=3)}]
    assert turns.desired == (4, 4)
    # One has not joined yet.
    turns.observed(without=[turns.groups.members["workers-spot"][-1]])
    assert turns.sent[1:] == []
    assert turns.markets.surplus("workers") == 3
    turns.observed()
    retired = turns.sent[-1]
    assert (retired["do"], len(retired["hosts"]), retired["drain"]) == ("retire", 3, True)
    assert set(retired["hosts"]) <= {"i-d0", "i-d1", "i-d2", "i-d3"}
    assert turns.desired == (4, 4)
    # As long as their tasks run, nothing else happens, and no patience ends.
    monkeypatch.setattr(worker_hosts, "RETIRED_SECONDS", 0.0)
    turns.hosts.refresh(time.monotonic())
    assert not [each for each in turns.groups.changes if each[0] == "end"]
    turns.hosts.take_retired({"hosts": retired["hosts"], "kept": []})
    assert turns.desired == (4, 1)
    turns.markets.turn()
    assert turns.kept[-1] == {}
    turns.observed()
    assert turns.desired == (5, 1)


def test_spot_that_is_not_there_again_changes_nothing_and_is_put_off():
    turns = Turns(at(1, 4, has=1), Timing(spot_again_seconds=0.2))
    turns.observed()
    assert turns.desired == (1, 4)
    eventually(lambda: turns.observed() or turns.kept)
    assert turns.desired == (4, 4)
    turns.markets.turn()
    assert turns.desired == (1, 4)
    turns.markets.turn()
    assert turns.kept[-1] == {}
    assert turns.told[-1].startswith("3 hosts stay on demand: AWS has none in workers-spot: Unful")
    assert "Spot is tried again in" in turns.told[-1]


def test_an_exchange_goes_on_in_the_next_host_program():
    turns = Turns(at(4, 4), exchanges={"workers": Exchange(planned=5, count=3)})
    turns.markets.turn()
    assert turns.sent == [{"do": "observe"}]
    turns.observed()
    assert len(turns.sent[-1]["hosts"]) == 3


def test_the_schedulers_next_process_is_asked_at_once_to_retire():
    turns = Turns(at(4, 4), exchanges={"workers": Exchange(planned=5, count=3)})
    turns.observed()
    first = turns.sent[-1]["hosts"]
    turns.hosts.forget_retirements()
    turns.markets.forget_retirements()
    turns.observed()
    assert [each["hosts"] for each in turns.sent if each["do"] == "retire"] == [first, first]


def test_a_number_that_something_else_sets_ends_an_exchange_and_holds():
    turns = Turns(at(1, 4), AGAIN_AT_ONCE)
    turns.observed()
    turns.groups.set_desired("workers-spot", 9)
    turns.observed()
    assert turns.kept[-1] == {}
    assert turns.told[-1] == "a client changed its number during the return to spot"
    assert turns.desired == (9, 4)


def test_a_stopped_cluster_is_left_alone():
    turns = Turns(at(6, 0, has=2))
    turns.groups.worker_chains = dict
    turns.markets.turn()
    assert turns.groups.changes == []


def test_a_closed_one_changes_nothing():
    turns = Turns(at(6, 0, has=2))
    turns.hosts.closing.set()
    turns.markets.turn()
    assert turns.desired == (6, 0)


def test_reading_calls_are_as_many_at_any_size():
    for most in (6, 600):
        groups = at(most, 0, has=2)
        turns = Turns(groups)
        groups.calls.clear()
        turns.markets.turn()
        assert groups.calls[0] == "look"
        assert len(groups.calls) == 5


# ---- with a client, and with scaling by load -----------------------------------------------------


stand = pytest.fixture(stands)

EAGER = ScalingPolicy(0, 9, target_duration_seconds=1.0, wait_count=1)
QUICK = Timing(launch_poll_seconds=0.02, market_poll_seconds=0.02)


def test_what_spot_lacks_moves_without_any_load_and_with_many(stand):
    here = stand({}, at(6, 0, has=2), timing=QUICK)
    eventually(lambda: here.groups.desired["workers"] == 4)
    here = stand({"workers": EAGER}, at(6, 0, has=2), timing=QUICK)
    for _ in range(20):
        here.scaler.take({"hosts": [], "idle_count": 0, "kept_count": 0, "waiting": [[{}, 6, 6.0]]})
    eventually(lambda: here.groups.desired["workers"] == 4)
    assert sum(here.groups.desired.values()) == 6


def test_work_is_heeded_however_slow_aws_answers_about_markets(stand):
    groups = at(2, 0, has=1, problem=None)
    quick = groups.worker_chains

    def slow():
        time.sleep(5 * QUICK.launch_poll_seconds)
        return quick()

    groups.worker_chains = slow
    here = stand({"workers": EAGER}, groups, timing=QUICK)
    here.load("i-s0", waiting=5)
    eventually(lambda: sum(groups.desired.values()) > 2, seconds=10)


def test_a_clients_number_asks_spot_first_and_what_that_lacks_moves(stand):
    here = stand({}, at(1, 0, has=1), timing=QUICK)
    here.scale({"workers": 4})
    assert here.groups.changes[0] == ("workers-spot", 4)
    eventually(lambda: here.groups.desired == {"workers-spot": 1, "workers": 3, "gpu": 0})
    # Also where it has failed a moment ago.
    before = len(here.groups.changes)
    here.scale({"workers": 5})
    assert here.groups.changes[before] == ("workers-spot", 2)


def test_growing_asks_a_market_that_has_failed_last(stand):
    here = stand({"workers": EAGER}, at(1, 0, has=1), timing=QUICK)
    here.load("i-s0", waiting=3)
    eventually(lambda: here.groups.desired["workers"] == 3)
    here.groups.has["workers-spot"] = 99
    here.load("i-s0", *here.groups.members["workers"], waiting=2)
    assert here.groups.desired == {"workers-spot": 1, "workers": 5, "gpu": 0}


def test_an_exchange_is_no_reason_to_shrink_and_work_that_comes_takes_it(stand):
    exchange = {"workers": Exchange(planned=2, count=1)}
    here = stand({"workers": EAGER}, at(2, 1), exchanges=exchange)
    here.load("i-s0", "i-d0")
    assert here.groups.changes == []
    here.load("i-s0", "i-d0", waiting=3)
    assert here.exchanges == [{}]
    assert here.groups.changes == [("workers-spot", 4)]


def test_a_number_ends_an_exchange_and_counts_no_host_that_is_being_drained(stand):
    here = stand({}, at(3, 2), exchanges={"workers": Exchange(planned=4, count=1)})
    here.hosts.refresh(1.0)
    here.hosts.retire(["i-d0"], drain=True)
    here.scale({"workers": 4})
    assert here.exchanges == [{}]
    assert here.groups.changes == []
    here.scale({"workers": 5})
    assert here.groups.desired == {"workers-spot": 4, "workers": 2, "gpu": 0}
    here.scaler.take({"hosts": ["i-d0"], "kept": []})
    eventually(lambda: sum(here.groups.desired.values()) == 5)
