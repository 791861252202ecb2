"""The plan of a worker group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask._dask.pool import ScaleRequests, planned_names
from terradask._dask.waiting import workers_to_wait_for
from terradask_host.rules.autoscaling_groups import Group, Member

ids = st.lists(st.integers(0, 400).map(lambda n: f"i-{n:017x}"), unique=True, max_size=120)


def test_what_aws_has_not_shown_yet_is_pending():
    assert planned_names("workers", ("i-1",), 3) == ("i-1", "pending-1", "pending-2")
    assert planned_names("gpu", (), 1) == ("pending-gpu-1",)


@given(ids, st.integers(0, 150))
def test_the_plan_is_as_large_as_the_group_wants(members, desired):
    plan = planned_names("workers", members, desired)
    assert plan[: len(members)] == tuple(members)
    assert len(set(plan)) == max(desired, len(members))


@pytest.mark.parametrize(
    ("wanted", "wait_for", "expected"),
    [
        (10, True, 10),
        (10, False, 0),
        (10, 3, 3),
        (2, 5, 2),
        (10, 0.3, 3),
        (4, 0.3, 2),
        (1, 0.3, 1),
        (0, 0.3, 0),
        (3, 1.0, 3),
    ],
)
def test_workers_to_wait_for(wanted, wait_for, expected):
    assert workers_to_wait_for(wanted, wait_for) == expected


def test_only_living_members_count():
    members = tuple(
        Member(f"i-{n}", state)
        for n, state in enumerate(["Pending", "InService", "Terminating", "Terminated", "Standby"])
    )
    assert Group("workers", desired=2, max_size=5, members=members).active_ids == ("i-0", "i-1")


def test_what_is_asked_for_while_a_number_is_sent_is_sent_too():
    requests = ScaleRequests()
    requests.target({"workers": 5, "gpu": 1})
    requests.remove(["i-1"])
    taken = requests.take()
    requests.target({"workers": 3})
    requests.remove(["i-2"])
    assert taken == ({"workers": 5, "gpu": 1}, {"i-1"})
    requests.drop(*taken)
    assert requests.are_new
    assert requests.take() == ({"workers": 3}, {"i-2"})
