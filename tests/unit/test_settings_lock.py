"""Locked answers: the same bytes for the same answers, whole files or none, and zones that keep
their slots.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terradask_modules.errors import InvalidInput
from terradask_stacks.lock import (
    ClusterLock,
    LockFile,
    NetworkLock,
    assign_slots,
    dump_lock,
    read_lock,
    write_lock,
)

ZONES = st.sets(st.sampled_from([f"us-east-1{letter}" for letter in "abcdefgh"]), min_size=1)

NETWORK = NetworkLock(
    account="123456789012",
    zones={"us-east-1b": 1, "us-east-1a": 0},
    image_ids={"x86_64": "ami-12c6146b"},
)
CLUSTER = ClusterLock(
    account="123456789012",
    zone="us-east-1a",
    scheduler_instance_types=["m6i.xlarge"],
    worker_instance_types=["m6i.xlarge"],
)


@settings(database=None)
@given(ZONES, ZONES)
def test_zones_keep_their_slots(first: set[str], second: set[str]) -> None:
    before = assign_slots({}, first)
    after = assign_slots(before, first | second)

    assert {zone: after[zone] for zone in before} == before
    assert len(set(after.values())) == len(after)
    assert max(after.values()) < len(after)


@settings(database=None)
@given(ZONES, ZONES)
def test_a_zone_that_leaves_gives_its_slot_to_nobody_yet(first: set[str], second: set[str]) -> None:
    before = assign_slots({}, first)
    after = assign_slots(before, second)

    assert set(after) == second
    given_up = {slot for zone, slot in before.items() if zone not in second}
    assert not given_up & set(after.values())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deep/terradask.lock.json"
    lock = LockFile().with_network(NETWORK).with_cluster("etl", CLUSTER)
    write_lock(path, lock)

    assert read_lock(path) == lock
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_order_of_answers_means_nothing() -> None:
    turned = NetworkLock(
        account="123456789012",
        zones={"us-east-1a": 0, "us-east-1b": 1},
        image_ids={"x86_64": "ami-12c6146b"},
    )

    assert dump_lock(LockFile(network=turned)) == dump_lock(LockFile(network=NETWORK))


def test_an_unchanged_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "terradask.lock.json"
    write_lock(path, LockFile(network=NETWORK))
    before = path.stat()
    write_lock(path, LockFile(network=NETWORK))

    assert path.stat().st_ino == before.st_ino


def test_no_file_means_no_answers(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "terradask.lock.json") == LockFile()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "another format"),
        ('{"format": 2}', "another format"),
        (
            '{"format": 1, "network": {"account": "me", "zones": {}, "image_ids": {}}}',
            "network.account",
        ),
        (json.dumps({"format": 1, "clusters": {"etl": {"zone": 3}}}), "clusters.etl"),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "terradask.lock.json"
    path.write_text(text)

    with pytest.raises(InvalidInput, match=says) as error:
        read_lock(path)
    assert str(path) in error.value.problem
    assert error.value.advice
