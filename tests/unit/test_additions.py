"""Hosts get the dashboard's packages and pip where the client's environment lacks them."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from terradask._software.client_versions import ADDED
from terradask._software.lock import SoftwareLock
from terradask._software.package_sync import describe_differences, lock_for_hosts
from terradask._software.sync import PackageSync

from ..command import in_this_process
from ..package_index import publish, serving
from ..source_packages import install
from .test_package_sync import _OF_INDEXES
from .test_software_file import HERE, PINS

#: The client's tornado, with which the index's newest Bokeh can't be used.
OLD = "6.1"
SUITED = {"bokeh": "3.5", "pip": "26.0"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("index")
    for name, version in HERE.items():
        publish(root, name, version, needs=["tornado>=6"] if name == "distributed" else [])
    publish(root, "tornado", OLD)
    publish(root, "tornado", "6.9", beside=True)
    publish(root, "bokeh", "3.3", needs=["tornado>=6"])
    publish(root, "bokeh", "3.5", needs=["tornado>=6", "drawing"], beside=True)
    publish(root, "bokeh", "3.9", needs=["tornado>=6.5", "drawing"], beside=True)
    publish(root, "drawing", "2.0")
    publish(root, "pip", "26.0")
    publish(root, "frame", "2.0")
    return root


@pytest.fixture
def light(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """An environment with Dask and `frame` alone; the paths that its index is asked for."""
    site = tmp_path / "site"
    links = ["--no-index", f"--find-links={index / 'files'}"]
    install(site, *links, *PINS.split(), f"tornado=={OLD}", "frame==2.0")
    found = list(importlib.metadata.distributions(path=[str(site)]))
    by_name = {each.metadata["Name"]: each for each in found}

    def distribution(name: str) -> importlib.metadata.Distribution:
        if name not in by_name:
            raise importlib.metadata.PackageNotFoundError(name)
        return by_name[name]

    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)
    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    for name in filter(_OF_INDEXES.match, dict(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    with serving(index, asked) as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        yield asked


def lock(
    software: list[str] | Path = (), sync: PackageSync | None = None, lock_file: Path | None = None
) -> SoftwareLock:
    return lock_for_hosts(
        software, sync or PackageSync(False), architecture="x86_64", lock_file=lock_file
    )


def pylock(*needs: str) -> str:
    """Return a lock file with these packages of the index."""
    tables = "".join(
        f'[[packages]]\nname = "{name}"\nversion = "{version}"\n[[packages.wheels]]\n'
        f'url = "https://example.org/{name}-{version}-py3-none-any.whl"\n'
        f'hashes = {{ sha256 = "{"0" * 64}" }}\n'
        for name, version in (need.split("==") for need in needs)
    )
    return f'lock-version = "1.0"\ncreated-by = "us"\n{tables}'


@pytest.mark.parametrize("way", ["sync", "named sync", "Dask alone", "list", "pylock", "hashes"])
def test_hosts_get_a_bokeh_that_suits_their_packages(
    light: list[str], tmp_path: Path, way: str
) -> None:
    locked = [*PINS.split(), f"tornado=={OLD}", "frame==2.0"]
    if way == "pylock":
        (tmp_path / "pylock.toml").write_text(pylock(*locked))
    if way == "hashes":
        every = lock(sync=PackageSync(ignore=("bokeh", "pip")))
        assert not SUITED.keys() & every.packages.keys()
        lines = replace(every, indexes={}).to_requirements()
        (tmp_path / "needs.txt").write_text(lines)
    found = {
        "sync": lambda: lock(sync=PackageSync()),
        "named sync": lambda: lock(sync=PackageSync(["frame"])),
        "Dask alone": lock,
        "list": lambda: lock(["frame"]),
        "pylock": lambda: lock(tmp_path / "pylock.toml"),
        "hashes": lambda: lock(tmp_path / "needs.txt"),
    }[way]()
    assert SUITED.items() <= found.packages.items()
    assert found.packages["drawing"] == "2.0"
    assert found.packages["tornado"] == OLD
    assert ("frame" in found.packages) == (way != "Dask alone")
    assert found.missing == {}
    # All packages of a lock have hashes, or none has.
    assert found.hashes.keys() in (set(), found.packages.keys())
    assert bool(found.hashes) == (way not in ("Dask alone", "list"))
    assert found.indexes.keys() == found.packages.keys()


def test_so_do_those_of_a_requirements_file(light: list[str], tmp_path: Path) -> None:
    (tmp_path / "needs.txt").write_text(f"frame\ntornado=={OLD}\n")
    found = lock(tmp_path / "needs.txt")
    assert SUITED.items() <= found.packages.items()
    # Bokeh's own dependents of another file may exclude it.
    (tmp_path / "needs.txt").write_text("frame\ndrawing>=3; python_version < '3'\nbokeh==3.3\n")
    assert lock(tmp_path / "needs.txt").packages["bokeh"] == "3.3"


def test_no_version_that_suits_is_a_warning(light: list[str], tmp_path: Path) -> None:
    (tmp_path / "pylock.toml").write_text(pylock(*PINS.split(), "tornado==5.0"))
    found = lock(tmp_path / "pylock.toml")
    assert found.packages["pip"] == "26.0"
    assert list(found.missing) == ["bokeh"]
    assert "hosts don't get bokeh (no version in the index suits" in describe_differences(found)


def test_an_index_without_an_answer_is_a_warning(
    light: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    found = lock(["frame"])
    assert found.packages["frame"] == "2.0"
    assert found.missing == dict.fromkeys(("bokeh", "pip"), "no index answered")


def test_a_package_to_ignore_is_not_added(light: list[str]) -> None:
    found = lock(sync=PackageSync(ignore=("bokeh",)))
    assert "pip" in found.packages
    assert not {"bokeh", "drawing"} & found.versions.keys()
    assert found.missing == {}


def test_only_what_is_added_is_asked_for(light: list[str]) -> None:
    lock(["frame"])
    asked = {path.split("/")[2] for path in light if path.startswith("/simple/")}
    assert asked == {"bokeh", "drawing", "pip"}


def test_the_hashes_of_a_reviewed_file_stay_the_only_ones(light: list[str], tmp_path: Path) -> None:
    file = tmp_path / "reviewed.txt"
    file.write_text(lock(sync=PackageSync(ignore=("bokeh", "pip"))).to_requirements())
    light.clear()
    found = lock(["frame"], lock_file=file)
    assert light == []
    assert not {"bokeh", "pip"} & found.versions.keys()
    assert "lock it in reviewed.txt" in describe_differences(found)


def test_hosts_of_the_embedded_aws_have_what_this_machine_has(
    light: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    assert not {"bokeh", "pip"} & lock().packages.keys()
    assert light == []
    assert "bokeh" in lock(["frame"]).packages


def test_a_scan_shows_them_as_added(light: list[str]) -> None:
    found = json.loads(in_this_process("software", "scan", "--json").stdout)
    by_requirement = {each["requirement"]: each for each in found["added"]}
    assert by_requirement.keys() == set(ADDED)
    assert {each["name"] for each in by_requirement.values()} == {"bokeh", "pip"}
