"""Packages that a uv project takes from a certain index: no other is asked for them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from terradask._software.client_versions import lock_software
from terradask._software.hosts import host_markers
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import index_sources, read_indexes
from terradask._software.lock_from_file import lock_requirements
from terradask._software.package_sync import lock_environment
from terradask._software.sync import PackageSync
from terradask.errors import SoftwareUnusable

from ..package_index import publish, serving
from .test_package_sync import client

TOKEN = "t0ken-0f-the-team"
HERE = {
    name: importlib.metadata.version(name)
    for name in ("dask", "distributed", "cloudpickle", "bokeh", "pip")
}


@dataclass(frozen=True)
class Project:
    """A uv project whose team has an index of its own, beside a public one with an attacker's
    package of the same name.
    """

    private: str
    public: str
    asked: list[str]
    environ: Mapping[str, str]

    def nobody_asked_the_public_one(self) -> bool:
        return bool(self.asked) and not any("/acme" in path for path in self.asked)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    publish(tmp_path / "team", "acme-tools", "1.0", body="print('ours')")
    for version in ("1.0", "9.0"):
        publish(tmp_path / "public", "acme-tools", version, body="attacked", beside=True)
    publish(tmp_path / "public", "needs-acme", "1.0", needs=["acme-tools"])
    for name, version in HERE.items():
        publish(tmp_path / "public", name, version)
    asked: list[str] = []
    with (
        serving(tmp_path / "team", user=f"me:{TOKEN}") as private,
        serving(tmp_path / "public", asked) as public,
    ):
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "pyproject.toml").write_text(
            '[project]\nname = "work"\nversion = "1"\n'
            '[tool.uv.sources]\nacme_tools = [{ index = "mac", marker = "sys_platform == '
            '\'darwin\'" }, { index = "team" }]\n'
            f'[[tool.uv.index]]\nname = "team"\nurl = "{private}"\nexplicit = true\n'
            '[[tool.uv.index]]\nname = "mac"\nurl = "https://mac/simple"\nexplicit = true\n'
        )
        (folder / "sub").mkdir()
        monkeypatch.chdir(folder / "sub")
        environ = client(public, tmp_path / "cache")
        del environ["UV_NO_CONFIG"]
        home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"), str(tmp_path))
        team = {"UV_INDEX_TEAM_USERNAME": "me", "UV_INDEX_TEAM_PASSWORD": TOKEN}
        environ |= {**home, **team}
        for name, value in environ.items():
            if name.startswith(("UV_", "HOME", "XDG_")):
                monkeypatch.setenv(name, value)
        yield Project(private, public, asked, environ)


def installed(folder: Path, *names: str) -> list[importlib.metadata.Distribution]:
    for name in names:
        version = HERE.get(name, "1.0")
        about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (about / "RECORD").write_text("")
    return list(importlib.metadata.distributions(path=[str(folder)]))


@pytest.mark.parametrize("names", [("acme-tools", "needs-acme"), ("needs-acme",)])
def test_package_sync_asks_that_index_alone(
    project: Project, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = installed(tmp_path / "site", *HERE, *names)
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)
    lock = lock_environment(PackageSync(), "x86_64", project.environ)
    assert project.nobody_asked_the_public_one()
    assert lock.packages["needs-acme"] == "1.0"
    if "acme-tools" in names:
        assert lock.packages["acme-tools"] == "1.0"
        assert lock.indexes["acme-tools"] == (f"--index={project.private}",)
        assert lock.credentials == {project.private: f"me:{TOKEN}"}
        assert TOKEN not in lock.to_requirements()
    else:
        assert "acme-tools" not in lock.packages


def test_requirements_without_a_file_ask_it_too(project: Project, tmp_path: Path) -> None:
    settings = tmp_path / "project/sub/terradask.toml"
    lock = lock_requirements(["acme-tools", "needs-acme"], settings, "x86_64", project.environ)
    assert project.nobody_asked_the_public_one()
    assert lock.packages["acme-tools"] == "1.0"
    assert lock.indexes["acme-tools"] == (f"--index={project.private}",)


def test_hosts_ask_it_alone_for_what_software_names(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "site", "acme-tools")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    lock = lock_software(["acme-tools"])
    assert lock.indexes["acme-tools"] == (f"--index={project.private}",)
    assert lock.indexes["dask"] == (f"--default-index={project.public}",)


def test_an_index_that_is_not_configured_is_an_error(project: Project, tmp_path: Path) -> None:
    (tmp_path / "project/pyproject.toml").write_text(
        '[project]\nname = "work"\nversion = "1"\n[tool.uv.sources]\nacme = { index = "lost" }\n'
    )
    with pytest.raises(SoftwareUnusable, match="no index is named 'lost'"):
        lock_environment(PackageSync(), "x86_64", project.environ)


def test_projects_without_sources_have_none(tmp_path: Path) -> None:
    machine = replace(Machine.here({}), folder=tmp_path)
    indexes = read_indexes({"UV_NO_CONFIG": "1"}, machine)
    for text in ("", "[tool.uv]\nsources = 3\n", "[tool.uv.sources]\na = { path = '../a' }\n"):
        (tmp_path / "pyproject.toml").write_text(text)
        assert index_sources(indexes, machine, host_markers("x86_64")) == {}
    (tmp_path / "pyproject.toml").write_text("no toml")
    with pytest.raises(SoftwareUnusable, match="The configuration of package indexes"):
        index_sources(indexes, machine, host_markers("x86_64"))
