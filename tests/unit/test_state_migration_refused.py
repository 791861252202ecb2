"""A network's state is not moved: it is another's, somebody works on it, or the bucket makes
trouble.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from terradask._terraform.state.bucket import make_state_bucket
from terradask._terraform.state.local import LocalBackend
from terradask._terraform.state.migrate import owners_of
from terradask._terraform.state.s3 import S3Backend
from terradask._terraform.state.unlock import unlock
from terradask.errors import (
    AccessDenied,
    AwsError,
    BackendMissing,
    InvalidInput,
    StateConflict,
    StateLocked,
)
from terradask_stacks.lock import LockFile, NetworkLock, write_lock

from .migrated_folders import ACCOUNT, BUCKET, KEY, LOCAL, Folder, state_of

THEM = "999999999999"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("place", ["local", "s3"])
def test_a_state_of_another_network_is_neither_used_nor_moved(folder: Folder, place: str):
    theirs = state_of().replace(
        b'"id": "vpc-0"', b'"id": "vpc-0", "tags": {"terradask:workspace": "other"}'
    )
    if place == "local":
        folder.local = theirs
    else:
        folder.objects[KEY] = theirs
    folder.settings("s3")
    with pytest.raises(StateConflict, match="of workspace other, this is default"):
        folder.settle()
    assert [folder.local, folder.objects.get(KEY)].count(theirs) == 1


@pytest.mark.parametrize(
    ("shared", "says"),
    [(True, "TERRADASK_STATE_DIR, which `terradask sim start` sets"), (False, "make another")],
)
def test_two_workspaces_dont_go_on_from_one_local_state(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, shared: bool, says: str
):
    if shared:
        monkeypatch.setenv("TERRADASK_STATE_DIR", str(folder.root / ".terradask"))
    else:
        monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)
    folder.local = state_of().replace(
        b'"id": "vpc-0"', b'"id": "vpc-0", "tags": {"terradask:workspace": "other"}'
    )
    with pytest.raises(StateConflict, match="of workspace other, this is default") as refused:
        folder.settle()
    assert says in str(refused.value)
    folder.local = state_of()
    folder.settle()


def test_the_place_of_another_workspace_is_not_where_this_ones_state_was(folder: Folder):
    folder.settings("s3")
    folder.settle()
    folder.objects[KEY] = state_of()
    toml = folder.root / "terradask.toml"
    toml.write_text(toml.read_text() + '[workspace]\nname = "green"\n')
    folder.settle()
    folder.state.refuse_unmoved()
    assert folder.objects == {KEY: state_of()}


def test_the_cdktf_app_needs_no_credentials_once_answers_are_locked(folder: Folder):
    folder.settings("s3")
    lock = LockFile(network=NetworkLock(account=ACCOUNT, zones={"us-east-1a": 0}, image_ids={}))
    write_lock(folder.root / "terradask.lock.json", lock)
    state = folder.state
    state._aws._identity = None
    state._aws._clients = {"sts": None}
    state.refuse_unmoved()


def test_a_state_of_another_account_is_refused(folder: Folder):
    folder.objects[KEY] = state_of(account="999999999999")
    folder.settings("s3")
    with pytest.raises(StateConflict, match="of account 999999999999, this is 123456789012"):
        folder.settle()
    assert owners_of(json.loads(state_of())) == {
        "account": {ACCOUNT},
        "region": {"us-east-1"},
        "workspace": set(),
    }


@pytest.mark.parametrize("side", ["target", "source"])
def test_it_is_not_moved_under_the_hands_of_somebody_who_works_on_it(folder: Folder, side: str):
    folder.local = state_of()
    folder.settings("s3")
    if side == "target":
        lock = {
            "ID": "theirs",
            "Who": "ana@laptop",
            "Created": "2026-11-20T05:00:00Z",
            "Operation": "OperationTypeApply",
        }
        folder.objects[f"{KEY}.tflock"] = json.dumps(lock).encode()
        with pytest.raises(
            StateLocked, match=r"locked by ana@laptop since 2026-11-20T05:00:00Z \(apply\)"
        ):
            folder.settle()
    else:
        code = (
            "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); "
            "print(1, flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(folder.root / LOCAL)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            with pytest.raises(StateLocked):
                folder.settle()
            place = LocalBackend(folder.root / LOCAL)
            with pytest.raises(
                StateLocked, match="a running process on this machine holds the lock"
            ):
                unlock(
                    place,
                    folder=folder.stack,
                    state_dir=folder.root,
                    caller=folder.state._aws,
                    force="x",
                )
    assert folder.local == state_of()
    assert KEY not in folder.objects


def test_while_it_moves_a_local_state_is_locked_as_terraform_locks_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    folder.local = state_of()
    folder.settings("s3")
    tries: list[int] = []
    code = (
        f"import fcntl; f=open({str(folder.root / LOCAL)!r},'a'); "
        "fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)"
    )
    write = S3Backend.write

    def wait_and_write(self: S3Backend, *arguments: Any, **options: Any) -> None:
        tries.append(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, check=False
            ).returncode
        )
        write(self, *arguments, **options)

    monkeypatch.setattr(S3Backend, "write", wait_and_write)
    folder.settle()
    assert tries == [1]


def test_trouble_with_the_bucket_is_told_before_anything_moves(folder: Folder):
    folder.local = state_of()
    folder.settings("s3", bucket="nowhere")
    with pytest.raises(BackendMissing, match="terradask init --state s3"):
        folder.settle()
    folder.settings("s3")
    folder.s3.region = "eu-west-1"
    with pytest.raises(InvalidInput, match=r"eu-west-1, workspace\.region us-east-1"):
        folder.settle()
    folder.s3.region = "us-east-1"
    folder.s3.denied = {"GetObject"}
    with pytest.raises(AccessDenied) as caught:
        folder.settle()
    assert caught.value.action == "s3:GetObject"
    assert folder.local == state_of()
    folder.s3.denied = {"GetBucketVersioning"}
    folder.s3.versioned = False
    assert folder.objects == {}
    folder.settle()
    assert not [text for text in folder.told if "warning" in text]
    folder.s3.denied = set()
    folder.settle()
    assert [text for text in folder.told if "keeps no old versions" in text]


def test_a_bucket_of_somebody_elses_is_not_fallen_for(folder: Folder):
    folder.settings("s3")
    folder.s3.owners[BUCKET] = THEM
    with pytest.raises(AwsError, match=BUCKET):
        folder.settle()
    folder.s3.taken = {"ours"}
    with pytest.raises(AwsError, match=r"bucket under \[state\] in terradask\.toml"):
        make_state_bucket(
            folder.state._aws,
            "ours",
            tags={},
            kms_key_arn=None,
            own_name=False,
            warn=folder.told.append,
        )


@pytest.fixture
def theirs(folder: Folder) -> str:
    """A bucket of another account, which lets everybody in, with a state in it."""
    folder.s3.buckets["theirs"] = {KEY: state_of()}
    folder.s3.owners["theirs"] = THEM
    return "theirs"


def test_a_bucket_that_the_settings_name_is_of_the_callers_account(folder: Folder, theirs: str):
    folder.local = state_of(9)
    folder.settings("s3", bucket=theirs)
    with pytest.raises(AwsError, match="TERRADASK_STATE__BUCKET_OWNER") as refused:
        folder.settle()
    assert (refused.value.given, refused.value.allowed) == (
        theirs,
        f"a bucket of account {ACCOUNT}",
    )
    assert folder.s3.calls == ["HeadBucket", "HeadBucket"]
    with pytest.raises(AwsError, match="TERRADASK_STATE__BUCKET_OWNER"):
        make_state_bucket(
            folder.state._aws, theirs, tags={}, kms_key_arn=None, own_name=False, warn=print
        )
    assert set(folder.s3.calls) == {"HeadBucket"}
    assert folder.local == state_of(9)


def test_whoever_works_here_can_say_that_another_accounts_bucket_is_theirs(
    folder: Folder, theirs: str
):
    folder.environ["TERRADASK_STATE__BUCKET_OWNER"] = THEM
    folder.settings("s3", bucket=theirs)
    folder.settle()
    assert folder.state.place().read() is not None
    # Back again: it is known whose the former place was.
    folder.settings("local")
    folder.settle()
    assert folder.local == state_of()
    folder.settings("s3", bucket="nowhere")
    with pytest.raises(BackendMissing, match=f"with credentials of account {THEM}"):
        folder.settle()
    # And in an account where there is no such bucket, this one makes none.
    with pytest.raises(BackendMissing, match=f"with credentials of account {THEM}"):
        make_state_bucket(
            folder.state._aws,
            "nowhere",
            tags={},
            kms_key_arn=None,
            own_name=False,
            owner=THEM,
            warn=print,
        )
    assert "CreateBucket" not in folder.s3.calls


@pytest.mark.parametrize("owner", [None, ACCOUNT, THEM])
def test_no_note_leads_to_a_state_of_somebody_elses(folder: Folder, theirs: str, owner: str | None):
    note = {"account": ACCOUNT, "region": "us-east-1", "bucket": theirs, "key": KEY}
    path = folder.root / ".terradask/state/network.place.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(note if owner is None else {**note, "owner": owner}))
    with pytest.raises(AwsError, match=r"network\.place\.json"):
        folder.settle()
    assert folder.local is None
    assert set(folder.s3.calls) == {"HeadBucket"}


@pytest.mark.parametrize("trusted", ["BUCKET_OWNER", "KMS_KEY_ARN"])
def test_no_strangers_key_that_the_settings_file_names_encrypts_the_state(
    folder: Folder, trusted: str
):
    key = f"arn:aws:kms:us-east-1:{THEM}:key/k"
    folder.local = state_of()
    folder.settings("s3", bucket="ours", kms_key_arn=key)
    folder.s3.buckets["ours"] = {}
    with pytest.raises(InvalidInput, match="TERRADASK_STATE__KMS_KEY_ARN") as refused:
        folder.settle()
    assert (key in str(refused.value.given), folder.s3.calls) == (True, [])
    folder.settings("s3", bucket="ours", kms_key_arn=key.replace(THEM, ACCOUNT))
    folder.settle()
    folder.settings("s3", bucket="ours", kms_key_arn=key)
    said = {"BUCKET_OWNER": THEM, "KMS_KEY_ARN": key}[trusted]
    if trusted == "BUCKET_OWNER":
        folder.s3.owners["ours"] = THEM
    folder.environ[f"TERRADASK_STATE__{trusted}"] = said
    folder.settle()
