"""What is seen to before Terraform reads the network's state: its bucket, and whose both are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._common.progress import Message
from terradask._terraform.state.bucket import TAG
from terradask._terraform.state.network import NetworkState, owners_of
from terradask.errors import (
    AccessDenied,
    AwsError,
    BackendMissing,
    InvalidInput,
    StateConflict,
)
from terradask_simulator.aws.fidelity import buckets
from terradask_stacks.loading import load_settings

from ..moto_account import moto_account
from .network_folders import ACCOUNT, BUCKET, KEY, Folder, state_of

THEM = "999999999999"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# ---- the bucket is made --------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def policies_with_conditions() -> None:
    buckets.install()


class Killed(BaseException):
    """The process ended here."""


class Account:
    """An account in which a process is killed at one of its calls."""

    def __init__(self, root: Path) -> None:
        self.told: list[Any] = []
        self._calls, self._dies_at = 0, -1
        self._aws = Aws("us-east-1")
        client = self._aws.client("s3")
        call = client._make_api_call

        def counted(*arguments: Any) -> Any:
            if self._calls == self._dies_at:
                raise Killed
            self._calls += 1
            return call(*arguments)

        client._make_api_call = counted
        self._state = NetworkState(load_settings(root), self._aws, progress=self.told.append)

    def prepare(self, *, dies_at: int = -1) -> int:
        """Prepare; return how many calls that took."""
        self._calls, self._dies_at = 0, dies_at
        self._state.prepare()
        return self._calls

    def is_whole(self) -> bool:
        self._dies_at, s3 = -1, self._aws.client("s3")
        tags = s3.get_bucket_tagging(Bucket=BUCKET)["TagSet"]
        return (
            s3.get_bucket_versioning(Bucket=BUCKET).get("Status") == "Enabled"
            and "TerradaskTlsOnly" in s3.get_bucket_policy(Bucket=BUCKET)["Policy"]
            and bool(s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"])
            and bool(s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"])
            and {"Key": TAG, "Value": "true"} in tags
        )


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    (tmp_path / "terradask.toml").write_text("")
    with moto_account():
        yield Account(tmp_path)


def test_the_first_plan_makes_the_bucket_and_the_next_ones_only_look(account: Account) -> None:
    account.prepare()
    assert account.is_whole()
    assert [type(event) for event in account.told] == [Message]
    assert f"created bucket {BUCKET}" in account.told[0].text
    # Whose it is, whether it is versioned, the state; the last once more in a young bucket's list.
    assert account.prepare() == 4
    assert len(account.told) == 1


def test_a_making_that_was_killed_at_any_call_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "terradask.toml").write_text("")
    with moto_account():
        calls = Account(tmp_path).prepare()
    for number in range(calls):
        with moto_account():
            account = Account(tmp_path)
            with pytest.raises(Killed):
                account.prepare(dies_at=number)
            account.prepare()
            assert account.is_whole()


# ---- it is not -----------------------------------------------------------------------------------


def test_trouble_with_the_bucket_is_told(folder: Folder) -> None:
    folder.settings(bucket="nowhere")
    with pytest.raises(BackendMissing, match="terradask init --state s3"):
        folder.state.prepare()
    assert folder.s3.calls == ["HeadBucket"]
    folder.settings()
    folder.s3.region = "eu-west-1"
    with pytest.raises(InvalidInput, match=r"eu-west-1, workspace\.region us-east-1"):
        folder.state.prepare()
    folder.s3.region = "us-east-1"
    folder.s3.denied = {"GetObject"}
    with pytest.raises(AccessDenied) as caught:
        folder.state.prepare()
    assert caught.value.action == "s3:GetObject"


def test_a_caller_who_may_not_make_the_bucket_is_told_who_does(folder: Folder) -> None:
    folder.s3.buckets.clear()
    folder.s3.denied = {"CreateBucket"}
    with pytest.raises(BackendMissing, match="terradask init --state s3") as caught:
        folder.state.prepare()
    assert isinstance(caught.value.__cause__, AccessDenied)


def test_a_bucket_that_keeps_no_old_versions_is_warned_of(folder: Folder) -> None:
    folder.settings(bucket="ours")
    folder.s3.buckets["ours"] = {}
    folder.s3.denied = {"GetBucketVersioning"}
    folder.s3.versioned = False
    folder.state.prepare()
    assert folder.told == []
    folder.s3.denied = set()
    folder.state.prepare()
    # Of the workspace's own name, but not for this caller to change.
    folder.settings()
    folder.s3.denied = {"GetBucketTagging"}
    folder.state.prepare()
    assert ["keeps no old versions" in text for text in folder.told] == [True, True]


def test_a_bucket_of_somebody_elses_is_not_fallen_for(folder: Folder) -> None:
    folder.s3.owners[BUCKET] = THEM
    with pytest.raises(AwsError, match=BUCKET):
        folder.state.prepare()
    folder.s3.taken = {"ours"}
    folder.settings(bucket="ours")
    with pytest.raises(AwsError, match=r"bucket under \[state\] in terradask\.toml"):
        folder.state.make_bucket()


@pytest.fixture
def theirs(folder: Folder) -> str:
    """A bucket of another account, which lets everybody in, with a state in it."""
    folder.s3.buckets["theirs"] = {KEY: state_of()}
    folder.s3.owners["theirs"] = THEM
    return "theirs"


def test_a_bucket_that_the_settings_name_is_of_the_callers_account(
    folder: Folder, theirs: str
) -> None:
    folder.settings(bucket=theirs)
    with pytest.raises(AwsError, match="TERRADASK_STATE__BUCKET_OWNER") as refused:
        folder.state.prepare()
    assert (refused.value.given, refused.value.allowed) == (
        theirs,
        f"a bucket of account {ACCOUNT}",
    )
    assert folder.s3.calls == ["HeadBucket", "HeadBucket"]
    with pytest.raises(AwsError, match="TERRADASK_STATE__BUCKET_OWNER"):
        folder.state.make_bucket()
    assert set(folder.s3.calls) == {"HeadBucket"}


def test_whoever_works_here_can_say_that_another_accounts_bucket_is_theirs(
    folder: Folder, theirs: str
) -> None:
    folder.environ["TERRADASK_STATE__BUCKET_OWNER"] = THEM
    folder.settings(bucket=theirs)
    folder.state.prepare()
    assert folder.state.place().read() is not None
    folder.settings(bucket="nowhere")
    # In an account where there is no such bucket, this one makes none.
    for begin in (folder.state.prepare, folder.state.make_bucket):
        with pytest.raises(BackendMissing, match=f"with credentials of account {THEM}"):
            begin()
    assert "CreateBucket" not in folder.s3.calls


@pytest.mark.parametrize("trusted", ["BUCKET_OWNER", "KMS_KEY_ARN"])
def test_no_strangers_key_that_the_settings_file_names_encrypts_the_state(
    folder: Folder, trusted: str
) -> None:
    key = f"arn:aws:kms:us-east-1:{THEM}:key/k"
    folder.settings(bucket="ours", kms_key_arn=key)
    folder.s3.buckets["ours"] = {}
    for begin in (folder.state.prepare, folder.state.make_bucket):
        with pytest.raises(InvalidInput, match="TERRADASK_STATE__KMS_KEY_ARN") as refused:
            begin()
        assert (key in str(refused.value.given), folder.s3.calls) == (True, [])
    folder.settings(bucket="ours", kms_key_arn=key.replace(THEM, ACCOUNT))
    folder.state.prepare()
    folder.settings(bucket="ours", kms_key_arn=key)
    said = {"BUCKET_OWNER": THEM, "KMS_KEY_ARN": key}[trusted]
    if trusted == "BUCKET_OWNER":
        folder.s3.owners["ours"] = THEM
    folder.environ[f"TERRADASK_STATE__{trusted}"] = said
    folder.state.prepare()


# ---- the state is another's ----------------------------------------------------------------------


def test_a_state_of_another_network_is_not_used(folder: Folder) -> None:
    theirs = state_of().replace(
        b'"id": "vpc-0"', b'"id": "vpc-0", "tags": {"terradask:workspace": "other"}'
    )
    folder.objects[KEY] = theirs
    with pytest.raises(StateConflict, match="of workspace other, this is default"):
        folder.state.prepare()
    folder.objects[KEY] = state_of(THEM)
    with pytest.raises(StateConflict, match=f"of account {THEM}, this is {ACCOUNT}"):
        folder.state.prepare()
    folder.objects[KEY] = state_of()
    folder.state.prepare()
    assert owners_of(json.loads(state_of())) == {
        "account": {ACCOUNT},
        "region": {"us-east-1"},
        "workspace": set(),
    }


def test_a_state_in_a_file_is_not_passed_over(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)
    path = folder.root / ".terradask/state/network.tfstate"
    path.parent.mkdir(parents=True)
    path.write_bytes(state_of())
    with pytest.raises(StateConflict) as refused:
        folder.state.prepare()
    assert f"aws s3 cp {path} s3://{BUCKET}/{KEY}; then, or if it isn't: rm {path}" in str(
        refused.value
    )
    assert folder.s3.calls == []
    path.unlink()
    folder.state.prepare()
