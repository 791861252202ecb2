"""The end of what a task writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from terradask_host.rules.output_tail import OutputTail

WRITES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40_000)), max_size=12)


@given(WRITES, st.integers(1, 60_000))
def test_it_has_the_newest_bytes_and_says_how_many_are_gone(
    writes: list[tuple[int, bytes]], most: int
) -> None:
    tail = OutputTail(most)
    for stream, content in writes:
        tail.write(stream, content)
    whole = b"".join(content for _, content in writes)
    pieces, missed, end = tail.read()
    kept = b"".join(content for _, content in pieces)
    assert end == tail.end == len(whole)
    assert whole[missed:] == kept
    assert len(kept) <= most
    # No more is dropped than has to be, but for one piece.
    assert not missed or len(kept) > most - 16 * 2**10


@given(WRITES, st.integers(1, 5_000))
def test_read_in_steps_it_is_the_same(writes: list[tuple[int, bytes]], step: int) -> None:
    tail = OutputTail(2**20)
    found, since = b"", 0
    for stream, content in writes:
        tail.write(stream, content)
        pieces, missed, since = tail.read(since, step)
        assert missed == 0
        found += b"".join(content for _, content in pieces)
    while tail.end > since:
        pieces, _, since = tail.read(since, step)
        found += b"".join(content for _, content in pieces)
    assert found == b"".join(content for _, content in writes)


def test_streams_stay_apart_and_a_gap_is_counted() -> None:
    tail = OutputTail(100)
    tail.write(1, b"out")
    tail.write(2, b"err")
    assert tail.read() == ([(1, b"out"), (2, b"err")], 0, 6)
    tail.take(16, [(1, b"later")])
    assert tail.read(6) == ([(1, b"later")], 10, 21)
    assert tail.read(21) == ([], 0, 21)


@given(WRITES, st.data())
def test_what_comes_twice_stands_there_once(
    writes: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    source, copy = OutputTail(2**20), OutputTail(2**20)
    for stream, content in writes:
        source.write(stream, content)
        at = data.draw(st.integers(0, copy.end))
        copy.take(at, source.read(at)[0])
    whole = b"".join(content for _, content in writes)
    assert b"".join(content for _, content in copy.read()[0]) == whole
    assert copy.end == len(whole)
