"""What a client submits, and what it reads of what is recorded."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from terradask._clusters.jobs.files import find_files, pack
from terradask._clusters.jobs.store import JobOutput, printable_text
from terradask._dask.job import prepare_job
from terradask._dask.job_requests import for_submission
from terradask.cli._run_command import parse_array
from terradask.errors import InvalidInput
from terradask_host.documents import UNREADABLE
from terradask_host.jobs import (
    MOST_KEPT_BYTES_UNPACKED,
    JobRecord,
    is_kept_name,
    output_name,
    record_name,
    state_of,
)
from terradask_host.rules.job_table import JobTable

from .test_job_tasks import AT, some_job


def names(packed: bytes | None) -> list[str]:
    assert packed is not None
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return archive.getnames()


# ---- files --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.py", "data/b.csv", "data/big/c.bin", ".env", "x/__pycache__/y.pyc", "out.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_a_folders_hidden_and_generated_files_stay_here(folder: Path) -> None:
    assert list(find_files([], folder)) == ["a.py", "data/b.csv", "data/big/c.bin", "out.log"]


def test_a_folder_that_git_manages_leaves_out_what_git_ignores(folder: Path) -> None:
    (folder / ".gitignore").write_text("*.log\nbig/\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".tracked").write_text("")
    subprocess.run(["git", "-C", str(folder), "add", ".tracked"], check=True)
    found = list(find_files([], folder))
    # Of hidden files, what git tracks: `.env` is there by mistake.
    assert found == [".tracked", "a.py", "data/b.csv", "x/__pycache__/y.pyc"]


def test_a_repository_that_git_says_nothing_of_is_refused(folder: Path) -> None:
    """As one that belongs to somebody else: the files that it ignores would be taken along."""
    (folder / ".git").write_text("gitdir: /nowhere")
    with pytest.raises(InvalidInput, match="git can't list the files") as caught:
        find_files([], folder / "data")
    assert str(folder) in caught.value.given
    assert list(find_files([folder / "a.py"], None)) == ["a.py"]


@pytest.mark.parametrize("managed", [True, False])
def test_no_link_brings_a_file_along_from_elsewhere(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, managed: bool
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "credentials").write_text("secret")
    if managed:
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "inside").symlink_to("a.py")
    assert "inside" in find_files([], folder)
    (folder / "notes.txt").symlink_to(elsewhere / "credentials")
    with pytest.raises(InvalidInput, match="leads out of it") as caught:
        find_files([], folder)
    assert "exclude 'notes.txt'" in str(caught.value)
    assert "notes.txt" not in find_files([], folder, ["notes.txt"])
    # A whole folder is no file of this one.
    (folder / "notes.txt").unlink()
    (folder / "more").symlink_to(elsewhere)
    assert not [name for name in find_files([], folder) if name.startswith("more")]
    # Nor does a link bring what stays here by its own name.
    (folder / ".env").write_text("secret")
    (folder / "notes.txt").symlink_to(".env")
    for path, left_out in (("notes.txt", []), ("inside", ["notes.txt", "a.py"])):
        with pytest.raises(InvalidInput, match="that isn't sent") as caught:
            find_files([], folder, left_out)
        assert f"exclude '{path}'" in str(caught.value)
    (folder / "notes.txt").unlink()
    # What is named is meant.
    (folder / "notes.txt").symlink_to(elsewhere / "credentials")
    assert find_files([folder / "notes.txt"], None)


def test_patterns_leave_out_files_and_whole_folders(folder: Path) -> None:
    assert list(find_files([], folder, ["big", "*.log"])) == ["a.py", "data/b.csv"]
    assert list(find_files([], folder, ["data/"])) == ["a.py", "out.log"]


def test_single_files_keep_their_place_unless_it_leads_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "data")
    found = find_files(["big/c.bin", "../a.py", folder / "out.log"], None)
    assert list(found) == ["a.py", "big/c.bin", "out.log"]


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (["python", "a.py", "--epochs", "3"], ["a.py"]),
        (["python", "-m", "a"], ["a.py"]),
        (["python", "./a.py", "--table=data/b.csv"], ["a.py", "data/b.csv"]),
        (["cat", "a.py", "a.py"], ["a.py"]),
        (["sh", "-c", "cat a.py"], []),
        (["cat", ".env", "data", "nothing.py", "x" * 5000, "/etc/hostname"], []),
    ],
)
def test_files_that_a_command_names_are_taken_along(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], sent: list[str]
) -> None:
    monkeypatch.chdir(folder)
    packed = prepare_job(command).files
    assert (names(packed) if packed else []) == sent


def test_those_of_the_folder_that_is_taken_along_come_from_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "data/a.py").write_text("of the folder")
    packed = prepare_job(["python", "a.py", "out.log"], directory="data", exclude=["big"]).files
    assert names(packed) == ["a.py", "b.csv", "out.log"]
    assert packed is not None
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = archive.extractfile("a.py")
        assert member is not None
        assert member.read() == b"of the folder"


@pytest.mark.parametrize("where", ["../a.py", "{}/data/b.csv", "link.py"])
def test_a_path_that_no_host_has_is_refused_before_anything_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(folder / "data")
    (folder / "data/link.py").symlink_to(folder / "a.py")
    with pytest.raises(InvalidInput, match="by a path that hosts don't have") as caught:
        prepare_job(["python", where.format(folder)])
    assert "--file" in str(caught.value)


def test_the_same_files_are_the_same_bytes_whenever_they_are_packed(folder: Path) -> None:
    first = pack(find_files([], folder))
    (folder / "a.py").touch()
    assert pack(find_files([], folder)) == first
    assert names(first) == ["a.py", "data/b.csv", "data/big/c.bin", "out.log"]
    assert pack({}) is None


def test_what_is_missing_or_too_large_is_refused_before_anything_is_made(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="A file for the job doesn't exist"):
        find_files(["nothing"], None)
    with pytest.raises(InvalidInput, match="A folder for the job doesn't exist"):
        find_files([], folder / "a.py")
    with (folder / "huge").open("wb") as huge:
        huge.truncate(129 * 2**20)
    with pytest.raises(InvalidInput, match="the largest are huge"):
        find_files([], folder)
    (folder / "huge").write_bytes(os.urandom(17 * 2**20))
    with pytest.raises(InvalidInput, match=r"bytes packed"):
        pack(find_files([], folder))


# ---- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inputs"),
    [("0-3", ["0", "1", "2", "3"]), ("5", ["5"]), ("1-2,7", ["1", "2", "7"]), ("3-3", ["3"])],
)
def test_an_array_has_numbers_as_inputs(text: str, inputs: list[str]) -> None:
    assert parse_array(text) == inputs


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0-100000", "1,,2", "1.5"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="array"):
        parse_array(text)


def test_a_request_says_what_is_wrong_with_it() -> None:
    with pytest.raises(InvalidInput, match="a list of a program"):
        prepare_job("python train.py")
    with pytest.raises(InvalidInput, match="it has no inputs"):
        prepare_job(["true"], [])
    with pytest.raises(InvalidInput, match="retries"):
        prepare_job(["true"], retries=1_000)
    request = prepare_job(["echo", "{}"], [1, 2.5])
    first, second = (for_submission(request, "r", 1).document for _ in range(2))
    assert first["inputs"] == ["1", "2.5"]
    assert (first["run_id"], first["boot"]) == ("r", 1)
    assert first["job"] != second["job"]
    assert sorted([second["job"][:-4], first["job"][:-4]])[0] == first["job"][:-4]


# ---- records ------------------------------------------------------------------------------------


def record_of(table: JobTable) -> JobRecord:
    return JobRecord.read(json.loads(json.dumps(table.record().to_document())), "etl")


def test_a_record_reads_as_it_was_written() -> None:
    table = JobTable(some_job(("a", "b"), retries=1))
    assert record_of(table).state == "pending"
    number = table.begin(0, host="i-1", at=AT)
    assert number is not None
    assert record_of(table).state == "running"
    table.end(0, number, 0, at=AT)
    assert (record_of(table).state, record_of(table).exit_code) == ("running", None)
    number = table.begin(1, host="i-2", at=AT)
    assert number is not None
    table.end(1, number, 9, at=AT)
    number = table.begin(1, host="i-2", at=AT)
    assert number is not None
    table.end(1, number, 7, at=AT)
    found = record_of(table)
    assert (found.state, found.exit_code, found.ended_at) == ("failed", 7, AT)
    assert found.counts == {"succeeded": 1, "failed": 1, "pending": 0, "running": 0, "cancelled": 0}
    assert found.name == "etl/20261124T153000Z-1f3a9c4"
    assert found.command_line == "echo '{}'"
    assert [(task.input, task.tries, task.host) for task in found.tasks] == [
        ("a", 1, "i-1"),
        ("b", 2, "i-2"),
    ]


def test_a_hosts_record_shows_no_control_characters() -> None:
    table = JobTable(some_job(("a\x1b[2Jb", "c")))
    found = record_of(table)
    document = {**table.record().to_document(), "command": ["a\x1bb", "c\nd"]}
    assert JobRecord.read(document, "etl").command == ("a\N{REPLACEMENT CHARACTER}b", "c d")
    assert found.tasks[0].input == "a\N{REPLACEMENT CHARACTER}[2Jb"


def _changed(**changes: Any) -> dict[str, Any]:
    return {**some_job().to_document(), **changes}


ROW = some_job().to_document()["tasks"][0]


@pytest.mark.parametrize(
    "document",
    [
        {},
        _changed(format=2),
        _changed(tasks=[]),
        _changed(tasks=[ROW]),
        _changed(tasks=[ROW, ROW[:-1]]),
        _changed(tasks=[ROW, ["exploded", *ROW[1:]]]),
        _changed(tasks=[ROW, ["failed", "many", *ROW[2:]]]),
        _changed(tasks=[ROW] * 10_001, inputs=["a"] * 10_001),
        _changed(command=None),
        _changed(command=[1]),
        _changed(inputs=[1, 2]),
        _changed(retries="0"),
        _changed(boot=None),
    ],
)
def test_what_is_no_record_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(UNREADABLE):
        JobRecord.read(document, "etl")


def test_a_newer_host_may_say_more() -> None:
    document = _changed(more=1)
    document["columns"] = [*document["columns"], "cost"]
    document["tasks"] = [[*row, 0.1] for row in document["tasks"]]
    assert JobRecord.read(document, "etl").state == "pending"


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"pending": 2}, "pending"),
        ({"pending": 1, "running": 1}, "running"),
        ({"pending": 1, "succeeded": 1}, "running"),
        ({"succeeded": 2}, "succeeded"),
        ({"succeeded": 1, "failed": 1}, "failed"),
        ({"succeeded": 1, "cancelled": 1}, "cancelled"),
        ({"failed": 1, "cancelled": 1}, "failed"),
    ],
)
def test_the_state_of_a_job_follows_from_its_tasks(counts: dict[str, int], state: str) -> None:
    none = dict.fromkeys(("pending", "running", "succeeded", "failed", "cancelled"), 0)
    assert state_of(none | counts) == state


def test_output_is_bytes_by_stream_and_as_text_has_no_control_characters() -> None:
    pieces = [[1, "b3V0Cg=="], [2, "G1sySg=="]]
    output = JobOutput.read({"format": 1, "missed": 3, "pieces": pieces})
    assert (output.of(1), output.of(2), output.missed) == (b"out\n", b"\x1b[2J", 3)
    assert str(output) == "out\n\N{REPLACEMENT CHARACTER}[2J"
    assert printable_text(b"a\r\nb\t\xff") == "a\nb\t\N{REPLACEMENT CHARACTER}"
    for wrong in ([3, "b3V0"], [1, "!"], [1], ["1", "b3V0"]):
        with pytest.raises(UNREADABLE):
            JobOutput.read({"format": 1, "missed": 0, "pieces": [wrong]})


def test_only_a_jobs_names_are_kept() -> None:
    job = some_job().id
    assert is_kept_name(record_name(job))
    assert is_kept_name(output_name(job, 9_999))
    for wrong in (
        f"../{record_name(job)}",
        f"{job}/other.json.gz",
        f"{job}/1.output.json.gz/x",
        f"{job}/123456.output.json.gz",
        "events.json",
        f"{record_name(job)}\n",
    ):
        assert not is_kept_name(wrong)


def test_a_packed_bomb_is_refused() -> None:
    from terradask._observe.reports.store import unpack

    assert unpack(gzip.compress(b"{}"), MOST_KEPT_BYTES_UNPACKED) == b"{}"
    with pytest.raises(ValueError, match="too large"):
        unpack(gzip.compress(b"\0" * (64 * 2**20 + 1)), MOST_KEPT_BYTES_UNPACKED)
