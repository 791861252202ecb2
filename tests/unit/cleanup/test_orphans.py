"""What nobody owns, by tables and by a thousand random worlds: nothing young, foreign or owned is
ever a stray that may go.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from decimal import Decimal

import pytest

from terradask._catalog.prices.prices import (
    Price,
    PriceKey,
    Quotes,
    RunningHost,
    Volumes,
    hourly_usd,
    parts_of_host,
    price_keys,
)
from terradask._cleanup.orphans import (
    Deployed,
    Inventory,
    Item,
    Kind,
    OldPlan,
    Orphan,
    OrphanLock,
    Sweep,
    judge,
)

NOW = datetime.datetime(2026, 11, 20, 12, 0, tzinfo=datetime.UTC)
GRACE = datetime.timedelta(seconds=30)


def ago(seconds: float) -> datetime.datetime:
    return NOW - datetime.timedelta(seconds=seconds)


def thing(
    kind: Kind = "instance",
    *,
    workspace: str | None = "w",
    cluster: str | None = "etl",
    age: float | None = 3600,
    **facts,
) -> Item:
    return Item(kind, f"{kind}-1", workspace, cluster, None if age is None else ago(age), **facts)


def deployed(*, touched: float = 3600, **facts) -> Deployed:
    return Deployed("etl", ago(touched), **facts)


def world(*things: Item, etl: Deployed | None = None, **facts) -> Inventory:
    return Inventory("w", NOW, things, {} if etl is None else {"etl": etl}, **facts)


def verdicts(seen: Inventory, **earlier) -> list[tuple[str, bool]]:
    return [(stray.kind, stray.may_go(NOW)) for stray in judge(seen, grace=GRACE, **earlier)]


def test_an_instance_for_an_image_is_an_orphan_when_no_command_waits_for_it() -> None:
    for age, expected in ((5000, []), (6000, [("instance", True)])):
        builder = thing(cluster=None, age=age, is_for_image=True)
        assert verdicts(world(builder)) == expected
    # Of somebody else's without a cluster nothing is known.
    assert verdicts(world(thing(cluster=None, age=6000))) == []


LIVE = deployed(is_whole=True)
LOST = deployed(has_resources=True, started_at=ago(600))
CLOSING = deployed(is_whole=True, closing_at=ago(60), started_at=ago(600))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Nobody's, ours, old.
        (world(thing()), [("instance", True)]),
        (
            world(thing("group"), thing("secret", ends_at=ago(-9e5))),
            [("group", True), ("secret", True)],
        ),
        # Foreign, or without a tag.
        (world(thing(workspace="other"), thing(workspace=None)), []),
        (world(thing(cluster=None), thing("security-group", cluster=None)), []),
        # Young: what is made together is as young as the youngest of it.
        (world(thing(age=29)), [("instance", False)]),
        (world(thing(age=30)), [("instance", True)]),
        (world(thing(age=-5)), [("instance", False)]),
        (world(thing("group"), thing("secret", age=5)), [("group", False), ("secret", False)]),
        (world(thing("security-group", age=None)), [("security-group", False)]),
        # A deployment that lives owns what carries its tag.
        (
            world(thing("instance", group="g"), thing("volume"), etl=LIVE, groups=frozenset({"g"})),
            [],
        ),
        # But for what was made for a machine, and belongs to none.
        (world(thing("volume", is_hosts=True), etl=LIVE), [("volume", True)]),
        (world(thing("volume", is_hosts=True, age=5), etl=LIVE), [("volume", False)]),
        (
            world(thing("volume", is_hosts=True), etl=replace(LIVE, held="ana")),
            [("volume", False)],
        ),
        (world(thing("instance"), etl=LIVE), []),
        (world(thing("secret", ends_at=ago(-9e5)), etl=LIVE), []),
        # But for machines whose group is gone, where groups could be looked at.
        (world(thing(group="g"), etl=LIVE), [("instance", True)]),
        (world(thing(group="g", age=3), etl=LIVE), [("instance", False)]),
        (world(thing(group="g"), etl=LIVE, groups=None), []),
        (world(thing(group="g"), etl=replace(LIVE, held="ana")), [("instance", False)]),
        # To go: as a whole, once the mark is old enough, unless a start came after it.
        (world(thing(), etl=CLOSING), [("deployment", True)]),
        (world(etl=replace(CLOSING, closing_at=ago(5))), [("deployment", False)]),
        (world(etl=replace(CLOSING, held="ana")), [("deployment", False)]),
        (world(thing(), etl=replace(CLOSING, started_at=ago(59))), []),
        (world(etl=replace(CLOSING, is_whole=False)), [("deployment", True)]),
        # Made in part, and what an apply that goes on has written or made.
        (world(etl=deployed(has_resources=True)), [("deployment", True)]),
        (world(etl=deployed(has_resources=True, touched=5)), [("deployment", False)]),
        (world(thing("group", age=5), etl=deployed(has_resources=True)), [("deployment", False)]),
        (world(etl=deployed(has_resources=True, held="ana")), [("deployment", False)]),
        # One that was started, and whose cluster.json was deleted, while its hosts run; and when
        # they have ended.
        (world(thing(group="g"), etl=LOST, groups=frozenset({"g"})), [("deployment", False)]),
        (world(thing(group="g"), etl=LOST, groups=None), [("deployment", False)]),
        (world(thing(group="g"), etl=LOST, groups=frozenset()), [("deployment", True)]),
        (world(thing("group"), etl=LOST, groups=frozenset({"g"})), [("deployment", True)]),
        # Words of a host that outlived its cluster.
        (world(etl=deployed()), [("objects", True)]),
        (world(thing("group"), etl=deployed()), [("objects", True), ("group", True)]),
        (world(thing("group"), etl=deployed(touched=5)), [("objects", False), ("group", False)]),
        (world(thing("group"), etl=deployed(held="ana")), [("objects", False), ("group", False)]),
        # Volumes that no host has tagged carry the workspace's tag alone.
        (world(thing("volume", cluster=None, is_hosts=True)), [("volume", True)]),
        (world(thing("volume", cluster=None, is_hosts=True, age=5)), [("volume", False)]),
        (world(thing("volume", cluster=None)), []),
        (
            world(thing("network-interface", cluster=None, is_hosts=True, age=None)),
            [("network-interface", False)],
        ),
        # What commands left.
        (world(orphan_locks=(OrphanLock("network", ago(1), "killed"),)), [("lock", True)]),
        (world(old_plans=(OldPlan("/p", ago(9e4)),)), [("plan", True)]),
    ],
)
def test_what_nobody_owns(seen: Inventory, expected: list[tuple[str, bool]]) -> None:
    assert verdicts(seen) == expected


def test_what_has_no_date_is_as_old_as_the_first_look_at_it() -> None:
    seen = world(thing("security-group", age=None))
    first = {("security-group", "security-group-1"): ago(31)}
    assert verdicts(seen) == [("security-group", False)]
    assert verdicts(seen, first_seen=first) == [("security-group", True)]


@pytest.mark.parametrize(
    "etl",
    [None, deployed(), deployed(has_resources=True), CLOSING],
    ids=lambda etl: repr(etl)[-40:],
)
def test_no_document_lets_the_secret_of_a_private_cluster_go(etl: Deployed | None) -> None:
    secret, host = thing("secret", is_private=True), thing("instance", group="gone")
    found = judge(world(secret, host, etl=etl, groups=frozenset()), grace=GRACE)
    # Its hosts cost most, and decide on nothing.
    assert {orphan.kind for orphan in found if orphan.may_go(NOW)} <= {"instance"}
    (held,) = {orphan.held for orphan in found if orphan.kind != "instance"}
    assert held is not None
    assert "terradask apply etl restores it, terradask destroy etl removes it" in held
    open_to_all = judge(world(replace(secret, is_private=False), host, etl=etl), grace=GRACE)
    assert all(orphan.may_go(NOW) for orphan in open_to_all)


def test_reasons_and_holders_are_told() -> None:
    (lost,) = judge(world(thing(group="g"), etl=LIVE), grace=GRACE)
    assert (lost.reason, lost.is_of_living) == ("its group g is gone", True)
    (held,) = judge(
        world(thing(group="g"), etl=replace(LIVE, held="its state is locked by ana@laptop")),
        grace=GRACE,
    )
    assert held.held == "its state is locked by ana@laptop"
    scheduled, *_ = judge(world(thing("secret", ends_at=NOW)), grace=GRACE)
    assert "scheduled for deletion on 2026-11-20" in scheduled.reason


# ---- random worlds -------------------------------------------------------------------------------

KINDS: tuple[Kind, ...] = (
    "instance",
    "group",
    "secret",
    "network-interface",
    "volume",
    "security-group",
    "launch-template",
    "placement-group",
    "role",
)


def random_world(
    draw: random.Random,
) -> tuple[Inventory, dict[tuple[Kind, str], datetime.datetime]]:
    def age() -> float:
        return draw.choice(
            [
                draw.uniform(-60, 30),
                draw.uniform(0, 30),
                draw.uniform(30, 60),
                draw.uniform(60, 1e6),
            ]
        )

    def moment() -> datetime.datetime:
        return ago(age())

    names = ["a", "b", "c", "d"]
    groups = frozenset(draw.sample(["g1", "g2", "g3"], draw.randint(0, 3)))
    things = tuple(
        Item(
            draw.choice(KINDS),
            f"id-{number}",
            draw.choice(["w", "w", "w", "other", "w-2", None]),
            draw.choice([*names, None]),
            draw.choice([moment(), None]),
            group=draw.choice(["g1", "g2", "g3", None]),
            is_hosts=draw.random() < 0.5,
            ends_at=draw.choice([None, None, moment()]),
        )
        for number in range(draw.randint(0, 12))
    )
    buckets = {
        name: Deployed(
            name,
            moment(),
            is_whole=draw.random() < 0.6,
            has_resources=draw.random() < 0.5,
            closing_at=draw.choice([None, None, moment()]),
            started_at=draw.choice([None, moment()]),
            held=draw.choice([None, None, "ana"]),
        )
        for name in names
        if draw.random() < 0.7
    }
    seen = Inventory("w", NOW, things, buckets, draw.choice([groups, groups, None]))
    return seen, {one.key: moment() for one in things if draw.random() < 0.5}


def may_not_go(
    seen: Inventory, first: dict[tuple[Kind, str], datetime.datetime], one: Item
) -> bool:
    """Say, in words of its own, whether a thing is foreign, young, owned, or being worked on."""
    if one.workspace != "w":
        return True
    since = one.born or first.get(one.key)
    if since is None or NOW - since < GRACE:
        return True
    if one.cluster is None:
        return not (one.is_hosts and one.kind in ("volume", "network-interface"))
    home = seen.deployed.get(one.cluster)
    return home is not None and (home.held is not None or may_not_go_from(seen, home, one))


def may_not_go_from(seen: Inventory, home: Deployed, one: Item) -> bool:
    """Say whether a deployment owns a thing that carries its cluster's tag."""
    restarted = (
        home.closing_at is not None
        and home.started_at is not None
        and home.started_at > home.closing_at
    )
    if home.is_whole and (home.closing_at is None or restarted):
        if one.is_hosts and one.kind in ("volume", "network-interface"):
            return False
        return not (
            one.kind == "instance"
            and seen.groups is not None
            and one.group is not None
            and one.group not in seen.groups
        )
    return False


def test_a_thousand_random_worlds_lose_nothing_that_is_young_foreign_or_owned() -> None:
    seed = random.SystemRandom().randrange(10**9)
    draw = random.Random(seed)
    going = 0
    for number in range(1000):
        seen, first = random_world(draw)
        by_key = {one.key: one for one in seen.items}
        for stray in judge(seen, grace=GRACE, first_seen=first):
            if not stray.may_go(NOW):
                continue
            going += 1
            told = f"seed {seed}, world {number}: {stray}"
            if stray.key in by_key:
                assert not may_not_go(seen, first, by_key[stray.key]), told
                continue
            home = seen.deployed[str(stray.cluster)]
            assert home.held is None, told
            restarted = (
                home.closing_at is not None
                and home.started_at is not None
                and home.started_at > home.closing_at
            )
            decisive = home.touched_at if home.closing_at is None or restarted else home.closing_at
            assert not home.is_whole or decisive is home.closing_at, told
            assert NOW - decisive >= GRACE, told
    assert going > 500, f"seed {seed}: the worlds have no strays to lose"


def test_everything_old_of_a_cluster_without_a_deployment_goes() -> None:
    draw = random.Random(7)
    for _ in range(200):
        things = tuple(
            Item(draw.choice(KINDS), f"id-{n}", "w", draw.choice("ab"), ago(draw.uniform(30, 1e6)))
            for n in range(draw.randint(1, 9))
        )
        strays = judge(Inventory("w", NOW, things), grace=GRACE)
        assert {stray.key for stray in strays if stray.may_go(NOW)} == {one.key for one in things}


# ---- what it costs -------------------------------------------------------------------------------

HOST = RunningHost("m6i.large", "spot", "us-east-1a", True, Volumes(100))
KEYS = {
    PriceKey("instance", "us-east-1", "m6i.large", "spot", "us-east-1a"): Price(
        Decimal("0.04"), "hour", NOW.isoformat()
    ),
    PriceKey("gp3-storage", "us-east-1"): Price(Decimal("0.073"), "GB-month", NOW.isoformat()),
    PriceKey("public-ipv4", "us-east-1"): Price(Decimal("0.005"), "hour", NOW.isoformat()),
}


def test_a_machine_costs_with_its_disk_and_address_or_nobody_knows() -> None:
    parts = parts_of_host(HOST, "us-east-1")
    assert set(price_keys([parts, parts])) == set(KEYS)
    assert hourly_usd([parts, parts], Quotes("x", KEYS)) == 2 * (
        Decimal("0.04") + Decimal("0.01") + Decimal("0.005")
    )
    for key in KEYS:
        assert (
            hourly_usd(
                [parts],
                Quotes("x", {other: price for other, price in KEYS.items() if other != key}),
            )
            is None
        )
    assert parts_of_host(replace(HOST, volumes=None), "us-east-1") is None
    assert hourly_usd([None], Quotes("x", KEYS)) is None
    assert hourly_usd(
        [parts_of_host(HOST, "us-east-1", is_on=False)], Quotes("x", KEYS)
    ) == Decimal("0.01")
    assert hourly_usd([()], Quotes("x")) == 0


def test_a_script_reads_what_was_found() -> None:
    (stray,) = judge(world(thing(parts=parts_of_host(HOST, "us-east-1"))), grace=GRACE)
    assert isinstance(stray, Orphan)
    found = Sweep("w", "us-east-1", "1", NOW, 30, (stray,), quotes=Quotes("x", KEYS))
    (document,) = found.as_dict()["strays"]
    assert document["hourly_usd"] == "0.055"
    assert (document["kind"], document["age_seconds"], document["removable"]) == (
        "instance",
        3600,
        True,
    )


def test_a_running_clusters_group_is_no_orphan_because_its_tag_was_changed():
    group = Item("group", "terradask-w-etl-workers", "w", "ghost", ago(3600))
    host = Item("instance", "i-1", "w", "ghost", ago(3600), group="terradask-w-etl-workers-spot")
    secret = Item("secret", "terradask/w/etl", "w", "ghost", ago(3600))
    other = Item("group", "terradask-w-ghost-workers", "w", "ghost", ago(3600))
    # Of a cluster whose name begins alike.
    alike = Item("group", "terradask-w-etl-b-workers", "w", "etl-b", ago(3600))
    seen = world(group, host, secret, other, alike, etl=LIVE)
    found = {stray.id: stray for stray in judge(seen, grace=GRACE)}
    for item in (group, host, secret):
        assert not found[item.id].may_go(NOW)
        assert "belongs to etl, which is deployed" in (found[item.id].held or "")
    assert found[other.id].may_go(NOW)
    assert found[alike.id].may_go(NOW)
    # Nothing else protects it: after the cluster's end it is an orphan.
    assert all(stray.may_go(NOW) for stray in judge(replace(seen, deployed={}), grace=GRACE))
