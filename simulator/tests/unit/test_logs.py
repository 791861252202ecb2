"""The embedded CloudWatch Logs refuses what AWS refuses, and answers in pages as it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.unit.log_account import GROUP, LogAccount, log_account

from terradask._aws.answers import unless
from terradask_simulator.aws.fidelity.log_events import DELAY


@pytest.fixture(scope="module")
def account() -> Iterator[LogAccount]:
    with log_account() as made:
        made.put("etl/a", "one", "two", at=time.time() - 100)
        made.put("etl/b", "three", at=time.time() - 50)
        made.put("ml/a", "four", at=time.time() - 10)
        yield made


def refused(account: LogAccount, method: str, **question: Any) -> str:
    with pytest.raises(ClientError) as error:
        getattr(account.client, method)(logGroupName=GROUP, **question)
    assert error.value.response["Error"]["Code"] == "InvalidParameterException"
    return error.value.response["Error"]["Message"]


def pages(account: LogAccount, **question: Any) -> list[list[str]]:
    found, token = [], {}
    while True:
        page = account.client.filter_log_events(logGroupName=GROUP, **question, **token)
        found.append([event["message"] for event in page["events"]])
        if "nextToken" not in page:
            return found
        token = {"nextToken": page["nextToken"]}


def test_first_pages_are_empty_and_the_rest_is_in_order(account: LogAccount) -> None:
    assert pages(account, logStreamNamePrefix="etl/") == [[], ["one", "two", "three"]]
    assert pages(account, logStreamNames=["ml/a", "etl/b"]) == [[], ["three", "four"]]
    assert pages(account, limit=3) == [[], ["one", "two", "three"], ["four"]]
    newest = pages(account, limit=3, startFromHead=False, startTime=1_704_067_200_000)
    assert newest == [[], ["four", "three", "two"], ["one"]]
    assert pages(account, logStreamNamePrefix="nothing") == [[]]
    assert pages(account, filterPattern="two") == [[], ["two"]]


def test_a_page_has_at_most_a_megabyte(account: LogAccount) -> None:
    account.put("big/a", *["x" * 400_000] * 2)
    account.put("big/a", *["y" * 400_000] * 2, at=time.time() + 1)
    sizes = [len(page) for page in pages(account, logStreamNamePrefix="big/")]
    assert sizes == [0, 2, 2]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"logStreamNames": ["etl/a"], "logStreamNamePrefix": "etl/"}, "both"),
        ({"nextToken": "x"}, "nextToken is invalid"),
        ({"nextToken": "W10="}, "nextToken is invalid"),
        ({"startFromHead": False, "startTime": 1_704_067_199_999}, "Jan 1, 2024"),
        ({"startFromHead": False}, "Jan 1, 2024"),
    ],
)
def test_questions_that_aws_refuses(
    account: LogAccount, question: dict[str, Any], message: str
) -> None:
    assert message in refused(account, "filter_log_events", **question)


def test_a_token_belongs_to_its_question(account: LogAccount) -> None:
    token = account.client.filter_log_events(logGroupName=GROUP)["nextToken"]
    question = {"logStreamNamePrefix": "etl/", "nextToken": token}
    assert "nextToken" in refused(account, "filter_log_events", **question)


def test_streams_that_arent_there_are_not_found(account: LogAccount) -> None:
    for where in ({"logGroupName": "nowhere"}, {"logGroupName": GROUP, "logStreamNames": ["x"]}):
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            account.client.filter_log_events(**where)
    with unless("ResourceNotFoundException"):
        account.client.describe_log_streams(logGroupName="nowhere")
        pytest.fail("a group that isn't there was described")


@pytest.mark.parametrize("name", ["a:b", "a*", "x" * 513])
def test_names_that_streams_cant_have(account: LogAccount, name: str) -> None:
    with pytest.raises(Exception, match=r"InvalidParameter|Invalid length|logStreamName"):
        account.client.create_log_stream(logGroupName=GROUP, logStreamName=name)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([(0, "x" * 600_000), (0, "y" * 600_000)], "Upload too large"),
        ([(0, "a"), (86_400_001, "b")], "24 hours"),
        ([(1, "a"), (0, "b")], "chronological"),
        ([(0, "a")] * 10_001, "between 1 and 10000"),
    ],
)
def test_batches_that_aws_refuses(
    account: LogAccount, events: list[tuple[int, str]], message: str
) -> None:
    at = int(time.time() * 1000) - 90_000_000
    batch = [{"timestamp": at + later, "message": text} for later, text in events]
    where = {"logStreamName": "etl/a", "logEvents": batch}
    assert message in refused(account, "put_log_events", **where)


def test_events_that_are_too_old_too_new_or_expired_are_left_out(account: LogAccount) -> None:
    account.client.put_retention_policy(logGroupName=GROUP, retentionInDays=7)
    account.put("late/a", "now")
    now, day = int(time.time() * 1000), 86_400_000
    ages = (15, 10, 8, 6, 5.5, -1)
    events = [{"timestamp": now - int(age * day), "message": f"{age} days"} for age in ages]
    answer = account.client.put_log_events(
        logGroupName=GROUP, logStreamName="late/a", logEvents=events
    )
    account.client.delete_retention_policy(logGroupName=GROUP)
    assert answer["rejectedLogEventsInfo"] == {
        "tooOldLogEventEndIndex": 1,
        "expiredLogEventEndIndex": 3,
        "tooNewLogEventStartIndex": 5,
    }
    assert pages(account, logStreamNamePrefix="late/")[1] == ["6 days", "5.5 days", "now"]


def test_times_of_young_events_arent_described(account: LogAccount) -> None:
    for stream in account.client.describe_log_streams(logGroupName=GROUP)["logStreams"]:
        assert "creationTime" in stream
        assert "lastEventTimestamp" not in stream


def test_events_can_be_read_some_time_later(account: LogAccount) -> None:
    before = DELAY.turn(seconds=3600.0)
    try:
        assert pages(account, logStreamNamePrefix="etl/") == [[]]
    finally:
        assert DELAY.turn(**before) == {"seconds": 3600.0}
    assert pages(account, logStreamNamePrefix="ml/") == [[], ["four"]]
