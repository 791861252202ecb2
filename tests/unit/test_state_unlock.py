"""`terradask unlock`: whose lock it is, and what proves that its holder is dead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from terradask._common.processes import this_user
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.unlock import unlock
from terradask.errors import InvalidInput, StateLocked

from .network_folders import ACCOUNT, BUCKET, KEY, Folder, refused


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def _lock(folder: Folder, who: str, since: str = "2026-11-20T05:00:02Z") -> None:
    lock = {
        "ID": "one",
        "Who": who,
        "Created": since,
        "Operation": "OperationTypeApply",
        "Path": f"{BUCKET}/{KEY}",
    }
    folder.objects[f"{KEY}.tflock"] = json.dumps(lock).encode()


def _unlock(folder: Folder, force: str | None = None) -> Any:
    state = folder.state
    return unlock(
        state.place(),
        folder=folder.stack,
        state_dir=folder.root / ".terradask",
        caller=state._aws,
        force=force,
    )


def test_unlock_breaks_no_lock_without_proof_and_says_how_to_force(folder: Folder):
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
    (record,) = [
        json.loads(body) for key, body in folder.objects.items() if key.startswith("unlocks/")
    ]
    assert (
        record
        == json.loads((folder.root / ".terradask/unlocks.jsonl").read_text())
        == broken.as_dict()
    )
    assert record["caller_arn"] == f"arn:aws:iam::{ACCOUNT}:user/me"


def test_unlock_breaks_the_lock_of_a_command_that_was_killed_here(folder: Folder):
    with FolderLock(folder.stack, limit_seconds=0) as lock:
        lock.note("terraform apply", 4_000_000)
    beside = folder.stack.with_name(".network.lock")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "started_at": 1_795_150_800.0}))
    _lock(folder, this_user(), "2026-11-20T05:00:02Z")
    broken = _unlock(folder)
    assert broken is not None
    assert not broken.forced
    assert (
        broken.reason
        == "terraform apply (process 4000000), which took it on this machine, was killed"
    )
    assert [key.partition("/")[0] for key in folder.objects] == ["unlocks"]
    with FolderLock(folder.stack, limit_seconds=0) as lock:
        assert lock.killed is None


@pytest.mark.parametrize("may_write", [True, False])
def test_a_lock_that_the_next_command_breaks_is_written_down_too(
    folder: Folder, may_write: bool, monkeypatch: pytest.MonkeyPatch
):
    _lock(folder, this_user(), "2026-11-20T05:00:02Z")
    found = folder.state.place().lock()
    assert found is not None
    put = folder.s3.put_object

    def checked(**request: Any) -> None:
        if request["Key"].startswith("unlocks/") and not may_write:
            raise refused("PutObject", "AccessDenied", 403)
        put(**request)

    monkeypatch.setattr(folder.s3, "put_object", checked)
    folder.states.break_lock("network", found, "terraform apply (process 4000000) was killed")
    (line,) = (folder.root / ".terradask/unlocks.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["stack"], record["lock_id"], record["forced"]) == ("network", "one", False)
    assert "process 4000000" in record["reason"]
    assert [key.partition("/")[0] for key in folder.objects] == (["unlocks"] if may_write else [])
    assert any("is recorded only in" in text for text in folder.told) is not may_write


def test_unlock_of_another_writers_object(folder: Folder):
    folder.objects[f"{KEY}.tflock"] = b"not terraform's"
    with pytest.raises(StateLocked, match="locked by an unknown user") as caught:
        _unlock(folder)
    assert caught.value.lock_id
    assert _unlock(folder, force=caught.value.lock_id).holder is None
