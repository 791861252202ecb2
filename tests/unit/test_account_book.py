"""Accounts in the bucket: opened once, found by keys, damaged, or of clusters that are gone."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from terradask._aws.session import Aws
from terradask._observe.documents import SILENT
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.account import Account, AccountGroup, Use, read_account
from terradask._observe.run_costs.book import (
    AccountBook,
    account_of,
    close_account,
    close_last_account,
    find_accounts,
    open_account,
)
from terradask._observe.store import RUN as RUN_DOCUMENT
from terradask_host.documents import Run
from terradask_host.structure import Structure

from ..moto_account import moto_account
from .account_facts import ACCOUNT, BUCKET, PRICE, RUN, START, at
from .host_facts import run_document

PRICE_ENTRY = {**vars(PRICE), "usd": "0.192"}


@pytest.fixture
def book() -> Iterator[AccountBook]:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        yield AccountBook(aws, BUCKET)


def test_an_account_is_opened_once_and_found_by_its_key(book: AccountBook) -> None:
    book.write(ACCOUNT)
    book.write(replace(ACCOUNT, owner="arn:aws:iam::123456789012:user/mallory"))
    keys = book.keys()
    assert (keys, book.read_all(keys)) == ([f"{RUN}/etl.json"], [ACCOUNT])
    assert book.keys(at(60)) == []


def test_what_two_callers_have_found_at_a_time_is_both_in_the_account(book: AccountBook) -> None:
    def found(instance_id: str) -> Callable[[Account], Account]:
        use = Use(instance_id, "workers", "m6i.xlarge", "aws", "us-east-1a", START)
        return lambda base: replace(base, uses={**base.uses, instance_id: use})

    book.write(ACCOUNT)
    (read,) = book.read_all(book.keys())
    book.write_change(read, found("i-1"))
    assert book.write_change(read, found("i-2")).uses.keys() == {"i-1", "i-2"}
    # Also where the first has written it, and the other one has read none.
    assert book.write_change(ACCOUNT, found("i-3")).uses.keys() == {"i-1", "i-2", "i-3"}
    (kept,) = book.read_all(book.keys())
    assert kept.uses.keys() == {"i-1", "i-2", "i-3"}
    assert book.write_change(kept, found("i-4"), when=lambda: False).uses.keys() > kept.uses.keys()
    assert book.read_all(book.keys()) == [kept]


@pytest.mark.parametrize(
    ("key", "body"),
    [
        (f"{RUN}/etl.json", "{"),
        (f"{RUN}/etl.json", "[]"),
        (f"{RUN}/etl.json", '{"format": 1}'),
        (f"{RUN}/etl.json", json.dumps({**ACCOUNT.to_document(), "instances": [["i-1"]]})),
        (f"{RUN}/etl.json", json.dumps({**ACCOUNT.to_document(), "started_at": 1e300})),
        (
            f"{RUN}/etl.json",
            json.dumps({**ACCOUNT.to_document(), "prices": [{**PRICE_ENTRY, "usd": "NaN"}]}),
        ),
        (
            f"{RUN}/etl.json",
            json.dumps({**ACCOUNT.to_document(), "prices": [{**PRICE_ENTRY, "usd": "x"}]}),
        ),
        (f"{RUN}/etl.json", " " * (8 * 2**20 + 1)),
        ("elsewhere.json", "{}"),
        (f"{RUN}/../etl.json", "{}"),
        (f"{RUN}/UPPER.json", "{}"),
    ],
)
def test_a_damaged_account_hides_no_other(
    book: AccountBook, caplog: pytest.LogCaptureFixture, key: str, body: str
) -> None:
    other = replace(ACCOUNT, cluster="ml")
    book.write(other)
    book.aws.client("s3").put_object(Bucket=BUCKET, Key=f"accounts/{key}", Body=body.encode())
    with caplog.at_level(logging.WARNING, "terradask"):
        assert book.read_all(book.keys()) == [other]
    assert (f"accounts/{key}" in caplog.text) == (key == f"{RUN}/etl.json")


def test_control_characters_do_not_reach_a_terminal() -> None:
    document = {
        **ACCOUNT.to_document(),
        "owner": "ada\x1b[2J",
        "tags": {"project": "a\nb\x07"},
    }
    found = read_account(ACCOUNT.key, document)
    assert (found.owner, found.tags) == ("ada\ufffd[2J", {"project": "a b\ufffd"})


def run_of(cluster: ClusterRecord) -> Run:
    entry = {"autoscaling_group": "terradask-default-etl-workers", "role": "worker", "max_size": 4}
    structure = Structure.read({"groups": {"workers": {**entry, "market": "spot"}}, "worker": {}})
    run = replace(run_document(structure=structure), run_id=RUN, owner=ACCOUNT.owner)
    cluster.objects.write(RUN_DOCUMENT, run.to_document())
    return run


def test_a_run_whose_cluster_is_gone_has_an_account_of_its_own_documents(
    book: AccountBook,
) -> None:
    cluster = ClusterRecord(book.aws, BUCKET, "etl")
    run = run_of(cluster)
    found = account_of(cluster, run, cluster.objects.written_at(RUN_DOCUMENT))
    assert found.groups == {"workers": AccountGroup("spot")}
    # By AWS's clock, whatever the caller's said.
    assert abs(found.started_at - time.time()) < 60
    open_account(cluster, run_of(cluster))
    close_last_account(cluster)
    (kept,) = book.read_all(book.keys())
    assert (kept.owner, kept.is_settled, kept.uses) == (ACCOUNT.owner, True, {})


def test_a_run_is_over_if_its_documents_say_so_and_not_if_they_can_not_be_read(
    book: AccountBook, caplog: pytest.LogCaptureFixture
) -> None:
    book.write(ACCOUNT)
    cluster = ClusterRecord(book.aws, BUCKET, "etl")
    cluster.objects.write(RUN_DOCUMENT, {"format": 1})
    with caplog.at_level(logging.WARNING, "terradask"):
        assert find_accounts(book.aws, BUCKET, None) == [ACCOUNT]
    assert f"can't update the cost account of run {RUN}" in caplog.text
    assert book.read_all(book.keys()) == [ACCOUNT]
    run_of(cluster)
    (found,) = find_accounts(book.aws, BUCKET, None)
    assert (found.is_settled, found.reason) == (True, SILENT)
    assert book.read_all(book.keys()) == [found]


def test_an_account_that_can_not_be_kept_stops_nothing(
    book: AccountBook, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ClusterRecord(book.aws, BUCKET, "etl")
    run = run_of(cluster)
    nowhere = ClusterRecord(book.aws, BUCKET.replace("default", "nowhere"), "etl")
    with caplog.at_level(logging.WARNING, "terradask"):
        open_account(nowhere, run)
        close_account(nowhere, run, list, nowhere.scheduler, lambda: None)
    assert caplog.text.count(f"can't write the cost account of run {RUN}") == 2
