"""Settings of section [state], and how `terradask init --state s3` writes them into a file that is
there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from terradask._terraform.state.section import with_s3_state
from terradask.cli import run
from terradask.errors import InvalidInput, SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.reference import starter_toml
from terradask_stacks.settings import StateSettings
from terradask_stacks.settings.state import network_state_key


def test_state_is_local_unless_told_otherwise_and_has_one_key_for_each_workspace():
    state = StateSettings()
    assert (state.backend, state.lock_timeout_seconds) == ("local", 60)
    assert state.bucket_for("123456789012", "eu-west-1") == "terradask-state-123456789012-eu-west-1"
    assert StateSettings(bucket="ours").bucket_for("1", "x") == "ours"
    assert network_state_key("prod") == "workspaces/prod/network.tfstate"


@pytest.mark.parametrize(
    "line",
    [
        'backend = "gcs"',
        'bucket = "Not_A_Bucket"',
        'kms_key_arn = "alias/mine"',
        "lock_timeout_seconds = -1",
    ],
)
def test_what_can_not_be_used_is_refused(tmp_path: Path, line: str):
    (tmp_path / "terradask.toml").write_text(f"[state]\n{line}\n")
    with pytest.raises(SettingsError, match=line.partition(" ")[0]):
        load_settings(tmp_path, environ={})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '[state]\nbackend = "s3"\n'),
        (
            "# mine\n[workspace]\nname = 'a'",
            "# mine\n[workspace]\nname = 'a'\n\n[state]\nbackend = \"s3\"\n",
        ),
        ('[state]\nbucket = "b1s"\n', '[state]\nbackend = "s3"\nbucket = "b1s"\n'),
        (
            '[state] # here\n  backend = "local"  # as yet\n[x]\n',
            '[state] # here\nbackend = "s3"  # as yet\n[x]\n',
        ),
        ("[state]", '[state]\nbackend = "s3"'),
    ],
)
def test_the_rest_of_a_file_stays_as_it_is(tmp_path: Path, text: str, expected: str):
    path = tmp_path / "terradask.toml"
    path.write_text(text)
    assert with_s3_state(path) == expected
    path.write_text(expected)
    assert with_s3_state(path) is None


def test_in_a_starter_file_the_commented_line_becomes_the_setting(tmp_path: Path):
    path = tmp_path / "terradask.toml"
    path.write_text(starter_toml())
    changed = with_s3_state(path)
    assert changed is not None
    assert [line for line in changed.splitlines() if line not in starter_toml().splitlines()] == [
        'backend = "s3"'
    ]
    assert tomllib.loads(changed)["state"] == {"backend": "s3"}


@pytest.mark.parametrize(
    "text", ['state = { backend = "local" }\n', '[state]\nbackend = """local"""\n', "[state"]
)
def test_what_can_not_be_changed_safely_is_left_to_the_user(tmp_path: Path, text: str):
    path = tmp_path / "terradask.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        with_s3_state(path)
    assert path.read_text() == text


def test_a_folder_for_each_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod").mkdir()
    assert run(["-C", "prod", "init"]) == 0
    assert run(["-C", str(tmp_path), "-C", "prod", "init"]) == 2
    assert "terradask.toml exists already" in capsys.readouterr().err
    assert (tmp_path / "prod/terradask.toml").is_file()
    assert Path.cwd() == tmp_path
    assert run(["-C", "nowhere", "init"]) == 2
    assert "nowhere" in capsys.readouterr().err
