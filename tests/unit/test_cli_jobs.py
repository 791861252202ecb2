"""What `terradask run` and `terradask batch` refuse before a cluster is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask.cli._run_command import _inputs

from ..command import in_this_process


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a cluster is made")

    monkeypatch.setattr("terradask.Cluster", refuse)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "-c", "etl"), "COMMAND"),
        (("run", "--env", "TOKEN", "--", "true"), "--env takes NAME=VALUE"),
        (("run", "--secret", "NOT_SET_9", "--", "true"), "NOT_SET_9 isn't set in this environment"),
        (("batch", "--", "true"), "either --map-over or --array"),
        (("run", "--timeout", "soon", "--", "true"), "timeout is not a duration"),
        (("run", "--env", "1A=x", "--", "true"), "invalid name"),
        (("run", "--", "x" * 70_000), "its command has over"),
        (("run", "--file", "large.bin", "--", "true"), "files are too large"),
        (("batch", "--array", "0-9999,0-9", "--", "true"), "it has over 10000 tasks"),
        (("batch", "--map-over", "", "--", "true"), "no file "),
        (("batch", "--map-over", "names.txt", "--", "true"), "no file names.txt"),
        (("batch", "--map-over", "latin.txt", "--", "true"), "aren't UTF-8"),
        (
            ("run", "-c", "etl", "--vm-type", "m7i.large", "--", "true"),
            "--vm-type: --cluster names",
        ),
    ],
)
def test_what_cant_run_is_refused_before_a_cluster_is_made(
    arguments: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes("Köln".encode("latin-1"))
    with (tmp_path / "large.bin").open("wb") as large:
        large.truncate(129 * 2**20)
    done = in_this_process(*arguments)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_lines_end_where_an_editor_ends_them(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_bytes("\ufeffa b\r\n\n  \nc\x0cd\u2028e\nf".encode())
    assert _inputs(str(names)) == ["a b", "c\x0cd\u2028e", "f"]
    assert _inputs("a, b,,c") == ["a", "b", "c"]
