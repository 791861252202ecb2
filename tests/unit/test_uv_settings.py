"""What uv is to do elsewhere doesn't change what hosts get: of its configuration,
indexes and builds count alone.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from terradask._software.indexes.configured import Machine
from terradask._software.local_wheels import build_folder
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.resolver import Resolver
from terradask._software.uv import to_toml, uv_settings, uv_variables

from ..package_index import publish, serving, yank
from ..source_packages import source_folder
from .test_package_sync import Environ, client
from .test_software_file import project, with_project_settings

MAC = "py3-none-macosx_11_0_arm64"
BASE = ("dask", "distributed", "cloudpickle", "bokeh", "pip")
FOREIGN = {
    "another uv": '[tool.uv]\nrequired-version = "<0.1"\n',
    "an extra": '[tool.uv.pip]\nextra = ["plot"]\n',
    "all extras": "[tool.uv.pip]\nall-extras = true\n",
    "sources alone": '[tool.uv]\nno-binary-package = ["frame"]\n',
    "no sources": "[tool.uv.pip]\nonly-binary = []\nno-binary = ['frame']\n",
    "all systems": "[tool.uv.pip]\nuniversal = true\n",
    "another system": '[tool.uv.pip]\npython-platform = "windows"\npython-version = "3.8"\n',
    "no dependencies": "[tool.uv.pip]\nno-deps = true\n",
    "another answer": "[tool.uv.pip]\nno-header = false\nno-emit-package = ['numbers']\n",
    "a group": "[tool.uv.pip]\ngroup = ['work:dev']\n",
    "lowest versions": '[tool.uv]\nresolution = "lowest"\n',
    "an override": '[tool.uv]\noverride-dependencies = ["numbers<9"]\n',
}
VARIABLES = {
    "UV_RESOLUTION": "lowest",
    "UV_FROZEN": "1",
    "UV_NO_BINARY": "1",
    "UV_PYTHON": "3.8",
    "UV_REQUIRE_HASHES": "1",
    "UV_OVERRIDE": "/nowhere/overrides.txt",
    "UV_CONSTRAINT": "/nowhere/constraints.txt",
    "UV_PROJECT": "/nowhere",
    "UV_WORKING_DIR": "/nowhere",
    "UV_NO_SOURCES": "1",
    "UV_SYSTEM_PYTHON": "1",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("index")
    for name in BASE:
        publish(root, name, importlib.metadata.version(name))
    publish(root, "frame", "2.0", needs=["numbers>=8", "windows-only; os_name == 'nt'"])
    publish(root, "numbers", "8.0")
    publish(root, "numbers", "9.0", beside=True)
    publish(root, "windows-only", "1.0")
    publish(root, "withdrawn", "1.0")
    yank(root, "withdrawn", "broken")
    with serving(root) as url:
        yield url


@pytest.fixture
def environ(index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environ:
    """A client's variables, in a project's folder whose configuration uv reads."""
    monkeypatch.chdir(tmp_path)
    return with_project_settings(client(index, tmp_path / "cache"), tmp_path)


def write(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "work"\nversion = "1"\ndependencies = ["frame"]\n{text}'
    )


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_a_projects_wishes_change_nothing(environ: Environ, tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    found = Resolver("x86_64", environ)(["frame"]).packages
    assert found == {"frame": "2.0", "numbers": "9.0"}
    listed = tmp_path / "requirements.txt"
    listed.write_text("frame\n")
    lock = lock_file_packages(listed, "x86_64", environ)
    assert lock.packages.keys() == {"frame", "numbers", *BASE}
    assert lock.packages["numbers"] == "9.0"


@pytest.mark.parametrize("variable", VARIABLES)
def test_nor_do_variables(environ: Environ, variable: str) -> None:
    found = Resolver("x86_64", {**environ, variable: VARIABLES[variable]})(["frame"]).packages
    assert found["numbers"] == "9.0"


def test_nor_do_they_change_builds_and_locks(environ: Environ, index: str, tmp_path: Path) -> None:
    here = {**environ, "UV_NO_BUILD_ISOLATION": "1", "UV_REQUIRE_HASHES": "1", "UV_LOCKED": "1"}
    lock = project(tmp_path / "other", index, "frame")
    for settings in (tmp_path / "pyproject.toml", lock.with_name("pyproject.toml")):
        with settings.open("a") as file:
            file.write(FOREIGN["another uv"])
    folder = source_folder(tmp_path, "acme-tools")
    assert build_folder("acme-tools", folder, "x86_64", here).version == "1.0"
    assert lock_file_packages(lock, "x86_64", here).packages["frame"] == "2.0"


def test_a_projects_own_constraints_count_where_hosts_get_its_packages(
    environ: Environ, tmp_path: Path
) -> None:
    write(tmp_path, '[tool.uv]\nconstraint-dependencies = ["numbers<9"]\nrequired-version = "<0.1"')
    lock = lock_file_packages(tmp_path / "pyproject.toml", "x86_64", environ)
    assert lock.packages["numbers"] == "8.0"


def test_colours_that_are_forced_hide_nothing(environ: Environ) -> None:
    found = Resolver("x86_64", {**environ, "FORCE_COLOR": "1"})(["withdrawn==1.0"])
    assert "broken" in found.yanked["withdrawn"]


def test_how_indexes_are_asked_counts_and_how_packages_are_built(tmp_path: Path) -> None:
    (tmp_path / "work/sub").mkdir(parents=True)
    (tmp_path / ".config/uv").mkdir(parents=True)
    (tmp_path / "work/uv.toml").write_text(
        'native-tls = true\nindex-strategy = "unsafe-best-match"\nfind-links = ["wheels"]\n'
        'extra-build-dependencies = { old = ["numpy<2"] }\nrequired-version = "<0.1"\n'
        'build-constraint-dependencies = ["setuptools<80"]\nexclude-newer = 2026-01-01\n'
        '[[index]]\nname = "team"\nurl = "./simple"\nexplicit = true\n'
        '[pip]\ntorch-backend = "cpu"\nall-extras = true\n'
    )
    (tmp_path / ".config/uv/uv.toml").write_text(
        'native-tls = false\nlink-mode = "copy"\nfind-links = ["https://links/page.html"]\n'
        '[[index]]\nurl = "https://mine/simple"\n'
    )
    machine = Machine("linux", tmp_path, tmp_path / "work/sub", tmp_path, tmp_path)
    found = uv_settings({}, machine)
    assert found == {
        "native-tls": True,
        "index-strategy": "unsafe-best-match",
        "find-links": [str(tmp_path / "work/wheels"), "https://links/page.html"],
        "extra-build-dependencies": {"old": ["numpy<2"]},
        "build-constraint-dependencies": ["setuptools<80"],
        "exclude-newer": found["exclude-newer"],
        "index": [
            {"name": "team", "url": str(tmp_path / "work/simple"), "explicit": True},
            {"url": "https://mine/simple"},
        ],
        "pip": {"torch-backend": "cpu"},
    }
    read = tomllib.loads(to_toml(found))
    assert read == {**found, "exclude-newer": "2026-01-01"}
    assert uv_settings({"UV_NO_CONFIG": "1"}, replace(machine, home=tmp_path / "none")) == {}


def test_variables_of_indexes_pass_and_others_of_uv_dont(tmp_path: Path) -> None:
    kept = {
        "UV_INDEX": "https://team/simple",
        "UV_INDEX_TEAM_PASSWORD": "t0ken",
        "UV_CACHE_DIR": "/cache",
        "UV_HTTP_TIMEOUT": "9",
        "HTTPS_PROXY": "http://proxy",
    }
    machine = Machine("linux", tmp_path, tmp_path, tmp_path, tmp_path)
    every = {**kept, **VARIABLES, "UV_NO_CONFIG": "1"}
    assert uv_variables(every, machine) == kept
