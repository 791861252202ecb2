"""``environment.yml``: what it says, and which channels it names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from terradask._software.conda.file import (
    CondaChannel,
    configured_channels,
    file_channels,
    read_conda_file,
)
from terradask._software.indexes.configured import Machine
from terradask.errors import SoftwareUnusable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("# only a comment\n", "it is empty"),
        ("[a]", "no names of channels"),
        ("just text", "no names of channels"),
        ("channels: [", "it is not valid YAML in line"),
        ("channels: [x]\ndependencies: [a]\nother: 1\nmore: 2", "it has more, other; known keys"),
        ("channels: [x]\ndependencies: [a]\nvariables: {A: b}", "`environ` of the cluster"),
        ("dependencies: [a]", "names no channels.*conda-forge"),
        ("channels: []\ndependencies: [a]", "names no channels"),
        ("channels: conda-forge\ndependencies: [a]", "its channels must be a list"),
        ("channels: [1]\ndependencies: [a]", "its channels must be a list"),
        ("channels: [x]", "no list of dependencies"),
        ("channels: [x]\ndependencies: a", "no list of dependencies"),
        ("channels: [x]\ndependencies: []", "no list of dependencies"),
        ("channels: [x]\ndependencies: [1.0]", "have 1.0, which is neither"),
        ("channels: [x]\ndependencies: ['']", "have '', which is neither"),
        ("channels: [x]\ndependencies: [{sel(linux): a}]", "which is neither"),
        ("channels: [x]\ndependencies: [{pip: a}]", "its pip must be a list"),
        ("channels: [x]\ndependencies: [a]\nplatforms: [osx-arm64]", "for osx-arm64; hosts"),
        ("!!python/object/apply:os.system ['x']", "it is not valid YAML"),
    ],
)
def test_files_that_say_something_else_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(text)
    with pytest.raises(SoftwareUnusable, match=f"(?s){said}"):
        read_conda_file(path, "linux-64")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SoftwareUnusable, match="it is not a UTF-8 text"):
        read_conda_file(path, "linux-64")


def read(path: Path, *named: str, **environ: str) -> list[CondaChannel]:
    machine = replace(Machine.here({}), home=path)
    return list(file_channels(path, named, environ, machine))


def test_names_of_channels_mean_what_they_mean_to_conda(tmp_path: Path) -> None:
    main, r = "https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r"
    conda = "https://conda.anaconda.org"
    given = ["conda-forge", "defaults", "nodefaults", "pkgs/main", "conda-forge/label/dev"]
    given += ["https://Team.example/forge/linux-64/", "https://team.example/forge"]
    assert [each.url for each in read(tmp_path, *given)] == [
        *(f"{conda}/conda-forge", main, r, f"{conda}/conda-forge/label/dev"),
        "https://team.example/forge",
    ]
    mirror = read(tmp_path, "conda-forge", CONDA_CHANNEL_ALIAS="https://team.example/conda/")
    assert [each.url for each in mirror] == ["https://team.example/conda/conda-forge"]


@pytest.mark.parametrize(
    ("entry", "credentials"),
    [
        ({"team.example": {"CondaToken": "abc"}}, "/t/abc"),
        ({"*.example": {"BearerToken": "abc"}}, "Bearer abc"),
        ({"team.example": {"BasicHTTP": {"username": "a@b", "password": "c/d"}}}, "a%40b:c%2Fd"),
        ({"other.example": {"CondaToken": "abc"}}, None),
        ({"team.example": "abc"}, None),
        ([], None),
    ],
)
def test_what_pixi_has_stored_counts(
    tmp_path: Path, entry: object, credentials: str | None
) -> None:
    (tmp_path / ".rattler").mkdir()
    (tmp_path / ".rattler/credentials.json").write_text(json.dumps(entry))
    (found,) = read(tmp_path, "https://team.example/forge")
    assert found.credentials == credentials
    assert "abc" not in repr(found)
    (same,) = configured_channels([found.url], {"HOME": str(tmp_path)})
    assert same == found


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("./mine", "a local folder"),
        ("/opt/mine", "a local folder"),
        ("~/mine", "a local folder"),
        (r"C:\mine", "a local folder"),
        ("file:///opt/mine", "hosts can't use the channel"),
        ("s3://bucket/mine", "hosts can't use the channel"),
        ("https://${UNSET_TOKEN}@team.example/x", "UNSET_TOKEN, which isn't set"),
        ("https://team.example/a b", "hosts can't use the channel"),
        ("http://[team", "malformed"),
        ("nodefaults", "no channel except nodefaults"),
    ],
)
def test_channels_that_hosts_can_not_ask_are_refused(
    tmp_path: Path, channel: str, said: str
) -> None:
    with pytest.raises(SoftwareUnusable, match=said):
        read(tmp_path, channel)
