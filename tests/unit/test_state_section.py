"""Settings of section [state]."""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask.cli import run
from terradask.errors import SettingsError
from terradask_modules.names import network_state_key
from terradask_stacks.loading import load_settings, settings_in
from terradask_stacks.settings import StateSettings


def test_a_state_has_one_key_for_each_workspace_in_a_bucket_of_the_region():
    state = StateSettings()
    assert state.bucket_for("123456789012", "eu-west-1") == "terradask-state-123456789012-eu-west-1"
    assert StateSettings(bucket="ours").bucket_for("1", "x") == "ours"
    assert network_state_key("prod") == "workspaces/prod/network.tfstate"


@pytest.mark.parametrize(
    "line",
    [
        'backend = "local"',
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
    path.write_text('[state]\nbucket = "ours"\nbucket_owner = "210987654321"\nbackend = "local"\n')
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


def test_no_workspace_has_the_bucket_of_states_for_its_own(tmp_path: Path):
    (tmp_path / "terradask.toml").write_text('[workspace]\nname = "state"\n')
    with pytest.raises(SettingsError, match="no workspace can be named state"):
        load_settings(tmp_path, environ={})
