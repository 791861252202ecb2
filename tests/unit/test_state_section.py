"""Settings of section [state], and how `terradask init --state s3` writes them into a file that is
there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from terradask.cli import run
from terradask.cli._init import keep_state_in_s3, with_s3_state
from terradask.errors import SettingsError
from terradask_stacks.loading import load_settings, settings_in
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


def test_the_owner_of_the_bucket_is_said_outside_of_the_file(tmp_path: Path):
    path = tmp_path / "terradask.toml"
    path.write_text('[state]\nbucket = "ours"\nbucket_owner = "210987654321"\nbackend = "gcs"\n')
    with pytest.raises(SettingsError, match="TERRADASK_STATE__BUCKET_OWNER") as refused:
        load_settings(tmp_path, environ={})
    # With all else that is wrong.
    assert len(refused.value.findings) == 2
    with pytest.raises(SettingsError, match="TERRADASK_STATE__BUCKET_OWNER"):
        settings_in(path.read_text(), path)
    path.write_text('[state]\nbucket = "ours"\n')
    variable = {"TERRADASK_STATE__BUCKET_OWNER": "210987654321"}
    by_user = [
        load_settings(tmp_path, environ=variable),
        load_settings(
            tmp_path, environ={}, dask_config={"state": {"bucket-owner": "210987654321"}}
        ),
    ]
    for loaded in by_user:
        assert loaded.settings.state.owner_for("123456789012") == "210987654321"
    assert load_settings(tmp_path, environ={}).settings.state.owner_for("1") == "1"
    path.write_text("")
    # The bucket whose name has the caller's account.
    assert load_settings(tmp_path, environ=variable).settings.state.owner_for("1") == "1"
    with pytest.raises(SettingsError, match="twelve digits"):
        load_settings(tmp_path, environ={"TERRADASK_STATE__BUCKET_OWNER": "12345"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '[state]\nbackend = "s3"\n'),
        (
            "# mine\n[workspace]\nname = 'a'",
            "# mine\n[workspace]\nname = 'a'\n[state]\nbackend = \"s3\"\n",
        ),
        ('[state]\nbucket = "b1s"\n', '[state]\nbucket = "b1s"\nbackend = "s3"\n'),
        (
            '[state] # here\n  backend = "local"  # as yet\n[x]\n',
            '[state] # here\n  backend = "s3"  # as yet\n[x]\n',
        ),
        ("[state]", '[state]\nbackend = "s3"\n'),
        ('state = { backend = "local" }\n', 'state = { backend = "s3" }\n'),
        ('[state]\nbackend = """local"""\n', '[state]\nbackend = "s3"\n'),
        (
            '[state]\nbackend = "local"\n#backend = "local"\n',
            '[state]\nbackend = "s3"\n#backend = "local"\n',
        ),
    ],
)
def test_the_rest_of_a_file_stays_as_it_is(tmp_path: Path, text: str, expected: str):
    path = tmp_path / "terradask.toml"
    assert with_s3_state(text, path) == expected
    assert with_s3_state(expected, path) == expected


def test_in_a_starter_file_the_commented_line_becomes_the_setting(tmp_path: Path):
    starter = starter_toml()
    changed = with_s3_state(starter, tmp_path / "terradask.toml")
    before = starter.splitlines()
    assert [line for line in changed.splitlines() if line not in before] == ['backend = "s3"']
    assert tomllib.loads(changed)["state"] == {"backend": "s3"}


def test_a_file_that_can_not_be_read_is_left_alone(tmp_path: Path):
    path = tmp_path / "terradask.toml"
    path.write_text("[state")
    with pytest.raises(SettingsError):
        keep_state_in_s3(path)
    assert path.read_text() == "[state"


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
