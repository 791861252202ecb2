"""The network's state moves with the settings, and none is ever lost: here with an S3 in memory
that stops answering at any request.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from terradask.cli import _init
from terradask.errors import StateConflict

from .migrated_folders import BUCKET, KEY, LOCAL, Folder, state_of


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_local_state_asks_nobody(folder: Folder):
    folder.local = state_of()
    folder.settle()
    folder.state.refuse_unmoved()
    assert folder.s3.calls == []
    assert sorted(p.name for p in (folder.root / ".terradask/state").iterdir()) == [
        "network.tfstate"
    ]


def test_it_moves_to_s3_and_back_byte_for_byte_and_leaves_a_copy(folder: Folder):
    folder.local = state_of()
    folder.settings("s3")
    with pytest.raises(StateConflict, match="move it first: terradask plan network"):
        folder.state.refuse_unmoved()
    folder.settle()
    assert folder.objects == {KEY: state_of()}
    assert folder.local is None
    assert (folder.root / f"{LOCAL}.migrated").read_bytes() == state_of()
    assert any(
        text.startswith("moving the network's state (serial 3) from ") for text in folder.told
    )
    folder.state.refuse_unmoved()
    folder.settle()
    folder.objects[KEY] = state_of(9)
    folder.settings("local")
    with pytest.raises(StateConflict, match=f"s3://{BUCKET}"):
        folder.state.refuse_unmoved()
    folder.settle()
    assert folder.local == state_of(9)
    assert folder.objects == {f"{KEY}.migrated": state_of(9)}
    calls = len(folder.s3.calls)
    folder.settle()
    folder.state.refuse_unmoved()
    assert len(folder.s3.calls) == calls
    # Once more: the first copy stays beside the second.
    folder.settings("s3")
    folder.settle()
    assert (folder.root / f"{LOCAL}.migrated").read_bytes() == state_of()
    assert (folder.root / f"{LOCAL}.migrated-1").read_bytes() == state_of(9)


@pytest.mark.parametrize(
    ("state", "moves"), [(None, False), (state_of(resources=0), False), (state_of(), True)]
)
def test_init_names_the_command_that_moves_a_deployed_networks_state(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: bytes | None,
    moves: bool,
):
    if state is not None:
        folder.local = state
    monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)
    monkeypatch.setattr(_init, "keep_state_in_s3", lambda path: (BUCKET, True))
    _init.init(["--out", str(folder.root), "--state", "s3"], standalone_mode=False)
    said = capsys.readouterr().err
    assert ("next: terradask plan network: it moves the network's state" in said) is moves
    assert ("next: terradask doctor, then terradask plan\n" in said) is not moves


def test_it_moves_from_one_bucket_to_another(folder: Folder):
    folder.settings("s3")
    folder.settle()
    folder.objects[KEY] = state_of()
    folder.s3.buckets["ours"] = {}
    folder.settings("s3", bucket="ours")
    folder.settle()
    assert folder.s3.buckets["ours"] == {KEY: state_of()}
    assert list(folder.objects) == [f"{KEY}.migrated"]


@pytest.mark.parametrize("back", [False, True], ids=["to S3", "back"])
def test_killed_at_any_request_the_next_command_goes_on_and_nothing_is_lost(
    tmp_path: Path, back: bool
):
    kills = 0
    for number in range(100):
        root = tmp_path / str(number)
        root.mkdir()
        folder = Folder(root)
        folder.local = state_of()
        folder.settings("s3")
        if back:
            folder.settle()
            folder.settings("local")
        folder.s3.dies_at = len(folder.s3.calls) + number
        killed = folder.settle_killed()
        kills += killed
        everywhere = [folder.local, folder.objects.get(KEY), *folder.objects.values()]
        assert state_of() in everywhere
        folder.settle()
        # In one place alone, with a copy, and unlocked.
        assert [folder.local, folder.objects.get(KEY)] == (
            [state_of(), None] if back else [None, state_of()]
        )
        assert not [key for key in folder.objects if key.endswith(".tflock")]
        if not killed:
            break
    assert kills > 5


def test_killed_after_the_copy_the_local_file_is_only_set_aside(folder: Folder):
    folder.local = state_of()
    folder.objects[KEY] = state_of()
    folder.settings("s3")
    folder.settle()
    assert folder.local is None
    # The lock alone was written.
    assert folder.s3.calls.count("PutObject") == 1
    assert folder.objects == {KEY: state_of()}


@pytest.mark.parametrize(
    ("local", "remote", "problem"),
    [
        (state_of(3, "one"), state_of(1, "two"), "different lineages"),
        (state_of(3, "one"), state_of(4, "one"), "newer"),
        (state_of(3, "one"), state_of(4, "one", resources=0), "newer"),
        (state_of(3, "one"), state_of(3, "one", resources=1), "same serial"),
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
    for fact in (
        "serial 3, lineage one",
        "lineage " + json.loads(remote)["lineage"],
        str(LOCAL),
        f"s3://{BUCKET}/{KEY}",
    ):
        assert fact in str(caught.value)


@pytest.mark.parametrize(
    ("local", "remote", "stays"),
    [
        (state_of(9, "one"), state_of(4, "one"), state_of(9, "one")),
        # A state without resources stands in nobody's way.
        (state_of(3, "one"), state_of(8, "two", resources=0), state_of(3, "one")),
        (state_of(3, "one", resources=0), state_of(1, "two"), state_of(1, "two")),
        (state_of(3, "one", resources=0), None, state_of(3, "one", resources=0)),
    ],
)
def test_the_newer_of_one_line_and_the_one_with_resources_stay(
    folder: Folder, local: bytes, remote: bytes | None, stays: bytes
):
    folder.local = local
    folder.objects.update({} if remote is None else {KEY: remote})
    folder.settings("s3")
    folder.settle()
    assert folder.objects == {KEY: stays}
    assert folder.local is None
    assert (folder.root / f"{LOCAL}.migrated").read_bytes() == local
