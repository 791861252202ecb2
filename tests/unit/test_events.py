"""The story of hosts: a table of states, and what AWS and the hosts saw, brought into one order."""

import datetime
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from terradask._observe.documents import State
from terradask._observe.events import (
    EDGES,
    STATE_OF_STEP,
    Event,
    cause_of,
    failures_of,
    may_follow,
    merge,
    observed_by_aws,
    observed_by_hosts,
    of_last_run,
    run_events,
    write_event_log,
)
from terradask.errors import ClusterNotFound
from terradask_host import states as host_states
from terradask_host.documents import HostReport, Run, SchedulerAddress


def at(second):
    return datetime.datetime(2026, 11, 20, 5, 15, second, tzinfo=datetime.UTC)


def sight(second, state, step=None, reason=None, host="i-1"):
    return Event(at(second), host, "workers", state, step, reason)


def test_every_state_is_reached_and_all_but_the_last_go_on():
    reached = {after for edges in EDGES.values() for after in edges}
    assert reached == set(EDGES) - {"requested"}
    assert [state for state, edges in EDGES.items() if not edges] == ["gone"]


def told_edges(title):
    """Return the states of the table below a title of the page: state -> those that follow."""
    page = (Path(__file__).parents[2] / "docs/running.md").read_text(encoding="utf-8")
    below = page.partition(f"### {title}\n")[2].partition("\n#")[0]
    edges = {}
    for after, listed in re.findall(r"^\| (\w+) \| ([\w, ]+) \| .+ \|$", below, re.MULTILINE):
        for before in listed.split(", "):
            if before != "from":
                edges.setdefault(before, []).append(after)
    return edges


def test_the_page_says_why_each_state_follows():
    told = told_edges("Why a host changes its state")
    assert {state: sorted(edges) for state, edges in told.items()} == {
        state: sorted(edges) for state, edges in EDGES.items() if edges
    }


def test_the_host_programs_steps_are_all_known_and_its_edges_allowed():
    assert set(STATE_OF_STEP) == set(host_states.TRANSITIONS)
    for before, edges in host_states.TRANSITIONS.items():
        for after in edges:
            first, second = STATE_OF_STEP[before], STATE_OF_STEP[after]
            assert first == second or may_follow(first, second), (before, after)


def test_a_life_in_order():
    told = merge(
        [
            sight(9, "gone"),
            sight(0, "requested", reason="a user request"),
            sight(3, "booting", "booting"),
            sight(2, "launched"),
            sight(4, "booting", "environment"),
            sight(6, "joined", "running"),
            sight(8, "retiring", "leaving", "retired"),
        ]
    )
    assert [(e.state, e.step) for e in told] == [
        ("requested", None),
        ("launched", None),
        ("booting", "booting"),
        ("booting", "environment"),
        ("joined", "running"),
        ("retiring", "leaving"),
        ("gone", None),
    ]
    assert str(told[0]) == "2026-11-20 05:15:00Z  i-1  requested: a user request"
    assert str(told[3]) == "2026-11-20 05:15:04Z  i-1  installing"


def test_within_a_second_states_come_in_their_order():
    begun = Event(at(1).replace(microsecond=900_000), "i-1", "workers", "requested")
    assert [
        e.state for e in merge([sight(1, "booting", "booting"), begun, sight(1, "launched")])
    ] == ["requested", "launched", "booting"]


def test_what_aws_saw_too_late_is_left_out():
    told = merge(
        [
            sight(0, "requested"),
            sight(1, "booting", "booting"),
            sight(5, "launched"),
            sight(7, "joined", "running"),
        ]
    )
    assert [e.state for e in told] == ["requested", "booting", "joined"]


def test_the_same_step_twice_is_no_news_and_a_restart_is():
    told = merge(
        [
            sight(1, "joined", "running"),
            sight(2, "joined", "running"),
            sight(3, "booting", "waiting"),
            sight(4, "joined", "running"),
        ]
    )
    assert [e.state for e in told] == ["joined", "booting", "joined"]


def test_hosts_are_told_apart():
    told = merge([sight(1, "requested"), sight(1, "gone", host="i-2"), sight(2, "launched")])
    assert [(e.subject, e.state) for e in told] == [
        ("i-1", "requested"),
        ("i-2", "gone"),
        ("i-1", "launched"),
    ]


CAUSE = (
    "At 2026-11-20T05:14:55Z a user request update of AutoScalingGroup constraints to desired: 2 "
    "changing the desired capacity "
    "from 0 to 2.  "
    "At 2026-11-20T05:15:00Z an instance was started in response to a difference between desired "
    "and actual capacity."
)


def activity(description, start, end=None, *, status="Successful", cause=CAUSE, **more):
    times = (
        {"StartTime": at(start)} if end is None else {"StartTime": at(start), "EndTime": at(end)}
    )
    return {"Description": description, "Cause": cause, "StatusCode": status, **times, **more}


def test_scaling_activities_tell_when_and_why():
    refused = "We currently do not have sufficient m6i.xlarge capacity"
    shown = [
        activity("Launching a new EC2 instance: i-0abc", 0, 2),
        activity(
            "Terminating EC2 instance: i-0abc",
            30,
            status="InProgress",
            cause="At 2026-11-20T05:15:30Z an instance was taken out.",
        ),
        activity(
            "Launching a new EC2 instance.  Status Reason: none left",
            1,
            1,
            status="Failed",
            StatusMessage=refused,
        ),
    ]
    story = merge(observed_by_aws("workers", shown), failures_of("workers", shown))
    assert [(e.subject, e.state) for e in story] == [
        ("i-0abc", "requested"),
        ("workers", "failed"),
        ("i-0abc", "launched"),
        ("i-0abc", "retiring"),
    ]
    assert story[0].reason == (
        "a user request update of AutoScalingGroup constraints to desired: 2 changing the desired "
        "capacity from 0 to 2"
    )
    assert story[1].reason == "We currently do not have sufficient m6i.xlarge capacity"
    assert story[3].reason == "an instance was taken out"


@pytest.mark.parametrize("cause", [None, "", "AWS says nothing known"])
def test_a_cause_of_another_form_is_taken_as_it_is(cause):
    assert cause_of({"Cause": cause}) == (cause or None)


def report(**more):
    history = (
        ("booting", "2026-11-20T05:15:03Z"),
        ("failed", "2026-11-20T05:15:09Z"),
        ("dreaming", "2026-11-20T05:15:10Z"),
    )
    return HostReport(
        "i-1",
        "worker",
        "workers",
        "dreaming",
        "no bed",
        "2026-11-20T05:15:10Z",
        "r1",
        history=history,
        **more,
    )


def test_reports_tell_each_step_with_its_reason():
    told = list(observed_by_hosts([report(reasons=(None, "no keys", "no bed"))]))
    assert [(s.state, s.step, s.reason) for s in told] == [
        ("booting", "booting", None),
        ("failed", "failed", "no keys"),
    ]
    assert [s.reason for s in observed_by_hosts([report()])] == [None, None]


def test_the_run_tells_who_started_it_and_where_its_scheduler_is():
    run = Run("r1", "2026-11-20T05:15:00Z", "arn:aws:iam::1:user/ada", "v1", "3.11", {}, 2)
    scheduler = SchedulerAddress(
        "r1",
        "i-9",
        2,
        "tls://10.0.0.1:8786",
        None,
        8787,
        "3.11",
        {},
        started_at="2026-11-20T05:15:20Z",
    )
    told = list(run_events(run, scheduler))
    assert [(e.subject, e.state) for e in told] == [("cluster", "starting"), ("cluster", "running")]
    assert "user/ada" in told[0].reason
    assert "i-9, boot 2; the tasks and results of the previous one are lost" in (told[1].reason)
    assert len(list(run_events(run, None))) == 1


def test_events_as_json():
    event = Event(at(3), "i-1", "workers", "joined", "running", None)
    assert json.loads(json.dumps(event.as_dict())) == {
        "at": "2026-11-20T05:15:03Z",
        "subject": "i-1",
        "group": "workers",
        "state": "joined",
        "step": "running",
        "reason": None,
    }


def test_a_clusters_states_are_those_that_are_told_and_all_are_reached():
    told = told_edges("Why a cluster changes its state")
    assert set(told) == set(get_args(State))
    assert {after for edges in told.values() for after in edges} == set(told)
    # What shall go is kept by an apply alone; else it is destroyed, which no state tells.
    assert told["closing"] == ["stopped"]


def test_a_cluster_whose_structure_is_gone_has_no_event_log_and_no_warning(caplog):
    class Record:
        name, objects, aws = "etl", None, SimpleNamespace(caller_arn="arn")

        @property
        def groups(self):
            raise ClusterNotFound("There is no cluster 'etl'.")

    write_event_log(Record(), Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2))
    assert not caplog.text


def test_the_last_run_begins_with_its_start():
    def of_cluster(second, state):
        return Event(at(second), "cluster", None, state)

    first = [of_cluster(1, "starting"), sight(2, "requested"), of_cluster(3, "stopped")]
    last = [of_cluster(4, "starting"), sight(5, "requested"), sight(6, "launched")]
    assert of_last_run([*first, *last]) == last
    assert of_last_run(first) == first
    # A log of a run may lack its start.
    assert of_last_run(first[1:]) == first[1:]
    assert of_last_run([]) == []
