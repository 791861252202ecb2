"""Starts at the same moment: the second to request hosts compares again, beside the first."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.s3 import as_json
from terradask._aws.session import Aws
from terradask._clusters import starting
from terradask._clusters.starting import Start, StartingBook, StartingGroup, Starts, StartTurn
from terradask.errors import AccessDenied, AwsError, QuotaExceeded
from terradask_host.rules.limits import Running, Size, Use

from ..moto_account import moto_account

BUCKET = "bucket"
KEY = {"Bucket": BUCKET, "Key": "accounts/starting.json"}
MOST_HOSTS = 3


@pytest.fixture
def book() -> Iterator[StartingBook]:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        yield StartingBook(aws, BUCKET)


def compare(starts: Starts) -> None:
    if sum(one.hosts for one in starts.beside(Running()).uses) >= MOST_HOSTS:
        raise QuotaExceeded("too many", largest={}, quotas=[])


def turn(book: StartingBook, cluster: str, hosts: int = 1) -> StartTurn:
    start = Start(cluster, "ada", groups={"workers": StartingGroup(hosts, "vcpus=4")})
    return StartTurn(book, start, book.read(), compare)


def take(each: StartTurn) -> None:
    with each.taken(f"run of {each.start.cluster}", pytest.fail):
        pass


def test_of_starts_that_saw_the_same_so_many_go_on_as_fit(book: StartingBook) -> None:
    turns = [turn(book, f"c{number}") for number in range(6)]
    for each in turns[:MOST_HOSTS]:
        take(each)
    for each in turns[MOST_HOSTS:]:
        with pytest.raises(QuotaExceeded):
            take(each)
    assert [one.cluster for one in book.read().starts.starts] == ["c0", "c1", "c2"]
    # The same cluster's next start takes the place of its last.
    take(StartTurn(book, turns[0].start, book.read(), compare))
    assert len(book.read().starts.starts) == MOST_HOSTS


def test_a_start_that_fails_gives_its_turn_back_and_a_slower_one_still_compares(
    book: StartingBook,
) -> None:
    take(turn(book, "earlier"))
    compared: list[list[str]] = []
    slow = turn(book, "slow")
    slow.compare = lambda starts: compared.append([one.cluster for one in starts.starts])
    with pytest.raises(KeyboardInterrupt):
        interrupt(book, turn(book, "first"))
    # What the slow one read is there again, but no content comes twice.
    take(slow)
    assert compared == [["earlier"]]


def interrupt(book: StartingBook, each: StartTurn) -> None:
    with each.taken("r1", pytest.fail):
        assert each.start.cluster in [one.cluster for one in book.read().starts.starts]
        raise KeyboardInterrupt


@pytest.mark.parametrize(("left", "counts"), [(-1, False), (9, True), (65, True), (999, False)])
def test_a_start_counts_a_minute_at_most(left: float, counts: bool) -> None:
    known = Starts(starts=(Start("etl", "ada", until=1000 + left),))
    assert bool(known.current(1000).starts) is counts


def test_an_interrupted_start_counts_longer_than_one_whose_hosts_are_requested(
    book: StartingBook,
) -> None:
    each = turn(book, "etl")
    with each.taken("r1", pytest.fail):
        assert 55 < left(book) <= 60
    assert 5 < left(book) <= 10


def left(book: StartingBook) -> float:
    (start,) = book.read().starts.starts
    return start.until - book.now()


def test_what_runs_and_what_starts_count_once() -> None:
    size = Size(4)
    running = Running([Use("a", "ada", "", "workers", 2, size), Use("b", "bob", "", "x", 5, size)])
    starts = Starts(
        starts=(
            Start("a", "ada", groups={"workers": StartingGroup(3, "vcpus=4")}),
            Start("b", "bob", groups={"x": StartingGroup(1)}),
            Start("c", "cy", "blue", groups={"scheduler": StartingGroup(1, "vcpus=2")}),
        )
    )
    found = {(one.cluster, one.group): one for one in starts.beside(running).uses}
    assert {key: one.hosts for key, one in found.items()} == {
        ("a", "workers"): 3,
        ("b", "x"): 5,
        ("c", "scheduler"): 1,
    }
    assert (found["c", "scheduler"].team, found["c", "scheduler"].size) == ("blue", Size(2))


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        as_json({"format": 2, "starts": [{"cluster": "etl", "owner": "ada"}]}),
        as_json({"format": 1, "starts": [{"cluster": 1}]}),
    ],
)
def test_an_unreadable_object_is_replaced(book: StartingBook, content: bytes) -> None:
    book.aws.client("s3").put_object(**KEY, Body=content)
    take(turn(book, "etl"))
    assert [one.cluster for one in book.read().starts.starts] == ["etl"]


def test_without_the_right_a_start_goes_on_with_a_warning() -> None:
    def replace(version: Any, starts: Starts) -> bool:
        raise AccessDenied("s3:PutObject", "not authorized to perform: s3:PutObject")

    refusing: Any = SimpleNamespace(now=lambda: 0.0, replace=replace)
    warned: list[str] = []
    each = StartTurn(refusing, Start("etl", "ada"), starting.Version(), compare)
    with each.taken("r1", warned.append):
        pass
    (text,) = warned
    assert "AWS refuses s3:PutObject" in text


def test_a_start_that_is_always_slower_gives_up(book: StartingBook) -> None:
    losing: Any = SimpleNamespace(now=lambda: 0.0, replace=lambda *_: False, read=starting.Version)
    with pytest.raises(AwsError, match="too many clusters"):
        take(StartTurn(losing, Start("etl", "ada"), starting.Version(), compare))
