"""A cluster's lines are read in few calls, whatever else stands in the log group."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import botocore
import pytest
from packaging.version import Version

from terradask import Deployment
from terradask._observe.logs.query import LogQuery
from terradask._observe.logs.reader import Follower, LogGroup, LogReader
from terradask.errors import ClusterNotFound, InvalidInput
from terradask_host.log_streams import LogStream

from .log_account import LogAccount, log_account


def run_of(seconds_ago: float, ending: str = "aaaaaa") -> str:
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
    return f"{at:%Y%m%dT%H%M%SZ}-{ending}"


OLD, NEW = run_of(7200), run_of(600)


def name(run: str, number: int, group: str = "workers", cluster: str = "etl") -> str:
    return LogStream(cluster, run, group, f"i-{number:017x}").name


@pytest.fixture
def account() -> Iterator[LogAccount]:
    with log_account() as made:
        yield made


def read(
    account: LogAccount, query: LogQuery, run: str = NEW, *, is_last: bool = True
) -> list[str]:
    reader = LogReader(account.group, "etl")
    chosen = reader.choose(query, run, is_last=is_last)
    return [line.text for _, line in reader.lines(query, chosen, run)]


def test_a_thousand_hosts_are_read_in_few_calls(account: LogAccount) -> None:
    now = time.time()
    for number in range(1000):
        group = "scheduler" if number == 0 else "workers"
        account.put(name(NEW, number, group), *[f"{number} {n}" for n in range(15)], at=now - 60)
    account.calls.clear()
    reader = LogReader(account.group, "etl")
    assert reader.last_run() == NEW
    assert len(read(account, LogQuery.of())) == 15_000
    # The last run; hosts without one; and two full pages behind an empty one.
    assert account.calls == {"DescribeLogStreams": 2, "FilterLogEvents": 3}
    account.calls.clear()
    assert len(read(account, LogQuery.of(tail=100))) == 100
    pages = 2 if account.group.reads_from_tail else 3
    assert account.calls == {"DescribeLogStreams": 1, "FilterLogEvents": pages}
    account.calls.clear()
    assert len(read(account, LogQuery.of(["scheduler"]))) == 15
    assert account.calls == {"DescribeLogStreams": 1, "FilterLogEvents": 2}
    account.calls.clear()
    # To find a host by how its id ends, all streams of the run are listed.
    assert len(read(account, LogQuery.of([f"{999:04x}"]))) == 15
    assert account.calls == {"DescribeLogStreams": 21, "FilterLogEvents": 2}


def test_more_hosts_without_a_run_than_one_call_may_name_are_read(account: LogAccount) -> None:
    account.put(name(NEW, 0), "run")
    for number in range(1, 102):
        account.put(name("-", number), str(number))
    assert sorted(read(account, LogQuery.of())) == sorted(["run", *map(str, range(1, 102))])


def test_hosts_are_interleaved_oldest_first_and_a_tail_is_the_end(account: LogAccount) -> None:
    now = time.time()
    for number in range(6):
        account.put(name(NEW, number % 2), f"line {number}", at=now - 60 + number)
    whole = [f"line {number}" for number in range(6)]
    assert read(account, LogQuery.of()) == whole
    assert read(account, LogQuery.of(tail=4)) == whole[2:]
    assert read(account, LogQuery.of(tail=99)) == whole
    assert read(account, LogQuery.of(tail=2, pattern="[024]")) == ["line 2", "line 4"]
    since = datetime.datetime.fromtimestamp(now - 57.5, datetime.UTC)
    assert read(account, LogQuery.of(since=since)) == whole[3:]
    assert read(account, LogQuery.of(until=since)) == whole[:3]
    assert read(account, LogQuery.of(until=since, tail=1)) == ["line 2"]


def test_a_tail_of_serious_lines_knows_what_they_go_on_with(account: LogAccount) -> None:
    lines = ["ERROR: a", "  b", "KeyError: c", "printed", "INFO: d", "ERROR: e"]
    account.put(name(NEW, 1), *lines, at=time.time() - 60)
    query = LogQuery.of(level="error", tail=3)
    assert read(account, query) == ["  b", "KeyError: c", "ERROR: e"]


def test_only_the_runs_own_lines_are_read(account: LogAccount) -> None:
    account.put(name(OLD, 1), "old", at=time.time() - 7000)
    account.put(name(NEW, 1), "new")
    account.put(name(NEW, 1, cluster="etl-2"), "another cluster's")
    account.put("etl/i-00000000000000001", "of a former version")
    account.put(f"etl/{NEW}/workers/not-a-host", "planted")
    account.put(f"etl/{NEW}/workers/i-00000000000000001/x", "planted")
    assert read(account, LogQuery.of()) == ["new"]
    assert read(account, LogQuery.of(), OLD, is_last=False) == ["old"]
    everything = read(account, LogQuery.of(run="all"), "all", is_last=False)
    assert everything == ["old", "new"]
    reader = LogReader(account.group, "etl")
    assert reader.runs() == [NEW, OLD]
    reader.check_run(OLD)
    for wrong in ("20200101T000000Z-ab", "x", f"{NEW}/workers"):
        with pytest.raises(InvalidInput, match=f"{NEW}, {OLD}, all"):
            reader.check_run(wrong)


def test_a_host_that_never_knew_its_run_is_one_of_the_last(account: LogAccount) -> None:
    account.put(name(NEW, 1), "knows", at=time.time() - 60)
    account.put(name("-", 2), "lost", at=time.time() - 50)
    account.put(name("-", 3, "scheduler"), "lost, too", at=time.time() - 40)
    account.put(name(NEW, 1), "still", at=time.time() - 45)
    assert read(account, LogQuery.of()) == ["knows", "lost", "still", "lost, too"]
    assert read(account, LogQuery.of(tail=3)) == ["lost", "still", "lost, too"]
    assert read(account, LogQuery.of(["scheduler"])) == ["lost, too"]
    assert read(account, LogQuery.of(["workers"], tail=9)) == ["knows", "lost", "still"]
    assert read(account, LogQuery.of([f"{2:04x}"])) == ["lost"]
    # It was launched long after.
    assert read(account, LogQuery.of(), OLD, is_last=False) == []
    assert read(account, LogQuery.of(), "-") == ["lost", "lost, too"]


def test_a_run_to_come_that_was_planted_hides_nothing(account: LogAccount) -> None:
    account.put(name(NEW, 1), "x")
    account.put(name(run_of(-86_400), 1))
    assert LogReader(account.group, "etl").last_run() == NEW


def test_without_logs_the_clusters_that_have_some_are_named(account: LogAccount) -> None:
    reader = LogReader(account.group, "etl")
    assert reader.last_run() is None
    assert "no cluster has any yet" in str(reader.not_found())
    account.put(name(NEW, 1, cluster="ml"), "x")
    with pytest.raises(ClusterNotFound, match="a cluster with logs: ml"):
        reader.check_run(NEW)
    # Without the group, too, since the network was destroyed.
    gone = LogReader(LogGroup(account.aws, "gone"), "etl")
    assert gone.last_run() is None
    assert list(gone.lines(LogQuery.of(), gone.choose(LogQuery.of(), NEW, is_last=True), NEW)) == []


def test_an_older_boto3_reads_a_tail_from_the_head(
    account: LogAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Version(botocore.__version__) >= Version("1.43.35"):
        assert account.group.reads_from_tail
    monkeypatch.setattr(LogGroup, "reads_from_tail", False)
    account.put(name(NEW, 1), *"abc", at=time.time() - 60)
    assert read(account, LogQuery.of(tail=2)) == ["b", "c"]


class Day:
    """A time that passes as it is slept through, with what happens at it."""

    def __init__(self, *events: object) -> None:
        self.events = list(events)
        self.now = 0.0
        self.start = time.time()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.events:
            self.events.pop(0)()  # type: ignore[operator]

    def clock(self) -> float:
        return self.now

    def wall_clock(self) -> float:
        return self.start + self.now


def follow(account: LogAccount, query: LogQuery, day: Day, over_at: float) -> list[str]:
    reader = LogReader(account.group, "etl")
    follower = Follower(
        reader,
        lambda: day.now >= over_at,
        sleep=day.sleep,
        clock=day.clock,
        wall_clock=day.wall_clock,
    )
    chosen = reader.choose(query, NEW, is_last=True)
    return [line.text for line in follower.lines(query, chosen, NEW)]


def test_lines_are_followed_each_once_until_the_run_is_over(account: LogAccount) -> None:
    now = time.time()
    account.put(name(NEW, 1), "before", at=now - 60)
    day = Day(
        lambda: account.put(name(NEW, 1), "first", at=now),
        # Another host, whose line was shipped late.
        lambda: account.put(name(NEW, 2), "late", at=now - 20),
        lambda: None,
        # Its clock is ahead.
        lambda: account.put(name(NEW, 3), "ahead", at=now + 3600),
        lambda: account.put(name(NEW, 1), "last", at=now + 8),
        lambda: account.put(name(NEW, 1), "after the end", at=now + 12),
    )
    told = follow(account, LogQuery.of(), day, over_at=10.0)
    assert told == ["before", "first", "late", "ahead", "last", "after the end"]
    assert 20.0 <= day.now <= 24.0


def test_a_tail_is_followed_without_what_was_left_out(account: LogAccount) -> None:
    account.put(name(NEW, 1), *"abc")
    day = Day(lambda: account.put(name(NEW, 1), "d"))
    assert follow(account, LogQuery.of(tail=1), day, over_at=5.0) == ["c", "d"]


def test_levels_are_those_of_whole_messages_while_followed(account: LogAccount) -> None:
    account.put(name(NEW, 1), "INFO: a")
    day = Day(
        lambda: account.put(name(NEW, 1), "ERROR: b", "Traceback (most recent call last):"),
        lambda: account.put(name(NEW, 1), "  c", "ValueError: d", "printed"),
    )
    told = follow(account, LogQuery.of(level="warning"), day, over_at=6.0)
    assert told == ["ERROR: b", "Traceback (most recent call last):", "  c", "ValueError: d"]


def test_a_run_that_is_over_isnt_waited_for(account: LogAccount) -> None:
    account.put(name(NEW, 1), "x")
    day = Day()
    assert follow(account, LogQuery.of(), day, over_at=0.0) == ["x"]
    assert day.now == 0.0


BUCKET = "terradask-default-123456789012-us-east-1"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 1, "run_id": 7}', b"\xff"])
def test_a_damaged_document_hides_no_log(account: LogAccount, content: bytes) -> None:
    s3 = account.aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="clusters/etl/run.json", Body=content)
    account.put(name(OLD, 1), "before")
    account.put(name(NEW, 1), "why it is damaged")
    deployment = Deployment(account.aws, BUCKET, "etl")
    assert [line.text for line in deployment.logs()] == ["why it is damaged"]
    assert deployment.log_hosts() == {f"i-{1:017x}": "workers"}
    assert [line.text for line in deployment.iter_logs(run=OLD)] == ["before"]
    assert [line.text for line in deployment.logs(run="all")] == ["before", "why it is damaged"]


def test_only_the_last_run_is_followed_and_until_its_end(account: LogAccount) -> None:
    deployment = Deployment(account.aws, BUCKET, "etl")
    for asked in ({"until": "1h"}, {"run": NEW}):
        with pytest.raises(InvalidInput, match="neither until nor run"):
            list(deployment.iter_logs(follow=True, **asked))
