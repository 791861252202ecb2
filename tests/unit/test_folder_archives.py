"""Packages from folders that pip or uv takes them from: hosts never get another author's package of
the same name from an index.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from terradask._software.client_versions import lock_software
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.folder_archives import Folder, find_only_in_folders, local_folders
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.package_sync import lock_environment
from terradask._software.sync import PackageSync

from ..package_index import publish, serving
from ..source_packages import install

OURS, THEIRS = "author = 'we'", "author = 'another'"

#: Variables by which this machine reaches other indexes than the test's own.
_OF_INDEXES = re.compile(r"UV_|PIP_|\w+_proxy$", re.IGNORECASE)

Environ = dict[str, str]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """What hosts can ask: it has another author's package of the name."""
    root = tmp_path / "index"
    publish(root, "dask", "1.0", needs=["tools"])
    publish(root, "tools", "1.0")
    publish(root, "own", "1.0", THEIRS)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index in a folder."""
    root = tmp_path / "folder"
    publish(root, "own", "1.0", OURS)
    return root


@pytest.fixture
def environ(
    tmp_path: Path, index: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Environ]:
    """The variables of a client that has installed `own` from the folder."""
    site = tmp_path / "site"
    links = [f"--find-links={each / 'files'}" for each in (folder, index)]
    for name, link in zip(("own", "dask", "tools"), (links[0], links[1], links[1]), strict=True):
        install(site, "--no-index", link, f"{name}==1.0")
    found = list(importlib.metadata.distributions(path=[str(site)]))
    by_name = {each.metadata["Name"]: each for each in found}
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)
    real = importlib.metadata.distribution
    monkeypatch.setattr(
        "importlib.metadata.distribution", lambda name: by_name.get(name) or real(name)
    )
    for name in filter(_OF_INDEXES.match, dict(os.environ)):
        monkeypatch.delenv(name)
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nextra-index-url = {(folder / 'simple').as_uri()}\n")
    with serving(index) as url:
        for name, value in {
            "PIP_CONFIG_FILE": str(settings),
            "PIP_INDEX_URL": url,
            "UV_CACHE_DIR": str(tmp_path / "cache"),
            "UV_NO_CONFIG": "1",
        }.items():
            monkeypatch.setenv(name, value)
        yield dict(os.environ)


def body(lock: SoftwareLock) -> str:
    """Return the module's text in the one wheel that was made here."""
    (wheel,) = lock.wheels
    assert wheel.name == "own"
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        return archive.read("own.py").decode()


def test_hosts_get_what_is_here_and_not_what_an_index_has_under_the_name(environ: Environ) -> None:
    lock = lock_environment(PackageSync(), "x86_64", environ)
    assert body(lock) == OURS
    assert set(lock.packages) == {"dask", "tools"}
    assert "own==" not in lock.to_requirements()


@pytest.mark.parametrize("option", ["find-links = {files}", "no-index = 1\nfind-links = {files}"])
def test_so_do_those_who_only_have_links(environ: Environ, folder: Path, option: str) -> None:
    settings = Path(environ["PIP_CONFIG_FILE"])
    settings.write_text(f"[global]\n{option.format(files=folder / 'files')}\n")
    del environ["PIP_INDEX_URL"]
    with serving(folder.with_name("index")) as url:
        lock = lock_environment(
            PackageSync(),
            "x86_64",
            {**environ, "UV_INDEX_URL": url}
            if "no-index" in option
            else {**environ, "PIP_INDEX_URL": url},
        )
    assert body(lock) == OURS


def test_a_list_gets_it_too(environ: Environ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terradask._software.client_versions.BASE", ("dask",))
    monkeypatch.setattr("terradask._software.client_versions.ADDED", ())
    lock = lock_software(["own"])
    assert body(lock) == OURS
    assert set(lock.packages) == {"dask", "tools"}


def test_a_file_gets_it_too(
    environ: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terradask._software.client_versions.BASE", ("dask",))
    monkeypatch.setattr("terradask._software.client_versions.SAME", ("dask",))
    monkeypatch.setattr("terradask._software.requirements.SAME", ("dask",))
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("own\n")
    lock = lock_file_packages(wanted, "x86_64", environ)
    assert body(lock) == OURS
    assert "own" not in lock.packages


def test_what_the_index_has_as_the_same_archive_comes_from_there(
    environ: Environ, index: Path, folder: Path
) -> None:
    shutil.rmtree(index / "simple/own")
    shutil.copytree(folder / "simple/own", index / "simple/own")
    shutil.copytree(folder / "files", index / "files", dirs_exist_ok=True)
    lock = lock_environment(PackageSync(), "x86_64", environ)
    assert not lock.wheels
    assert lock.packages["own"] == "1.0"


def test_what_no_index_has_is_built(environ: Environ, index: Path) -> None:
    shutil.rmtree(index / "simple/own")
    lock = lock_environment(PackageSync(), "x86_64", environ)
    assert body(lock) == OURS
    assert not lock.missing


def unasked(*_: Any, **__: Any) -> Any:
    raise AssertionError("an index was asked")


def test_nothing_is_asked_for_what_no_folder_has(folder: Path) -> None:
    folders = [Folder.read(folder / "simple"), Folder.read(folder / "nowhere")]
    assert find_only_in_folders({"own": "2.0", "other": "1.0"}, folders, unasked) == {}


def test_archives_are_found_by_pages_and_by_files(folder: Path) -> None:
    digest = publish(folder, "own", "1.1", "", beside=True)
    assert Folder.read(folder / "simple").hashes("own", "1.1") == {digest}
    assert Folder.read(folder / "files").hashes("own", "1.1.0") == {digest}
    assert not Folder.read(folder / "files").hashes("own", "1.2")
    (folder / "simple/own/index.html").write_text('<a href="own-1.3.tar.gz">no such file</a>')
    assert not Folder.read(folder / "simple").hashes("own", "1.3")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PIP_FIND_LINKS": "wheels https://x/y"}, ["wheels"]),
        ({"UV_FIND_LINKS": "wheels,https://x/y"}, ["wheels"]),
        ({"PIP_EXTRA_INDEX_URL": "file:///a%20b", "UV_FIND_LINKS": "c"}, ["/a b", "c"]),
        ({"UV_INDEX": "mine=file:///a", "PIP_INDEX_URL": "https://x/y"}, ["/a"]),
    ],
)
def test_where_folders_are_named(
    variables: Environ, expected: Sequence[str], tmp_path: Path
) -> None:
    machine = Machine("linux", tmp_path, tmp_path, tmp_path, tmp_path)
    environ = {"XDG_CONFIG_DIRS": str(tmp_path), **variables}
    found = local_folders(environ, machine)
    assert [each.path for each in found] == [tmp_path / each for each in expected]
