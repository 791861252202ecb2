"""What a forked child leaves to its parent, of locks and of connections to AWS."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from terradask._aws.session import Aws
from terradask._terraform.folder_lock import FolderLock


def _child(act: Callable[[], None]) -> int:
    """Fork a child that acts, and ends with 0 if nothing was raised."""
    if (child := os.fork()) == 0:
        signal.alarm(60)
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return child


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_that_lives_on_keeps_no_lock_of_a_folder(tmp_path: Path) -> None:
    ours, theirs = (FolderLock(tmp_path / "etl", limit_seconds=1.0) for _ in range(2))
    ready, go = os.pipe()
    with ours:
        child = _child(lambda: os.read(ready, 1) and None)
        assert _ended(_child(lambda: _is_free(theirs, free=False))) == 0
    try:
        _is_free(theirs, free=True)
    finally:
        os.write(go, b".")
        assert _ended(child) == 0
        os.close(ready)
        os.close(go)


def _is_free(lock: FolderLock, *, free: bool) -> None:
    from terradask.errors import FolderBusy

    try:
        with lock:
            assert free
    except FolderBusy:
        assert not free


def test_a_child_connects_to_aws_by_clients_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    aws = Aws("us-east-1")
    ours = aws.client("sts")

    def act() -> None:
        assert aws.client("sts") is not ours

    with aws._lock:
        # As a thread of the parent's may, which the child doesn't have.
        child = _child(act)
    assert _ended(child) == 0
    assert aws.client("sts") is ours
