"""The account of an access key that was seen before is known at once; AWS is asked all the same."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.credentials import ReadOnlyCredentials

from terradask._aws.caller import Caller
from terradask.errors import InvalidCredentials

ACCOUNT, OTHER = "123456789012", "210987654321"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "terradask/callers"


class SlowTokenService:
    """STS, which answers only when it may."""

    meta = SimpleNamespace(endpoint_url="https://sts.eu-west-1.amazonaws.com")

    def __init__(self, account: str = ACCOUNT, *, error: Exception | None = None) -> None:
        self.account = account
        self.error = error
        self.calls = 0
        self.may_answer = threading.Event()

    def get_caller_identity(self) -> dict[str, str]:
        self.calls += 1
        assert self.may_answer.wait(10)
        if self.error is not None:
            raise self.error
        return {"Account": self.account, "Arn": f"arn:aws:iam::{self.account}:user/ada"}

    def caller(self, key: str = "AKIAIOSFODNN7EXAMPLE", account: str | None = None) -> Caller:
        credentials = ReadOnlyCredentials(key, "secret", None, account)
        caller = Caller("eu-west-1", lambda name: self, lambda: credentials, lambda: None)
        caller.expect()
        return caller


def _seen(account: str = ACCOUNT) -> None:
    sts = SlowTokenService(account)
    sts.may_answer.set()
    assert sts.caller().account_id == account


def test_the_account_of_a_known_key_waits_for_no_answer(cache: Path) -> None:
    _seen()
    sts = SlowTokenService()
    caller = sts.caller()
    assert caller.account_id == caller.account_id == ACCOUNT
    sts.may_answer.set()
    assert caller.arn == f"arn:aws:iam::{ACCOUNT}:user/ada"
    assert caller.account_id == ACCOUNT
    assert sts.calls == 1
    # The name says nothing of the key.
    assert [len(file.stem) for file in cache.iterdir()] == [64]


def test_without_expecting_one_the_account_is_aws_answer() -> None:
    _seen()
    sts = SlowTokenService(OTHER)
    sts.may_answer.set()
    credentials = ReadOnlyCredentials("AKIAIOSFODNN7EXAMPLE", "secret", None, ACCOUNT)
    caller = Caller("eu-west-1", lambda name: sts, lambda: credentials, lambda: None)
    assert caller.account_id == OTHER


def test_credentials_that_name_their_account_wait_for_no_answer(cache: Path) -> None:
    sts = SlowTokenService()
    caller = sts.caller(account=ACCOUNT)
    assert caller.account_id == ACCOUNT
    sts.may_answer.set()
    assert caller.arn.endswith("user/ada")
    sts.may_answer.clear()
    sts.account = OTHER
    caller = sts.caller(account=ACCOUNT)
    assert caller.account_id == ACCOUNT
    sts.may_answer.set()
    with pytest.raises(InvalidCredentials, match="AWS_ACCOUNT_ID"):
        _ = caller.arn


def test_another_key_is_asked_about_first() -> None:
    _seen()
    sts = SlowTokenService(OTHER)
    sts.may_answer.set()
    assert sts.caller("AKIAI44QH8DHBEXAMPLE").account_id == OTHER


def test_the_answer_counts_and_not_what_was_kept() -> None:
    _seen()
    sts = SlowTokenService(OTHER)
    caller = sts.caller()
    assert caller.account_id == ACCOUNT
    sts.may_answer.set()
    # Nothing that goes by the first answer gets further, however often it asks.
    for _ in range(2):
        with pytest.raises(InvalidCredentials, match=f"{OTHER}; expected was {ACCOUNT}"):
            _ = caller.arn
    with pytest.raises(InvalidCredentials):
        _ = caller.account_id
    assert sts.caller().account_id == OTHER


def test_after_a_refusal_the_next_look_asks_first() -> None:
    _seen()
    sts = SlowTokenService(error=InvalidCredentials("unknown key"))
    caller = sts.caller()
    assert caller.account_id == ACCOUNT
    sts.may_answer.set()
    for _ in range(2):
        with pytest.raises(InvalidCredentials, match="unknown key"):
            _ = caller.arn
    with pytest.raises(InvalidCredentials, match="unknown key"):
        _ = sts.caller().account_id


@pytest.mark.parametrize("content", ["", "{}", "null", "[1]"])
def test_a_file_that_says_nothing_is_no_answer(cache: Path, content: str) -> None:
    _seen()
    next(cache.iterdir()).write_text(content)
    sts = SlowTokenService(OTHER)
    sts.may_answer.set()
    assert sts.caller().account_id == OTHER


def test_an_embedded_aws_has_none_on_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)
    sts = SlowTokenService()
    sts.meta = SimpleNamespace(endpoint_url="http://127.0.0.1:5000")
    sts.may_answer.set()
    assert sts.caller().account_id == ACCOUNT
    assert not cache.exists()
