"""Indexes in requirements files, as uv and pip read them: variables, quotes, the default."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import read_indexes
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.uv import find_uv
from terradask.errors import SoftwareUnusable

from ..package_index import publish, serving
from .test_package_sync import Environ
from .test_software_file import HERE, environment

TOKEN = "t0ken-0f-the-team"
SECRETS = {"TEAM_USER": "me", "TEAM_TOKEN": TOKEN}


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A team's index, which takes the token alone."""
    root = tmp_path_factory.mktemp("team")
    publish(root, "acme-tools", "1.0")
    for name in (*HERE, "bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    with serving(root, user=f"me:{TOKEN}") as url:
        yield url


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("public")
    for name in (*HERE, "bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    with serving(root) as url:
        yield url


@pytest.fixture
def environ(public: str, tmp_path: Path) -> Environ:
    return environment(public, tmp_path / "cache")


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index-url {}",
        '--extra-index-url="{}"',
        "--extra-index-url '{}'",
        "--index-url {}",
        "-i '{}'",
    ],
)
def test_hosts_get_the_values_of_variables_as_credentials(
    environ: Environ, private: str, tmp_path: Path, line: str
) -> None:
    url = private.replace("://", "://${TEAM_USER}:${TEAM_TOKEN}@")
    listed = tmp_path / "requirements.txt"
    listed.write_text(line.format(url) + "\nacme-tools\n")
    lock = lock_file_packages(listed, "x86_64", {**environ, **SECRETS})
    default = "default-" if "extra" not in line else ""
    assert lock.indexes["acme-tools"] == (f"--{default}index={private}",)
    assert lock.credentials == {private: f"me:{TOKEN}"}
    assert TOKEN not in lock.to_requirements()
    assert "${" not in repr(lock)


@pytest.mark.parametrize("name", ["TEAM_TOKEN", "team_token"])
def test_a_variable_without_a_value_is_named_before_anything_is_asked(
    environ: Environ, private: str, tmp_path: Path, name: str
) -> None:
    url = private.replace("://", f"://me:${{{name}}}@")
    listed = tmp_path / "requirements.txt"
    listed.write_text(f"--extra-index-url {url}\nacme-tools\n")
    with pytest.raises(SoftwareUnusable, match=f"variable {name}, which isn't set"):
        lock_file_packages(listed, "x86_64", environ)


@pytest.mark.parametrize("user", ["", "me@"])
def test_what_uv_keeps_of_a_login_reaches_hosts_too(
    environ: Environ, private: str, tmp_path: Path, user: str
) -> None:
    here = {**environ, "UV_CREDENTIALS_DIR": str(tmp_path / "store")}
    login = [find_uv(here), "auth", "login", private, "--username=me", f"--password={TOKEN}"]
    subprocess.run(login, env=here, check=True, capture_output=True)
    listed = tmp_path / "requirements.txt"
    listed.write_text(f"-i {private.replace('://', f'://{user}')}\nacme-tools\n")
    lock = lock_file_packages(listed, "x86_64", here)
    assert lock.credentials == {private: f"me:{TOKEN}"}
    assert TOKEN not in lock.to_requirements()


def test_a_file_that_is_included_by_a_variable_is_read(
    environ: Environ, private: str, tmp_path: Path
) -> None:
    url = private.replace("://", "://${TEAM_USER}:${TEAM_TOKEN}@")
    (tmp_path / "team.txt").write_text(f"--extra-index-url {url}\n")
    listed = tmp_path / "requirements.txt"
    listed.write_text("-r ${TEAM_FOLDER}/team.txt\nacme-tools\n")
    here = {**environ, **SECRETS, "TEAM_FOLDER": str(tmp_path)}
    assert lock_file_packages(listed, "x86_64", here).credentials == {private: f"me:{TOKEN}"}


@pytest.mark.parametrize("where", ["UV_INDEX", "PIP_EXTRA_INDEX_URL", "pip.conf", "uv.toml"])
def test_where_neither_tool_reads_variables_they_are_refused(tmp_path: Path, where: str) -> None:
    machine = Machine("linux", tmp_path, tmp_path, tmp_path, tmp_path)
    url = "https://${TEAM_USER}:${TEAM_TOKEN}@team/simple"
    (tmp_path / "pip.conf").write_text("")
    if where == "pip.conf":
        (tmp_path / where).write_text(f"[global]\nextra-index-url = {url}\n")
    elif where == "uv.toml":
        (tmp_path / where).write_text(f'[[index]]\nurl = "{url}"\n')
    variables = SECRETS | ({where: url} if where.isupper() else {})
    with pytest.raises(SoftwareUnusable, match=r"variable TEAM_USER") as caught:
        read_indexes(variables, replace(machine, folder=tmp_path))
    assert where in str(caught.value)
