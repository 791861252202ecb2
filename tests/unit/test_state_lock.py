"""Who holds a state's lock, and what proves that nobody does any more."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask._common.processes import process_started, this_machine, this_user
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state import lock
from terradask._terraform.state.lock import (
    LockInfo,
    locked_error,
    may_hold,
    proof_of_end,
    proof_of_loss,
    run_past_lock,
)
from terradask.errors import StateLocked

DEAD = 4_000_000
NOW = 1_800_000_000.0
SINCE = "2027-01-15T08:00:02.5Z"
MINE = this_user()


def _lock(**fields: str | None) -> LockInfo:
    return LockInfo(
        **{
            "id": "one",
            "holder": MINE,
            "since": SINCE,
            "operation": "OperationTypeApply",
            "path": "b/k",
            **fields,
        }
    )


def _note(**fields: Any) -> dict[str, Any]:
    return {
        **this_machine(),
        "child": DEAD,
        "child_started": "7",
        "command": "terraform apply",
        "started_at": NOW,
        **fields,
    }


def test_a_lock_is_read_from_its_object_and_from_what_terraform_prints():
    content = json.dumps(
        {
            "ID": "one",
            "Operation": "OperationTypeApply",
            "Who": MINE,
            "Created": SINCE,
            "Path": "b/k",
        }
    )
    lock = LockInfo.from_json(content.encode())
    assert lock == _lock()
    assert lock.seconds == NOW + 2.5
    assert lock.describe() == f"locked by {MINE} since 2027-01-15T08:00:02Z (apply)"
    assert lock.describe("08:00") == f"locked by {MINE} since 08:00 (apply)"
    assert LockInfo.from_text(
        "  ID:  one\n  Created:   2027-01-15 08:00:02.123456789 +0000 UTC\n"
    ).seconds == pytest.approx(NOW + 2.123456)


def test_what_another_program_wrote_is_a_lock_too_with_an_id_of_its_own():
    first, second = LockInfo.from_json(b"mine!"), LockInfo.from_json(b"[1]")
    assert first.id
    assert first.id != second.id
    assert first.describe() == "locked by an unknown user since an unknown time"
    assert proof_of_end(first, _note()) is None


@pytest.mark.parametrize(
    ("lock", "note", "proven"),
    [
        (_lock(), _note(), True),
        (_lock(), None, False),
        (_lock(id=None), _note(), False),
        (_lock(since="some time"), _note(), False),
        (_lock(holder="ana@laptop"), _note(), False),
        (_lock(), _note(host="laptop"), False),
        (_lock(), _note(user="ana"), False),
        (_lock(), _note(machine_id="another"), False),
        (_lock(), _note(started_at=NOW - 60), False),
        (_lock(), _note(started_at=NOW + 60), False),
        # Somebody else's process has the number by now.
        (_lock(), _note(child=os.getpid()), True),
        (_lock(), _note(child=os.getpid(), child_started=process_started(os.getpid())), False),
        # When that was started couldn't be told.
        (_lock(), _note(child=os.getpid(), child_started=None), False),
        # The number means nothing once the machine was started anew.
        (
            _lock(),
            _note(child=os.getpid(), child_started=process_started(os.getpid()), boot_id="earlier"),
            True,
        ),
    ],
)
def test_a_lock_is_void_only_when_its_process_is_known_to_have_ended(
    lock: LockInfo, note: dict[str, Any] | None, proven: bool
):
    assert (proof_of_end(lock, note) is not None) is proven


def _ended(**fields: Any) -> dict[str, Any]:
    return {**_note(), "ended_at": NOW + 3, **fields}


@pytest.mark.parametrize(
    ("lock", "ended", "proven"),
    [
        (_lock(), _ended(), True),
        (_lock(), None, False),
        (_lock(id=None), _ended(), False),
        (_lock(since=None), _ended(), False),
        (_lock(holder="ana@laptop"), _ended(), False),
        # Another command's, such as our own move of a state.
        (_lock(operation="OperationTypePlan"), _ended(), False),
        (_lock(operation="OperationTypeInvalid"), _ended(), False),
        (_lock(operation=None), _ended(), False),
        # Taken before that command was started, or after it had ended.
        (_lock(), _ended(started_at=NOW + 2.9), True),
        (_lock(), _ended(started_at=NOW + 3.1), False),
        (_lock(), _ended(ended_at=NOW + 2.4), False),
    ],
)
def test_a_lock_is_a_commands_own_only_when_it_was_taken_while_that_ran(
    lock: LockInfo, ended: dict[str, Any] | None, proven: bool
):
    assert (proof_of_loss(lock, ended) is not None) is proven


def test_a_lock_that_another_running_terraform_may_hold_is_nobodys_own(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(
        lock, "may_hold", lambda path, *, earliest, latest: [4711] if path == "b/k" else []
    )
    assert proof_of_loss(_lock(), _ended()) is None
    assert proof_of_loss(_lock(path="b/another"), _ended())


def _refused(
    folder_lock: FolderLock, lock: LockInfo, times: int, met: list[LockInfo]
) -> Callable[[int], str]:
    """A command that meets a lock so often; what S3 then has is in `met`, also where it hides that
    from Terraform (a lock without an id).
    """
    left = [times]

    def run(seconds: int) -> str:
        folder_lock.note("terraform apply", DEAD)
        since = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        folder_lock.note_end(0 if not left[0] else 1)
        if not left[0]:
            return "done"
        left[0] -= 1
        met.append(replace(lock, since=since, id="one"))
        shown = met[-1] if lock.id else LockInfo()
        raise locked_error(shown, {"verb": "apply", "folder": "/w/etl"})

    return run


@pytest.mark.parametrize(
    ("times", "removed", "ends"), [(0, 0, True), (1, 1, True), (3, 3, True), (4, 3, False)]
)
@pytest.mark.parametrize("lock_id", ["one", None])
def test_a_command_goes_on_past_its_own_lock(
    tmp_path: Path, times: int, removed: int, ends: bool, lock_id: str | None
):
    gone: list[str] = []
    met: list[LockInfo] = []
    with FolderLock(tmp_path / "etl", limit_seconds=0) as folder_lock:

        def go_on() -> str:
            return run_past_lock(
                _refused(folder_lock, replace(_lock(), id=lock_id), times, met),
                limit_seconds=0,
                folder_lock=folder_lock,
                break_lock=lambda lock, proof: gone.append(str(lock.id)),
                find_lock=lambda: met[-1],
                on_wait=lambda text: None,
            )

        if ends:
            assert go_on() == "done"
        else:
            with pytest.raises(StateLocked):
                go_on()
    assert gone == ["one"] * removed


def test_a_lock_that_is_gone_when_it_is_looked_for_is_in_no_ones_way(tmp_path: Path):
    unknown = replace(_lock(), id=None)
    with FolderLock(tmp_path / "etl", limit_seconds=0) as folder_lock:
        done = run_past_lock(
            _refused(folder_lock, unknown, 2, []),
            limit_seconds=0,
            folder_lock=folder_lock,
            break_lock=lambda lock, proof: pytest.fail(f"{lock} is not the command's"),
            find_lock=lambda: None,
            on_wait=lambda text: None,
        )
    assert done == "done"


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("2026-11-20 11:42:16.278941143 +0000 UTC", "2026-11-20T11:42:16Z"),
        ("2026-11-20T11:42:16.278941143Z", "2026-11-20T11:42:16Z"),
        ("yesterday", "yesterday"),
        (None, "an unknown time"),
    ],
)
def test_a_lock_is_told_in_one_form_whoever_tells_of_it(since: str | None, shown: str):
    assert (
        LockInfo("id", "ana@laptop", since, "OperationTypeApply").describe()
        == f"locked by ana@laptop since {shown} (apply)"
    )


@pytest.fixture(params=["terraform", "tofu", "tofu-1.11.5"])
def other(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A running program called like these, in a folder that is initialised for b/k."""
    (tmp_path / ".terraform").mkdir()
    backend = {"backend": {"type": "s3", "config": {"bucket": "b", "key": "k"}}}
    (tmp_path / ".terraform/terraform.tfstate").write_text(json.dumps(backend))
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [request.param, "-c", code],
        executable=sys.executable,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process


def test_a_lock_that_a_terraform_of_another_checkout_may_hold_is_not_void(
    other: subprocess.Popen[str],
):
    now = time.time()
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    note = _note(started_at=now - 2)
    assert other.pid in may_hold("b/k", earliest=now - 5, latest=now + 1)
    assert proof_of_end(_lock(since=since), note) is None
    assert proof_of_end(_lock(since=since, path="b/other"), note) is not None
    # It was started after that lock was taken.
    assert proof_of_end(_lock(since="2027-01-15T08:00:02Z"), _note()) is not None


def test_a_folder_remembers_whose_command_was_killed_in_it(tmp_path: Path):
    with FolderLock(tmp_path / "etl", limit_seconds=0) as lock:
        lock.note("terraform apply", os.getpid())
    with FolderLock(tmp_path / "etl", limit_seconds=0) as lock:
        assert lock.killed is not None
        assert {name: lock.killed[name] for name in this_machine()} == dict(this_machine())
        assert lock.killed["child_started"] == process_started(os.getpid())
