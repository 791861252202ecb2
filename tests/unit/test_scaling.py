"""The plan of a worker group, its removals and its victims."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask._aws.groups import ProtectAndLower, TerminateEach, removal
from terradask._dask.scaling import Roster, cheapest_victims, workers_to_wait_for
from terradask_host.rules.autoscaling_groups import Group, Member

ids = st.lists(st.integers(0, 400).map(lambda n: f"i-{n:017x}"), unique=True, max_size=120)


class TestRemoval:
    def test_few_are_terminated_each(self):
        assert removal(["i-1", "i-2", "i-3", "i-4", "i-5"], ["i-2"]) == TerminateEach(("i-2",))

    def test_many_are_removed_by_protecting_the_rest(self):
        members = [f"i-{n}" for n in range(1000)]
        how = removal(members, members[10:])
        assert how == ProtectAndLower(tuple(members[:10]), desired=10)
        assert how.calls == 3

    def test_all_are_removed_with_one_call(self):
        assert removal(["i-1", "i-2"], ["i-1", "i-2"]) == ProtectAndLower((), desired=0)

    def test_on_equal_terms_each_call_is_final_by_itself(self):
        members = [f"i-{n}" for n in range(5)]
        assert removal(members, members[:3]) == TerminateEach(tuple(members[:3]))

    def test_who_stays_and_is_booting_cannot_be_protected(self):
        members = [f"i-{n}" for n in range(100)]
        each = removal(members, members[10:], booting=members[9:11])
        assert each == TerminateEach(tuple(members[10:]))
        assert isinstance(removal(members, members[10:], booting=members[10:]), ProtectAndLower)

    def test_strangers_are_left_out(self):
        assert removal(["i-1"], ["i-other"]) == TerminateEach(())

    @given(ids, st.data())
    def test_exactly_the_victims_go_in_the_fewest_calls(self, members, data):
        victims = data.draw(
            st.lists(st.sampled_from(members), unique=True) if members else st.just([])
        )
        how = removal(members, victims)
        if isinstance(how, TerminateEach):
            gone = set(how.instance_ids)
        else:
            gone = set(members) - set(how.survivors)
            assert how.desired == len(how.survivors)
        assert gone == set(victims)
        assert how.calls <= len(victims)


class TestRoster:
    def test_pending_workers_become_instances(self):
        roster = Roster(["i-1"], desired=3)
        assert roster.pending == ("pending-1", "pending-2")
        roster.mirror(["i-1", "i-2"], desired=3)
        assert roster.names == ("i-1", "pending-2", "i-2")

    def test_a_replaced_instance_is_mirrored_not_added(self):
        roster = Roster(["i-1", "i-2"])
        roster.mirror(["i-1", "i-3"], desired=2)
        assert set(roster.names) == {"i-1", "i-3"}

    def test_a_lost_instance_is_pending_until_the_group_replaces_it(self):
        roster = Roster(["i-1", "i-2"])
        roster.mirror(["i-1"], desired=2)
        assert len(roster) == 2
        assert len(roster.pending) == 1

    def test_somebody_elses_scaling_is_mirrored(self):
        roster = Roster(["i-1", "i-2", "i-3"])
        roster.mirror(["i-3"], desired=1)
        assert roster.names == ("i-3",)

    def test_pending_names_are_never_used_twice(self):
        roster = Roster(desired=2)
        assert roster.cancel_pending(5) == 2
        roster.grow_to(1)
        assert roster.names == ("pending-3",)

    @given(ids, ids, st.integers(0, 150))
    def test_the_plan_is_as_large_as_the_group_wants(self, before, members, desired):
        roster = Roster(before, desired=len(before) + 3)
        roster.mirror(members, desired)
        assert set(roster.instance_ids) == set(members)
        assert len(roster) == max(desired, len(members))


class TestVictims:
    def test_those_that_have_not_joined_leave_first_then_the_cheapest(self):
        victims = cheapest_victims(
            ["i-1", "i-2", "i-3", "i-4"], 3, joined=["i-1", "i-2", "i-3"], by_cost=["i-2", "i-3"]
        )
        assert victims == ("i-4", "i-2", "i-3")

    def test_where_the_scheduler_names_too_few_the_newest_fill_up(self):
        assert cheapest_victims(
            ["i-1", "i-2", "i-3"], 2, joined=["i-1", "i-2", "i-3"], by_cost=["i-1"]
        ) == ("i-1", "i-3")

    def test_strangers_are_never_chosen(self):
        assert cheapest_victims(["i-1"], 1, joined=["i-1", "i-9"], by_cost=["i-9"]) == ("i-1",)


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
