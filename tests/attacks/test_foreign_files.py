"""What another user of this machine plants or reads: settings above the working directory, a mirror
of the provider, states.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from terradask._terraform import provider_mirror as mirrors
from terradask._terraform.process import capture
from terradask.errors import SettingsError
from terradask_stacks import files
from terradask_stacks.loading import find_file, load_settings


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A settings file with a working directory below it."""
    (tmp_path / "terradask.toml").write_text('[workspace]\nname = "planted"\n')
    below = tmp_path / "mine/job"
    below.mkdir(parents=True)
    return below


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process run as a user who owns none of the files; they aren't root's either."""
    monkeypatch.setattr(files, "_trusted_users", lambda: frozenset({2**31 - 2}))


@pytest.mark.usefixtures("foreign")
def test_another_users_settings_above_the_working_directory_are_refused(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted)
    with pytest.raises(SettingsError, match="another user controls this file") as caught:
        load_settings(environ={})
    assert f"terradask -C {planted.parents[1]}" in str(caught.value)
    # A folder that is named is meant.
    monkeypatch.chdir(planted.parents[1])
    assert load_settings(environ={}).settings.workspace.name == "planted"
    monkeypatch.chdir(planted)
    assert load_settings(planted.parents[1], environ={}).settings.workspace.name == "planted"


def test_ones_own_settings_are_found_and_so_are_roots(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_file(planted) == planted.parents[1] / "terradask.toml"
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    assert files.foreign_owner(Path("/"), Path("/etc")) is None


def test_a_link_of_another_user_to_a_file_of_mine_counts_as_theirs(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = planted / "link"
    link.symlink_to("/etc/hostname")
    owner = link.lstat().st_uid
    monkeypatch.setattr(files, "_trusted_users", lambda: frozenset({owner + 1}))
    assert files.foreign_owner(link) == owner


def test_another_users_mirror_of_the_provider_is_not_used(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "m/registry.terraform.io/hashicorp/aws" / mirrors.PROVIDER_VERSION
    binary = folder / mirrors.this_platform() / "terraform-provider-aws_v5_x5"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert mirrors.find_mirror([tmp_path]) == tmp_path / "m"
    request.getfixturevalue("foreign")
    assert mirrors.find_mirror([tmp_path]) is None
    assert not mirrors.holds_provider(tmp_path / "m")


def test_what_terraform_writes_is_its_users_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        script = "mkdir state; touch state/network.tfstate"
        capture(["/bin/sh", "-c", script], cwd=tmp_path, environ=os.environ)
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state/network.tfstate").stat().st_mode & 0o777 == 0o600
