"""The scheduler's host keeps the workspace's limits: a number beyond is cut, a load grows no
further, and the client can read why.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from terradask_host.agent import scale_commands, worker_hosts
from terradask_host.agent.shared_limits import SharedLimits
from terradask_host.documents import MonthSpent
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.limits import Meter, Size, Use, scopes_of
from terradask_host.scaling_policy import ScalingPolicy

from .scaler_stand import stands

ADA = "arn:aws:iam::123456789012:user/ada"
BOB = "arn:aws:iam::123456789012:user/bob"
EAGER = ScalingPolicy(0, 9, target_duration_seconds=1.0, wait_count=1)

stand = pytest.fixture(stands)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(worker_hosts, "LEAST_SECONDS_BETWEEN_READS", 0.0)
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.01)


def described(cluster, group, hosts, *, owner=ADA, team="blue", size="vcpus=4 gpus=0 usd=0.2"):
    tags = {
        "terradask:cluster": cluster,
        "terradask:group": group,
        "terradask:run:owner": owner,
        "terradask:run:size": size,
        "team": team,
    }
    return {
        "DesiredCapacity": hosts,
        "MaxSize": 9,
        "Instances": [],
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items() if value],
    }


#: The cluster etl of the stand as AWS describes it: a scheduler, and one worker of nine at most.
OWN = [
    described("etl", "scheduler", 1, size="vcpus=2 gpus=0 usd=0.1"),
    described("etl", "workers-spot", 1),
    described("etl", "workers", 0),
    described("etl", "gpu", 0, size="vcpus=8 gpus=1 usd=0.75"),
]
BOBS = [described("train", "workers", 3, owner=BOB)]


def limited(stand, policies=None, others=BOBS, **limits):
    here = stand(policies or {}, limits=lambda: {"format": 1, "set_by": BOB, **limits})
    here.groups.described = [*OWN, *others]
    return here


def word(here):
    """What the scheduler's process knows of the limits."""
    return [each["limited"] for each in here.sent if each["do"] == "limited"][-1]


def test_a_number_beyond_is_cut_to_what_is_left(stand):
    here = limited(stand, workspace={"hosts": 8})
    assert here.scale({"workers": 9})["why"] is None
    # Bob's three, the scheduler, and this one's four.
    assert here.groups.changes == [("workers-spot", 4)]
    text = (
        "the workspace's limits allow 4 of 9 hosts: the workspace may use 8 hosts at once "
        "(set by bob); 5 are in use: 3 in train (bob), 2 in etl (ada)"
    )
    assert f"workers: {text}" in here.told
    found = word(here)["workers"]
    assert found["limit"] == "the workspace may use 8 hosts at once"
    assert f"the workspace's limits allow {found['text']}" == text
    # It is the number: when others stop, it doesn't grow by itself.
    here.groups.described = OWN
    here.observed("i-1")
    here.settle()
    assert here.groups.changes == [("workers-spot", 4)]
    # The next one is compared anew.
    here.scale({"workers": 6})
    assert here.groups.desired["workers-spot"] == 6
    assert word(here) == {}


def test_without_limits_nothing_else_is_read(stand):
    here = stand({}, limits=lambda: None)
    here.groups.described = None
    here.scale({"workers": 9})
    assert here.groups.desired["workers-spot"] == 9
    assert [each for each in here.sent if each["do"] == "limited"] == []


@pytest.mark.parametrize(
    ("limits", "n"),
    [
        ({"each_owner": {"hosts": 4}}, 3),
        ({"owners": {ADA: {"vcpus": 18}}}, 4),
        ({"teams": {"blue": {"vcpus": 30}}}, 4),
        ({"each_team": {"hourly_usd": 1.5}}, 4),
        ({"team_tag": "squad", "each_team": {"hosts": 4}}, 1),
        ({"owners": {BOB: {"hosts": 0}}, "teams": {"red": {"hosts": 0}}}, 9),
        # More is in use than the limit: what runs stays.
        ({"workspace": {"hosts": 2}}, 1),
    ],
)
def test_each_limit_is_kept(stand, limits, n):
    here = limited(stand, **limits)
    here.scale({"workers": 9})
    assert here.groups.desired["workers-spot"] == n


def test_groups_grown_at_once_share_what_is_left(stand):
    here = limited(stand, workspace={"hosts": 9})
    here.scale({"workers": 4, "gpu": 9})
    assert (here.groups.desired["workers-spot"], here.groups.desired["gpu"]) == (4, 1)


def test_gpus_are_limited_apart(stand):
    here = limited(stand, each_owner={"gpus": 2})
    here.scale({"workers": 9, "gpu": 5})
    assert (here.groups.desired["workers-spot"], here.groups.desired["gpu"]) == (9, 2)
    assert [*word(here)] == ["gpu"]


def test_fewer_hosts_are_no_matter_of_limits(stand):
    here = limited(stand, workspace={"hosts": 0})
    here.scale({"workers": 0})
    assert {"do": "retire", "hosts": ["i-1"], "drain": False, "forced": True} in here.sent


def test_a_load_grows_as_far_as_the_limits_and_further_when_others_stop(stand):
    here = limited(stand, {"workers": EAGER}, workspace={"hosts": 6})
    here.load("i-1", waiting=8)
    assert here.groups.desired["workers-spot"] == 2
    for _ in range(3):
        here.load("i-1", "i-workers-spot-1", waiting=8)
    # Told once, though asked again and again.
    told = [text for text in here.told if "limits allow" in text]
    assert len(told) == 1
    assert here.groups.changes == [("workers-spot", 2)]
    here.groups.described = OWN
    here.load("i-1", "i-workers-spot-1", waiting=8)
    assert here.groups.desired["workers-spot"] == 5
    # Less load: nothing is in its way any more.
    here.load(*here.groups.members["workers-spot"])
    assert word(here) == {}


def test_the_last_known_limits_hold_while_they_can_not_be_read(stand):
    state = {"fails": False}

    def read():
        if state["fails"]:
            raise OSError("no route")
        return {"format": 1, "workspace": {"hosts": 6}}

    here = stand({}, limits=read)
    here.groups.described = [*OWN, *BOBS]
    here.scale({"workers": 2})
    state["fails"] = True
    here.scale({"workers": 9})
    assert here.groups.desired["workers-spot"] == 2


@pytest.mark.parametrize("document", [{"workspace": 5}, {"workspace": {"hosts": "x"}}])
def test_a_document_of_another_format_stops_nothing(stand, document):
    here = stand({}, limits=lambda: document)
    here.scale({"workers": 3})
    assert here.groups.desired["workers-spot"] == 3


# ---- a month's cost ------------------------------------------------------------------------------


def test_a_meter_goes_on_by_the_hour_and_begins_anew_with_a_month():
    uses = [
        Use("etl", ADA, "blue", "workers", 2, Size(4, 0, Decimal("0.5"))),
        Use("train", BOB, "blue", "workers", 1, Size(4, 0, Decimal(2))),
    ]
    scopes = scopes_of(ADA, "red")
    meter = Meter.of(MonthSpent("2026-11-30T20:00:00Z", 10.0, 1.25), ADA, "red")
    at = datetime.datetime(2026, 11, 30, 22, tzinfo=datetime.UTC)
    later = meter.advanced(at, uses, scopes)
    assert later.spent == {
        ("workspace", ""): Decimal(16),
        ("owner", ADA): Decimal("3.25"),
        ("team", "red"): Decimal(0),
    }
    new = later.advanced(datetime.datetime(2026, 12, 1, 1, tzinfo=datetime.UTC), uses, scopes)
    assert new.spent[("workspace", "")] == 3
    # A clock that goes back spends nothing.
    assert new.advanced(at.replace(month=12, day=1, hour=0), uses, scopes).spent == new.spent


@pytest.mark.parametrize(("spent", "n"), [(99.0, 5), (100.0, 1)])
def test_no_host_is_added_once_the_month_is_spent(spent, n):
    told = []
    limits = SharedLimits(
        lambda: {"format": 1, "each_owner": {"monthly_usd": 100}},
        lambda: OWN,
        cluster="etl",
        owner=ADA,
        month_spent=MonthSpent(
            datetime.datetime.now(datetime.UTC).isoformat(), 500.0, spent, 100.0
        ),
        age_seconds=30.0,
        send=lambda _: None,
        log=told.append,
        report=lambda group, text: told.append(f"{group}: {text}"),
    )
    limits.begin({"workers": (Group("workers", 1, 9),)})
    assert limits.cut("workers", 1, 5) == n
    assert bool(told) == (n == 1)
    if told:
        assert "owner ada may use 100.00 US dollars a month" in told[0]
        assert "100.00 are spent" in told[0]


def test_the_clusters_own_prepared_hosts_count_beside_its_workers():
    own = [
        {**one, "WarmPoolSize": 2} if "scheduler" not in str(one["Tags"]) else one
        for one in OWN[:2]
    ]
    told = []
    limits = SharedLimits(
        lambda: {"format": 1, "workspace": {"hosts": 6}},
        lambda: own,
        cluster="etl",
        owner=ADA,
        age_seconds=30.0,
        send=lambda _: None,
        log=told.append,
        report=lambda group, text: told.append(f"{group}: {text}"),
    )
    limits.begin({"workers": (Group("workers-spot", 1, 9),)})
    # The scheduler, its worker, two that are prepared: two more.
    assert limits.cut("workers", 1, 9) == 3
    assert "6 hosts" in told[0]


def test_a_growth_is_compared_with_what_others_have_added_a_moment_ago():
    others, reads = [described("train", "workers", 3, owner=BOB)], []

    def read():
        reads.append(len(others))
        return [*OWN, *others]

    limits = SharedLimits(
        lambda: {"format": 1, "workspace": {"hosts": 9}},
        read,
        cluster="etl",
        owner=ADA,
        age_seconds=30.0,
        send=lambda _: None,
        log=print,
        report=lambda group, text: None,
    )
    # The scheduler, three of Bob's, and four of nine.
    limits.begin({"workers": (Group("workers-spot", 1, 9),), "gpu": (Group("gpu", 0, 9),)})
    assert limits.cut("workers", 1, 4) == 4
    assert limits.cut("gpu", 0, 1) == 1
    assert len(reads) == 1
    others[0] = described("train", "workers", 4, owner=BOB)
    grown = {"workers": (Group("workers-spot", 4, 9),), "gpu": (Group("gpu", 0, 9),)}
    limits.begin(grown)
    assert limits.cut("workers", 4, 9) == 4
    assert len(reads) == 2
    # While nothing is left, the last read is enough: loads come every few seconds.
    limits.begin(grown)
    assert limits.cut("workers", 4, 9) == 4
    assert len(reads) == 2
