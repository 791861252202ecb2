"""What was done to a workspace is noted, and read again without what can't be read."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._observe.run_costs.account import Account, AccountGroup, Use
from terradask._observe.run_costs.book import entries_of, in_order
from terradask._plans.applied import History, HistoryEntry

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"
PLAN: Any = SimpleNamespace(plan_file=SimpleNamespace(sha256="0f" * 32, add=3, change=2, remove=1))
WHOLE = {
    "format": 1,
    "at": "2026-11-24T08:00:00Z",
    "what": "applied",
    "stack": "etl",
    "by": "arn:aws:iam::123456789012:user/ada",
    "plan_sha256": None,
    "changes": {},
}


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        found = Aws("us-east-1")
        found.client("s3").create_bucket(Bucket=BUCKET)
        yield found


def put(aws: Aws, key: str, body: str) -> None:
    aws.client("s3").put_object(Bucket=BUCKET, Key=f"history/{key}", Body=body.encode())


def test_what_is_noted_is_read_with_its_plan_and_caller(aws: Aws) -> None:
    notes = History(aws, BUCKET)
    notes.record("applied", "network", PLAN)
    notes.record("destroyed", "etl")
    first, second = sorted(notes.read(), key=lambda entry: entry.what)
    assert (first.what, first.stack, first.by) == ("applied", "network", aws.caller_arn)
    assert (first.plan_sha256, first.changes) == ("0f" * 32, {"add": 3, "change": 2, "remove": 1})
    assert (second.what, second.stack, second.plan_sha256, second.changes) == (
        "destroyed",
        "etl",
        None,
        {},
    )
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
    assert notes.read(later) == []


def test_what_can_not_be_noted_stops_nothing(aws: Aws, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "terradask"):
        History(aws, "no-such-bucket-0").record("applied", "etl", PLAN)
    assert "etl: could not record in history that it was applied" in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        "{}",
        json.dumps({**WHOLE, "format": 2}),
        json.dumps({**WHOLE, "at": "soon"}),
        json.dumps({**WHOLE, "changes": {"add": "many"}}),
        json.dumps({**WHOLE, "by": "a" * 2**16}),
    ],
)
def test_a_damaged_entry_hides_no_other(
    aws: Aws, caplog: pytest.LogCaptureFixture, body: str
) -> None:
    put(aws, "20261124T080000Z-000001.json", json.dumps(WHOLE))
    put(aws, "20261124T080001Z-000002.json", body)
    put(aws, "elsewhere.json", body)
    with caplog.at_level(logging.WARNING, "terradask"):
        (entry,) = History(aws, BUCKET).read()
    assert (entry.at, entry.stack) == ("2026-11-24T08:00:00Z", "etl")
    assert "history/20261124T080001Z-000002.json is skipped" in caplog.text


def test_control_characters_do_not_reach_a_terminal() -> None:
    entry = HistoryEntry.read({**WHOLE, "stack": "a\x1b[2J\nb", "changes": {"add\x07": 1}})
    assert (entry.stack, entry.changes) == ("a\ufffd[2J b", {"add\ufffd": 1})


def test_runs_are_told_from_their_accounts() -> None:
    at = 1_795_507_200
    use = Use("i-1", "workers", None, None, None, at, at + 60)
    groups = {"workers": AccountGroup("on-demand")}
    ended = Account(
        "r1", "etl", "ada", at, groups, {}, at + 90, at + 90, {"i-1": use}, reason="idle"
    )
    goes_on = Account("r2", "ml", "bo", at + 1, groups)
    told = entries_of([ended, goes_on])
    assert [(one.at, one.what, one.by, one.run_id, one.reason) for one in told] == [
        ("2026-11-24T08:00:00Z", "started", "ada", "r1", None),
        ("2026-11-24T08:01:00Z", "ended", None, "r1", "idle"),
        ("2026-11-24T08:00:01Z", "started", "bo", "r2", None),
    ]


def test_a_replaced_scheduler_is_told_from_the_instances_that_its_group_had() -> None:
    at = 1_795_507_200
    uses = [
        Use("i-3", "scheduler", None, None, None, at + 120),
        Use("i-1", "scheduler", None, None, None, at, at + 50),
        Use("i-2", "workers", None, None, None, at + 10),
        Use("i-4", "workers", None, None, None, at + 20),
    ]
    groups = {name: AccountGroup("on-demand") for name in ("scheduler", "workers")}
    account = Account(
        "r1", "etl", "ada", at, groups, {}, uses={use.instance_id: use for use in uses}
    )
    (replaced,) = (one for one in entries_of([account]) if one.what == "replaced")
    assert (replaced.at, replaced.stack, replaced.run_id) == ("2026-11-24T08:02:00Z", "etl", "r1")
    assert "the scheduler's host i-1" in str(replaced.reason)
    assert "lost" in str(replaced.reason)


def test_in_one_second_a_run_is_between_the_apply_and_the_destruction() -> None:
    at = "2026-11-24T08:00:00Z"
    happened = [
        HistoryEntry("2026-11-24T07:59:59Z", "destroyed", "etl"),
        *(HistoryEntry(at, what, "etl") for what in ("applied", "started", "ended", "destroyed")),
    ]
    assert in_order(sorted(happened, key=lambda one: one.what)) == happened
