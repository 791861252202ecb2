"""The rule of limits: what runs is counted, and what is asked for is compared; examples, and random
workspaces against a plain recount.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from decimal import Decimal

import pytest

from terradask_host.rules.limits import (
    MEASURES,
    Cap,
    Caps,
    Limits,
    Meter,
    Running,
    Size,
    Use,
    excesses,
    fitting,
    uses_of,
)
from terradask_stacks.settings import LimitsSettings

from ..seeds import drawn

ADA = "arn:aws:iam::123456789012:user/ada"
BOB = "arn:aws:sts::123456789012:assumed-role/Data/bob"
SMALL = Size(4, 0, Decimal("0.192"))
GPU = Size(8, 1, Decimal("0.752"))

RUNNING = Running(
    [
        Use("etl", ADA, "blue", "scheduler", 1, SMALL),
        Use("etl", ADA, "blue", "workers", 7, SMALL),
        Use("train", BOB, "blue", "gpu", 2, GPU),
        Use("misc", BOB, "", "workers", 3, SMALL),
    ],
    {("workspace", ""): Decimal(90), ("owner", ADA): Decimal(60), ("team", "blue"): Decimal(80)},
)


def limits(**sections):
    return Limits.read({"set_by": ADA, "set_at": "2026-11-27T08:00:00Z", **sections})


def test_what_settings_say_is_what_clients_and_hosts_read():
    settings = LimitsSettings.model_validate(
        {
            "team_tag": "squad",
            "workspace": {"hosts": 10, "hourly_usd": 2.5},
            "each_owner": {"gpus": 0},
            "owners": {ADA: {"gpus": 4}},
            "teams": {"blue": {"monthly_usd": 100}},
        }
    )
    assert Limits.read(settings.document) == Limits(
        "squad",
        Caps(hosts=10, hourly_usd=2.5),
        Caps(gpus=0),
        owners={ADA: Caps(gpus=4)},
        teams={"blue": Caps(monthly_usd=100.0)},
    )
    # No settings, no limits; nor do tables without values limit anything.
    assert LimitsSettings().document == {}
    assert LimitsSettings.model_validate({"teams": {"blue": {}}, "team_tag": "x"}).document == {}


def test_an_own_entry_replaces_value_by_value():
    found = limits(each_owner={"hosts": 5, "gpus": 0}, owners={ADA: {"gpus": 4}})
    assert found.caps(ADA, "") == [
        Cap("owner", ADA, "hosts", Decimal(5)),
        Cap("owner", ADA, "gpus", Decimal(4)),
    ]
    assert found.caps(BOB, "") == [
        Cap("owner", BOB, "hosts", Decimal(5)),
        Cap("owner", BOB, "gpus", Decimal(0)),
    ]


@pytest.mark.parametrize(
    ("sections", "size", "allowed", "says"),
    [
        ({"workspace": {"hosts": 15}}, SMALL, 2, "the workspace may use 15 hosts at once"),
        ({"workspace": {"vcpus": 64}}, SMALL, 1, "may use 64 vCPUs at once"),
        ({"teams": {"blue": {"vcpus": 56}}}, SMALL, 2, "team blue may use 56 vCPUs at once"),
        ({"each_team": {"gpus": 2}}, GPU, 0, "team blue may use 2 GPUs at once"),
        ({"each_team": {"gpus": 2}}, SMALL, 9, None),
        ({"each_owner": {"hosts": 10}}, SMALL, 2, "owner ada may use 10 hosts at once"),
        ({"workspace": {"hourly_usd": 3.8}}, SMALL, 0, "may use 3.80 US dollars an hour"),
        ({"workspace": {"hourly_usd": 4.0}}, SMALL, 2, "may use 4.00 US dollars an hour"),
        ({"workspace": {"monthly_usd": 90}}, SMALL, 0, "90.00 are spent"),
        ({"workspace": {"monthly_usd": 90.01}}, SMALL, 9, None),
        ({"each_owner": {"monthly_usd": 60}}, SMALL, 0, "owner ada may use 60.00 US dollars"),
        # Others' limits are no matter.
        ({"teams": {"red": {"hosts": 0}}, "owners": {BOB: {"hosts": 0}}}, SMALL, 9, None),
        # The narrowest one counts.
        ({"workspace": {"hosts": 15}, "each_owner": {"hosts": 9}}, SMALL, 1, "owner ada"),
    ],
)
def test_as_many_are_allowed_as_every_limit_leaves(sections, size, allowed, says):
    n, excess = fitting(limits(**sections), RUNNING, ADA, "blue", size=size, asked=9)
    assert n == allowed
    assert (excess is None) == (says is None)
    assert says is None or says in str(excess)


def test_a_refusal_names_limit_setter_and_users():
    (found,) = excesses(
        limits(teams={"blue": {"vcpus": 48}}), RUNNING, ADA, "blue", [(1, SMALL), (2, SMALL)]
    )
    assert str(found) == (
        "team blue may use 48 vCPUs at once (set by ada on 2026-11-27T08:00:00Z); "
        "48 are in use: 32 in etl (ada), 16 in train (Data/bob)"
    )
    assert found.as_dict() == {
        "scope": "team",
        "who": "blue",
        "measure": "vcpus",
        "limit": 48.0,
        "in_use": 48.0,
        "asked": 12.0,
        "set_by": ADA,
        "set_at": "2026-11-27T08:00:00Z",
        "by": [
            {"cluster": "etl", "owner": ADA, "amount": 32.0},
            {"cluster": "train", "owner": BOB, "amount": 16.0},
        ],
    }


def test_clusters_without_a_team_are_one_team():
    found = limits(each_team={"hosts": 3})
    n, excess = fitting(found, RUNNING, ADA, "", size=SMALL, asked=1)
    assert n == 0
    assert "all clusters without a team together may use 3 hosts" in str(excess)


def test_what_is_not_known_is_not_counted_and_named():
    running = Running([Use("old", BOB, "", "workers", 50), *RUNNING.uses])
    assert running.used(Cap("workspace", "", "vcpus", Decimal(0))) == 60
    assert running.used(Cap("workspace", "", "hosts", Decimal(0))) == 63
    assert running.unknown("vcpus") == ["old"]
    assert running.unknown("hosts") == []


@pytest.mark.parametrize(
    "size", [Size(), SMALL, GPU, Size(1, 0), Size(2, None, Decimal("12345.0123456789"))]
)
def test_a_size_comes_back_from_its_tag(size):
    assert Size.of_tag(size.to_tag()) == size
    # AWS's own limit, and its letters.
    assert len(size.to_tag()) <= 256
    assert all(one.isalnum() or one in " =." for one in size.to_tag())


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "vcpus",
        "vcpus=",
        "vcpus=.",
        "gpus=1.2.3",
        "usd=..",
        f"vcpus={'9' * 200} usd={'9' * 40}",
        "\N{ROMAN NUMERAL ONE}",
    ],
)
def test_a_tag_of_others_is_not_known(text):
    assert Size.of_tag(text) == Size()


def test_the_largest_type_counts_and_is_unknown_where_one_is():
    assert Size.largest([SMALL, GPU]) == GPU
    assert Size.largest([SMALL, Size(2, 0)]) == Size(4, 0, None)
    assert Size.largest([]) == Size()


def described(tags, desired, *instances):
    return {
        "AutoScalingGroupName": "g",
        "DesiredCapacity": desired,
        "MaxSize": 9,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        "Instances": [
            {"InstanceId": f"i-{n}", "LifecycleState": state, "InstanceType": "m6i.large"}
            for n, state in enumerate(instances)
        ],
    }


def test_groups_count_by_what_they_have_or_will_have():
    tags = {
        "terradask:cluster": "etl",
        "terradask:group": "workers",
        "terradask:run:owner": ADA,
        "terradask:run:size": "vcpus=4 gpus=0 usd=0.192",
        "team": "blue",
    }
    found = uses_of(
        [
            described(tags, 3, "InService", "Pending"),
            # One that ends doesn't count, one above the number does until it ends.
            described(
                {**tags, "terradask:cluster": "b"}, 1, "InService", "InService", "Terminating"
            ),
            described({**tags, "terradask:cluster": "stopped"}, 0),
            described({}, 5, "InService"),
        ],
        "team",
    )
    assert found == [
        Use("etl", ADA, "blue", "workers", 3, SMALL, ("m6i.large",)),
        Use("b", ADA, "blue", "workers", 2, SMALL, ("m6i.large",)),
        # One whose cluster's tag is missing counts under its own name.
        Use("g", "", "", "", 5, Size(), ("m6i.large",)),
    ]


# ---- random workspaces ---------------------------------------------------------------------------


def workspace(draws: random.Random):
    owners, teams = [ADA, BOB, "arn:c"], ["", "blue", "red"]

    def caps():
        return {
            name: draws.choice([0, draws.randint(0, 60)])
            for name in MEASURES
            if draws.random() < 0.3
        }

    def size():
        known = draws.random() < 0.9
        return Size(
            draws.choice([1, 2, 4, 96]) if known else None,
            draws.choice([0, 0, 1, 8]),
            Decimal(draws.randint(0, 300)) / 100 if known else None,
        )

    found = limits(
        workspace=caps(),
        each_owner=caps(),
        each_team=caps(),
        owners={draws.choice(owners): caps()},
        teams={draws.choice(teams): caps()},
    )
    uses = [
        Use(
            f"c{n}",
            draws.choice(owners),
            draws.choice(teams),
            "workers",
            draws.randint(1, 9),
            size(),
        )
        for n in range(draws.randint(0, 6))
    ]
    spent = {("owner", one): Decimal(draws.randint(0, 80)) for one in owners}
    spent |= {("team", one): Decimal(draws.randint(0, 80)) for one in teams}
    spent[("workspace", "")] = Decimal(draws.randint(0, 80))
    return found, Running(uses, spent), draws.choice(owners), draws.choice(teams), size()


def beyond(found, running, owner, team, size, n):
    """Recount: whether so many more hosts are beyond any limit."""
    for scope, who, caps in (
        ("workspace", "", found.workspace),
        ("owner", owner, found.of_owner(owner)),
        ("team", team, found.of_team(team)),
    ):
        uses = [
            one
            for one in running.uses
            if who == {"workspace": "", "owner": one.owner, "team": one.team}[scope]
        ]
        hosts = [one.size for one in uses for _ in range(one.hosts)] + [size] * n
        totals = {
            "hosts": len(hosts),
            "vcpus": sum(one.vcpus or 0 for one in hosts),
            "gpus": sum(one.gpus or 0 for one in hosts),
            "hourly_usd": sum(one.hourly_usd or 0 for one in hosts),
        }
        new = {
            "hosts": n,
            "vcpus": n * (size.vcpus or 0),
            "gpus": n * (size.gpus or 0),
            "hourly_usd": n * (size.hourly_usd or 0),
        }
        for name, most in vars(caps).items():
            if most is None or not n:
                continue
            if name == "monthly_usd":
                if running.spent[(scope, who)] >= most:
                    return True
            # What asks for nothing of a measure may run beside an excess.
            elif new[name] and totals[name] > Decimal(str(most)):
                return True
    return False


def test_no_more_and_no_fewer_than_all_limits_leave():
    draws = drawn("limits")
    for _ in range(1500):
        found, running, owner, team, size = workspace(draws)
        asked = draws.randint(0, 12)
        n, excess = fitting(found, running, owner, team, size=size, asked=asked)
        assert 0 <= n <= asked
        assert not beyond(found, running, owner, team, size, n)
        assert (excess is None) == (n == asked)
        if n < asked:
            assert beyond(found, running, owner, team, size, n + 1)
            assert excess.cap in found.caps(owner, team)
            assert str(excess)
        # A start compares the same.
        refused = excesses(found, running, owner, team, [(asked, size)])
        assert bool(refused) == beyond(found, running, owner, team, size, asked)


def test_prepared_hosts_count_while_they_are_stopped_and_cost_no_hours():
    tags = {
        "terradask:cluster": "etl",
        "terradask:group": "workers",
        "terradask:run:owner": ADA,
        "team": "blue",
        "terradask:run:size": SMALL.to_tag(),
    }
    described = {
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        "DesiredCapacity": 0,
        "MaxSize": 9,
        "Instances": [],
        "WarmPoolSize": 2,
        "MixedInstancesPolicy": {"LaunchTemplate": {"Overrides": [{"InstanceType": "m6i.xlarge"}]}},
    }
    (use,) = uses_of([described], "team")
    assert use == Use("etl", ADA, "blue", "workers", 0, SMALL, ("m6i.xlarge",), prepared=2)
    running = Running([use])
    assert fitting(limits(workspace={"vcpus": 20}), running, BOB, "", size=SMALL, asked=9)[0] == 3
    # A start of the same cluster leaves them as they are.
    assert running.without("etl").uses == [use]
    assert Running([replace(use, hosts=1)]).without("etl").uses == [use]
    assert Running([replace(use, prepared=0)]).without("etl").uses == []
    at = datetime.datetime(2026, 11, 27, 8, tzinfo=datetime.UTC)
    hour = at + datetime.timedelta(hours=1)
    scopes = [("workspace", "")]
    assert Meter(at).advanced(hour, [use], scopes).spent == {scopes[0]: Decimal(0)}
    assert (
        Meter(at).advanced(hour, [replace(use, hosts=1)], scopes).spent[scopes[0]]
        == SMALL.hourly_usd
    )
