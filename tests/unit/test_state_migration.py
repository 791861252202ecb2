"""The network's state moves with the settings, and none is ever lost: here with an S3 in memory that stops answering at any request."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._aws.translation import typed_error
from terradask._common.processes import this_user
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.bucket import make_state_bucket
from terradask._terraform.state.local import LocalBackend
from terradask._terraform.state.migrate import NetworkState, owners_of
from terradask._terraform.state.s3 import S3Backend
from terradask._terraform.state.unlock import unlock
from terradask.cli import _init
from terradask.errors import AccessDenied, BackendMissing, BucketTaken, InvalidInput, StateConflict, StateLocked, StateNotMoved
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import LockFile, NetworkLock, write_lock

ACCOUNT = "123456789012"
BUCKET = f"terradask-state-{ACCOUNT}-us-east-1"
KEY = "workspaces/default/network.tfstate"
LOCAL = Path(".terradask/state/network.tfstate")


class Killed(BaseException):
    """The process ended here."""


class MemoryS3:
    """As much of S3 as a state needs."""

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, bytes]] = {BUCKET: {}}
        self.calls: list[str] = []
        self.dies_at: int | None = None
        self.versioned = True
        self.region = "us-east-1"
        self.denied: set[str] = set()
        self.owner = ACCOUNT
        self.taken: set[str] = set()

    def _begin(self, operation: str, bucket: str, *, missing: str = "NoSuchBucket") -> dict[str, bytes]:
        if self.dies_at is not None and len(self.calls) >= self.dies_at:
            raise Killed
        self.calls.append(operation)
        if operation in self.denied:
            raise _refused(operation, "AccessDenied", 403)
        if bucket not in self.buckets:
            raise _refused(operation, missing, 404)
        return self.buckets[bucket]

    def head_bucket(self, **request: str) -> dict[str, Any]:
        self._begin("HeadBucket", request["Bucket"], missing="404")
        if request.get("ExpectedBucketOwner", self.owner) != self.owner:
            raise _refused("HeadBucket", "403", 403)
        return {"BucketRegion": self.region, "ResponseMetadata": {"HTTPHeaders": {}}}

    def create_bucket(self, **request: Any) -> None:
        self.calls.append("CreateBucket")
        if request["Bucket"] in self.taken:
            raise _refused("CreateBucket", "BucketAlreadyExists", 409)
        self.buckets[request["Bucket"]] = {}

    def get_bucket_versioning(self, **request: str) -> dict[str, Any]:
        self._begin("GetBucketVersioning", request["Bucket"])
        return {"Status": "Enabled"} if self.versioned else {}

    def get_object(self, **request: str) -> dict[str, Any]:
        objects, key = self._begin("GetObject", request["Bucket"]), request["Key"]
        if key not in objects:
            raise _refused("GetObject", "NoSuchKey", 404)
        return {"Body": io.BytesIO(objects[key]), "ETag": _etag(objects[key])}

    def put_object(self, **request: Any) -> None:
        objects, key = self._begin("PutObject", request["Bucket"]), request["Key"]
        there = None if key not in objects else _etag(objects[key])
        if ("IfNoneMatch" in request and there is not None) or ("IfMatch" in request and there != request["IfMatch"]):
            raise _refused("PutObject", "PreconditionFailed", 412)
        objects[key] = request["Body"]

    def copy_object(self, **request: Any) -> None:
        objects = self._begin("CopyObject", request["Bucket"])
        objects[request["Key"]] = objects[request["CopySource"]["Key"]]

    def delete_object(self, **request: str) -> None:
        self._begin("DeleteObject", request["Bucket"]).pop(request["Key"], None)


def _refused(operation: str, code: str, status: int) -> Exception:
    """Return what a client of `Aws` raises."""
    error = ClientError({"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)
    return typed_error(error, "us-east-1") or error


def _etag(content: bytes) -> str:
    return f'"{hash(content)}"'


def _state(serial: int = 3, lineage: str = "one", *, resources: int = 2, account: str = ACCOUNT) -> bytes:
    instances = [
        {"mode": "managed", "type": "aws_vpc", "name": f"n{i}", "instances": [{"attributes": {"id": f"vpc-{i}", "arn": _arn(account)}}]}
        for i in range(resources)
    ]
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "outputs": {}, "resources": instances}, indent=2).encode()


def _arn(account: str) -> str:
    return f"arn:aws:ec2:us-east-1:{account}:vpc/vpc-1"


class Folder:
    """A workspace's folder on one machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.s3 = MemoryS3()
        self.told: list[str] = []
        self.stack = root / "cdktf.out/stacks/network"
        self.settings("local")

    def settings(self, backend: str, **more: Any) -> None:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
        (self.root / "terradask.toml").write_text(f'[state]\nbackend = "{backend}"\nlock_timeout_seconds = 0\n{lines}')

    @property
    def state(self) -> NetworkState:
        aws = Aws("us-east-1")
        aws._clients["s3"] = self.s3
        aws._identity = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me"}
        return NetworkState(load_settings(self.root, environ={}), aws, progress=lambda event: self.told.append(getattr(event, "text", "")))

    def settle(self) -> None:
        with FolderLock(self.stack, limit_seconds=0) as lock:
            self.state.settle(lock, folder=self.stack)

    def settle_killed(self) -> bool:
        """Settle with a kill in the middle, and return whether there was one: what a process leaves that had no time to do anything."""
        beside = self.stack.with_name(".network.lock")
        left = "{}"

        class Noticing(FolderLock):
            def note(self, command: str, pid: int | None = None) -> None:
                nonlocal left
                super().note(command, pid)
                if pid is not None:
                    left = json.dumps({**json.loads(beside.read_text()), "child": 4_000_000})

        try:
            with Noticing(self.stack, limit_seconds=0) as lock:
                self.state.settle(lock, folder=self.stack)
        except Killed:
            self.s3.dies_at = None
            beside.write_text(left)
            return True
        self.s3.dies_at = None
        return False

    @property
    def local(self) -> bytes | None:
        path = self.root / LOCAL
        return path.read_bytes() if path.exists() and path.stat().st_size else None

    @local.setter
    def local(self, content: bytes) -> None:
        path = self.root / LOCAL
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    @property
    def objects(self) -> dict[str, bytes]:
        return self.s3.buckets[BUCKET]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_local_state_asks_nobody(folder: Folder):
    folder.local = _state()
    folder.settle()
    folder.state.refuse_unmoved()
    assert folder.s3.calls == []
    assert sorted(p.name for p in (folder.root / ".terradask/state").iterdir()) == ["network.tfstate"]


def test_it_moves_to_s3_and_back_byte_for_byte_and_leaves_a_copy(folder: Folder):
    folder.local = _state()
    folder.settings("s3")
    with pytest.raises(StateNotMoved, match="terradask plan network"):
        folder.state.refuse_unmoved()
    folder.settle()
    assert folder.objects == {KEY: _state()}
    assert folder.local is None
    assert (folder.root / f"{LOCAL}.migrated").read_bytes() == _state()
    assert any(text.startswith("moving the network's state (serial 3) from ") for text in folder.told)
    folder.state.refuse_unmoved()
    folder.settle()
    folder.objects[KEY] = _state(9)
    folder.settings("local")
    with pytest.raises(StateNotMoved, match=f"s3://{BUCKET}"):
        folder.state.refuse_unmoved()
    folder.settle()
    assert folder.local == _state(9)
    assert folder.objects == {f"{KEY}.migrated": _state(9)}
    calls = len(folder.s3.calls)
    folder.settle()
    folder.state.refuse_unmoved()
    assert len(folder.s3.calls) == calls
    # Once more: the first copy stays beside the second.
    folder.settings("s3")
    folder.settle()
    assert (folder.root / f"{LOCAL}.migrated").read_bytes() == _state()
    assert (folder.root / f"{LOCAL}.migrated-1").read_bytes() == _state(9)


@pytest.mark.parametrize(("state", "moves"), [(None, False), (_state(resources=0), False), (_state(), True)])
def test_init_names_the_command_that_moves_a_deployed_networks_state(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: bytes | None, moves: bool
):
    if state is not None:
        folder.local = state
    monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)
    monkeypatch.setattr(_init, "_keep_state_in_s3", lambda path: (BUCKET, True))
    _init.init(["--out", str(folder.root), "--state", "s3"], standalone_mode=False)
    said = capsys.readouterr().err
    assert ("next: terradask plan network: it moves the network's state" in said) is moves
    assert ("next: terradask doctor, then terradask plan\n" in said) is not moves


def test_it_moves_from_one_bucket_to_another(folder: Folder):
    folder.settings("s3")
    folder.settle()
    folder.objects[KEY] = _state()
    folder.s3.buckets["ours"] = {}
    folder.settings("s3", bucket="ours")
    folder.settle()
    assert folder.s3.buckets["ours"] == {KEY: _state()}
    assert list(folder.objects) == [f"{KEY}.migrated"]


@pytest.mark.parametrize("back", [False, True], ids=["to S3", "back"])
def test_killed_at_any_request_the_next_command_goes_on_and_nothing_is_lost(tmp_path: Path, back: bool):
    kills = 0
    for number in range(100):
        root = tmp_path / str(number)
        root.mkdir()
        folder = Folder(root)
        folder.local = _state()
        folder.settings("s3")
        if back:
            folder.settle()
            folder.settings("local")
        folder.s3.dies_at = len(folder.s3.calls) + number
        killed = folder.settle_killed()
        kills += killed
        everywhere = [folder.local, folder.objects.get(KEY), *folder.objects.values()]
        assert _state() in everywhere
        folder.settle()
        # In one place alone, with a copy, and unlocked.
        assert [folder.local, folder.objects.get(KEY)] == ([_state(), None] if back else [None, _state()])
        assert not [key for key in folder.objects if key.endswith(".tflock")]
        if not killed:
            break
    assert kills > 5


def test_killed_after_the_copy_the_local_file_is_only_set_aside(folder: Folder):
    folder.local = _state()
    folder.objects[KEY] = _state()
    folder.settings("s3")
    folder.settle()
    assert folder.local is None
    # The lock alone was written.
    assert folder.s3.calls.count("PutObject") == 1
    assert folder.objects == {KEY: _state()}


@pytest.mark.parametrize(
    ("local", "remote", "problem"),
    [
        (_state(3, "one"), _state(1, "two"), "different lineages"),
        (_state(3, "one"), _state(4, "one"), "newer"),
        (_state(3, "one"), _state(4, "one", resources=0), "newer"),
        (_state(3, "one"), _state(3, "one", resources=1), "same serial"),
    ],
)
def test_of_two_states_neither_is_overwritten_without_being_the_older_of_one_line(
    folder: Folder, local: bytes, remote: bytes, problem: str
):
    folder.local, folder.objects[KEY] = local, remote
    folder.settings("s3")
    with pytest.raises(StateConflict, match=problem) as caught:
        folder.settle()
    assert folder.local == local
    assert folder.objects == {KEY: remote}
    for fact in ("serial 3, lineage one", "lineage " + json.loads(remote)["lineage"], str(LOCAL), f"s3://{BUCKET}/{KEY}"):
        assert fact in str(caught.value)


@pytest.mark.parametrize(
    ("local", "remote", "stays"),
    [
        (_state(9, "one"), _state(4, "one"), _state(9, "one")),
        # A state without resources stands in nobody's way.
        (_state(3, "one"), _state(8, "two", resources=0), _state(3, "one")),
        (_state(3, "one", resources=0), _state(1, "two"), _state(1, "two")),
        (_state(3, "one", resources=0), None, _state(3, "one", resources=0)),
    ],
)
def test_the_newer_of_one_line_and_the_one_with_resources_stay(folder: Folder, local: bytes, remote: bytes | None, stays: bytes):
    folder.local = local
    folder.objects.update({} if remote is None else {KEY: remote})
    folder.settings("s3")
    folder.settle()
    assert folder.objects == {KEY: stays}
    assert folder.local is None
    assert (folder.root / f"{LOCAL}.migrated").read_bytes() == local


@pytest.mark.parametrize("place", ["local", "s3"])
def test_a_state_of_another_network_is_neither_used_nor_moved(folder: Folder, place: str):
    theirs = _state().replace(b'"id": "vpc-0"', b'"id": "vpc-0", "tags": {"terradask:workspace": "other"}')
    if place == "local":
        folder.local = theirs
    else:
        folder.objects[KEY] = theirs
    folder.settings("s3")
    with pytest.raises(StateConflict, match="of workspace other, this is default"):
        folder.settle()
    assert [folder.local, folder.objects.get(KEY)].count(theirs) == 1


def test_the_place_of_another_workspace_is_not_where_this_ones_state_was(folder: Folder):
    folder.settings("s3")
    folder.settle()
    folder.objects[KEY] = _state()
    toml = folder.root / "terradask.toml"
    toml.write_text(toml.read_text() + '[workspace]\nname = "green"\n')
    folder.settle()
    folder.state.refuse_unmoved()
    assert folder.objects == {KEY: _state()}


def test_the_cdktf_app_needs_no_credentials_once_answers_are_locked(folder: Folder):
    folder.settings("s3")
    lock = LockFile(network=NetworkLock(account=ACCOUNT, zones={"us-east-1a": 0}, image_ids={}))
    write_lock(folder.root / "terradask.lock.json", lock)
    state = folder.state
    state._aws._identity = None
    state._aws._clients = {"sts": None}
    state.refuse_unmoved()


def test_a_state_of_another_account_is_refused(folder: Folder):
    folder.objects[KEY] = _state(account="999999999999")
    folder.settings("s3")
    with pytest.raises(StateConflict, match="of account 999999999999, this is 123456789012"):
        folder.settle()
    assert owners_of(json.loads(_state())) == {"account": {ACCOUNT}, "region": {"us-east-1"}, "workspace": set()}


@pytest.mark.parametrize("side", ["target", "source"])
def test_it_is_not_moved_under_the_hands_of_somebody_who_works_on_it(folder: Folder, side: str):
    folder.local = _state()
    folder.settings("s3")
    if side == "target":
        lock = {"ID": "theirs", "Who": "ana@laptop", "Created": "2026-11-20T05:00:00Z", "Operation": "OperationTypeApply"}
        folder.objects[f"{KEY}.tflock"] = json.dumps(lock).encode()
        with pytest.raises(StateLocked, match=r"locked by ana@laptop since 2026-11-20T05:00:00Z \(apply\)"):
            folder.settle()
    else:
        code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", code, str(folder.root / LOCAL)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            with pytest.raises(StateLocked):
                folder.settle()
            place = LocalBackend(folder.root / LOCAL)
            with pytest.raises(StateLocked, match="a process of this machine holds the file"):
                unlock(place, folder=folder.stack, state_dir=folder.root, caller=folder.state._aws, force="x")
    assert folder.local == _state()
    assert KEY not in folder.objects


def test_while_it_moves_a_local_state_is_locked_as_terraform_locks_it(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    folder.local = _state()
    folder.settings("s3")
    tries: list[int] = []
    code = f"import fcntl; f=open({str(folder.root / LOCAL)!r},'a'); fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)"
    write = S3Backend.write

    def wait_and_write(self: S3Backend, *arguments: Any, **options: Any) -> None:
        tries.append(subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode)
        write(self, *arguments, **options)

    monkeypatch.setattr(S3Backend, "write", wait_and_write)
    folder.settle()
    assert tries == [1]


def test_trouble_with_the_bucket_is_told_before_anything_moves(folder: Folder):
    folder.local = _state()
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
    assert folder.local == _state()
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
    folder.s3.owner = "999999999999"
    with pytest.raises(BucketTaken, match=BUCKET):
        folder.settle()
    folder.s3.taken = {"ours"}
    with pytest.raises(BucketTaken, match=r"bucket under \[state\] in terradask\.toml"):
        make_state_bucket(folder.state._aws, "ours", tags={}, kms_key_arn=None, own_name=False, warn=folder.told.append)


# ---- unlock ---------------------------------------------------------------------------------------------------------


def _lock(folder: Folder, who: str, since: str = "2026-11-20T05:00:02Z") -> None:
    lock = {"ID": "one", "Who": who, "Created": since, "Operation": "OperationTypeApply", "Path": f"{BUCKET}/{KEY}"}
    folder.objects[f"{KEY}.tflock"] = json.dumps(lock).encode()


def _unlock(folder: Folder, force: str | None = None) -> Any:
    state = folder.state
    return unlock(state.place(), folder=folder.stack, state_dir=folder.root / ".terradask", caller=state._aws, force=force)


def test_unlock_breaks_no_lock_without_proof_and_says_how_to_force(folder: Folder):
    folder.settings("s3")
    assert _unlock(folder) is None
    _lock(folder, "ana@laptop")
    with pytest.raises(StateLocked, match="terradask unlock network --force one") as caught:
        _unlock(folder)
    assert "ask ana@laptop" in str(caught.value)
    with pytest.raises(InvalidInput, match="another id"):
        _unlock(folder, force="two")
    assert list(folder.objects) == [f"{KEY}.tflock"]
    broken = _unlock(folder, force="one")
    assert (broken.forced, broken.holder, broken.lock_id) == (True, "ana@laptop", "one")
    assert f"{KEY}.tflock" not in folder.objects
    (record,) = [json.loads(body) for key, body in folder.objects.items() if key.startswith("unlocks/")]
    assert record == json.loads((folder.root / ".terradask/unlocks.jsonl").read_text()) == broken.as_dict()
    assert record["caller_arn"] == f"arn:aws:iam::{ACCOUNT}:user/me"


def test_unlock_breaks_the_lock_of_a_command_that_was_killed_here(folder: Folder):
    folder.settings("s3")
    with FolderLock(folder.stack, limit_seconds=0) as lock:
        lock.note("terraform apply", 4_000_000)
    beside = folder.stack.with_name(".network.lock")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "started_at": 1_795_150_800.0}))
    _lock(folder, this_user(), "2026-11-20T05:00:02Z")
    broken = _unlock(folder)
    assert broken is not None
    assert not broken.forced
    assert broken.reason == "terraform apply (process 4000000), which took it on this machine, was killed"
    assert [key.partition("/")[0] for key in folder.objects] == ["unlocks"]
    with FolderLock(folder.stack, limit_seconds=0) as lock:
        assert lock.killed is None


@pytest.mark.parametrize("may_write", [True, False])
def test_a_lock_that_the_next_command_breaks_is_written_down_too(folder: Folder, may_write: bool, monkeypatch: pytest.MonkeyPatch):
    folder.settings("s3")
    with FolderLock(folder.stack, limit_seconds=0) as lock:
        lock.note("terraform apply", 4_000_000)
    beside = folder.stack.with_name(".network.lock")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "started_at": 1_795_150_800.0}))
    _lock(folder, this_user(), "2026-11-20T05:00:02Z")
    put = folder.s3.put_object

    def checked(**request: Any) -> None:
        if request["Key"].startswith("unlocks/") and not may_write:
            raise _refused("PutObject", "AccessDenied", 403)
        put(**request)

    monkeypatch.setattr(folder.s3, "put_object", checked)
    folder.settle()
    (line,) = (folder.root / ".terradask/unlocks.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["stack"], record["lock_id"], record["forced"]) == ("network", "one", False)
    assert "process 4000000" in record["reason"]
    assert [key.partition("/")[0] for key in folder.objects] == (["unlocks"] if may_write else [])
    assert any("unlocks.jsonl alone" in text for text in folder.told) is not may_write


def test_unlock_of_another_writers_object(folder: Folder):
    folder.settings("s3")
    folder.objects[f"{KEY}.tflock"] = b"not terraform's"
    with pytest.raises(StateLocked, match="locked by somebody") as caught:
        _unlock(folder)
    assert caught.value.lock_id
    assert _unlock(folder, force=caught.value.lock_id).holder is None
