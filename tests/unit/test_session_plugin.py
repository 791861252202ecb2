"""The plugin of Session Manager: found or asked for, new enough to take the token where nobody else
reads it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from terradask._aws.ssm import plugin
from terradask._aws.ssm.plugin import RESPONSE_VARIABLE, find_plugin
from terradask.errors import SetupError
from terradask_simulator.aws.session_manager.plugin import VERSION, plugin_folder, write_plugin


@pytest.fixture(autouse=True)
def _nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_USUAL_FOLDERS", ())


def says(folder: Path, script: str) -> dict[str, str]:
    program = folder / "session-manager-plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": str(folder)}


def test_a_machine_without_the_plugin_is_told_how_to_get_it_and_what_else_there_is(
    tmp_path: Path,
) -> None:
    with pytest.raises(SetupError, match="isn't on this machine") as caught:
        find_plugin({"PATH": str(tmp_path)})
    for part in (
        "session-manager-working-with-install-plugin.html",
        "connect='public'",
        "connect='private'",
    ):
        assert part in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("version", ["1.2.497.0", "1.2.54.0", "1.1", "1", "0.9.9.9"])
def test_a_plugin_that_takes_the_token_as_an_argument_is_refused(
    tmp_path: Path, version: str
) -> None:
    with pytest.raises(SetupError, match="too old") as caught:
        find_plugin(says(tmp_path, f"echo {version}"))
    assert version in str(caught.value)
    assert "1.2.497.0" in str(caught.value)


@pytest.mark.parametrize("version", ["1.2.497.1", "1.2.536.0", "1.2.650.0", "1.3", "2"])
def test_newer_ones_do(tmp_path: Path, version: str) -> None:
    found = find_plugin(says(tmp_path, f"echo {version}; echo; test $# = 1"))
    assert (found.path, found.version) == (str(tmp_path / "session-manager-plugin"), version)


@pytest.mark.parametrize(
    "script", ["exit 1", "echo 1.2.650.0; exit 3", "echo hello", "", "printf '\\377'"]
)
def test_one_that_says_no_version(tmp_path: Path, script: str) -> None:
    with pytest.raises(SetupError, match="doesn't report its version"):
        find_plugin(says(tmp_path, script))


def test_it_is_also_looked_for_where_its_installers_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(tmp_path, "echo 1.2.650.0")
    monkeypatch.setattr(plugin, "_USUAL_FOLDERS", (str(tmp_path),))
    assert find_plugin({"PATH": "/nowhere"}).path == str(tmp_path / "session-manager-plugin")


@pytest.mark.parametrize("path", ["", ":", "/nowhere:"])
def test_none_is_taken_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    says(tmp_path, "echo 1.2.650.0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match="isn't on this machine"):
        find_plugin({"PATH": path})


def test_the_command_line_is_the_aws_clis() -> None:
    request = {
        "Target": "i-1",
        "DocumentName": "AWS-StartPortForwardingSession",
        "Parameters": {"portNumber": ["8786"]},
    }
    found = plugin.Plugin("/x/session-manager-plugin", "1.2.650.0")
    command = found.command(
        request,
        region="eu-central-1",
        profile="work",
        endpoint_url="https://ssm.eu-central-1.amazonaws.com",
    )
    assert command == [
        "/x/session-manager-plugin",
        "AWS_SSM_START_SESSION_RESPONSE",
        "eu-central-1",
        "StartSession",
        "work",
        json.dumps(request),
        "https://ssm.eu-central-1.amazonaws.com",
    ]
    assert command[1] == RESPONSE_VARIABLE
    assert found.command(request, region="r", profile=None, endpoint_url="e")[4] == ""


def test_the_embedded_aws_brings_one(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    found = find_plugin({"PATH": str(plugin_folder(tmp_path))})
    assert found.version == VERSION
    assert sys.executable in Path(found.path).read_text()
