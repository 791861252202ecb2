"""Packages that uv takes from a page of links, which is no index: hosts get their wheels from the
bucket.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask._software.client_versions import lock_software
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.package_sync import lock_environment
from terradask._software.sync import PackageSync
from terradask._software.uv import find_uv
from terradask.errors import SoftwareUnusable

from ..package_index import publish, serving
from ..source_packages import install
from .test_software_file import HERE, PINS, environment, with_project_settings

BASE = (*HERE, "bokeh", "pip")

Environ = dict[str, str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A server of an index, and of pages with and without hashes; and its URL."""
    root = tmp_path_factory.mktemp("index")
    for name in BASE:
        publish(root, name, importlib.metadata.version(name))
    digest = publish(root, "linked", "1.0", body="author = 'the page'")
    (root / "simple/linked/index.html").unlink()
    (root / "simple/linked").rmdir()
    for name, fragment in (("plain", ""), ("hashed", f"#sha256={digest}")):
        link = f'<a href="files/linked-1.0-py3-none-any.whl{fragment}">linked</a>'
        (root / f"{name}.html").write_text(f"<!DOCTYPE html>{link}")
    with serving(root) as url:
        yield root, url.removesuffix("/simple")


@pytest.fixture
def url(served: tuple[Path, str]) -> str:
    return served[1]


@pytest.fixture
def environ(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environ:
    """A client's variables, in a project's folder whose configuration uv reads."""
    monkeypatch.chdir(tmp_path)
    own = with_project_settings(environment(f"{url}/simple", tmp_path / "cache"), tmp_path)
    return {name: each for name, each in own.items() if not name.startswith("PIP_")}


def check(lock: SoftwareLock) -> None:
    assert [(wheel.name, wheel.version) for wheel in lock.wheels] == [("linked", "1.0")]
    assert "linked" not in lock.packages
    assert ".html" not in lock.to_requirements()
    assert not any(".html" in option for options in lock.indexes.values() for option in options)


@pytest.mark.parametrize("page", ["plain.html", "hashed.html"])
@pytest.mark.parametrize("line", ["-f {}", "--find-links='{}'", "-f http://${{HOST}}/{page}"])
def test_of_a_requirements_file(
    environ: Environ, url: str, tmp_path: Path, page: str, line: str
) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(line.format(f"{url}/{page}", page=page) + "\nlinked\n")
    host = url.removeprefix("http://")
    check(lock_file_packages(listed, "x86_64", {**environ, "HOST": host}))


@pytest.mark.parametrize(
    "text",
    ['[tool.uv]\nfind-links = ["{}"]\n', '[[tool.uv.index]]\nurl = "{}"\nformat = "flat"\n'],
)
@pytest.mark.parametrize("file", ["pyproject.toml", "requirements.txt", "uv.lock"])
def test_of_a_project(environ: Environ, url: str, tmp_path: Path, text: str, file: str) -> None:
    needs = ", ".join(f'"{each}"' for each in ["linked", *PINS.split(), "bokeh", "pip"])
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "work"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f"dependencies = [{needs}]\n" + text.format(f"{url}/plain.html")
    )
    (tmp_path / "requirements.txt").write_text("linked\n")
    if file == "uv.lock":
        subprocess.run([find_uv(environ), "lock", "--quiet"], env=environ, check=True)
    check(lock_file_packages(tmp_path / file, "x86_64", environ))


@pytest.mark.parametrize("variable", ["UV_FIND_LINKS", "PIP_FIND_LINKS"])
@pytest.mark.parametrize("how", ["package_sync", "software"])
def test_of_this_environment(
    environ: Environ,
    served: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    how: str,
) -> None:
    root, url = served
    site = tmp_path / "site"
    links = f"--find-links={root / 'files'}"
    install(site, "--no-index", links, "linked", *PINS.split(), "bokeh", "pip")
    found = list(importlib.metadata.distributions(path=[str(site)]))
    everywhere = importlib.metadata.distributions
    monkeypatch.setattr(
        "importlib.metadata.distributions", lambda **given: everywhere(**given) if given else found
    )
    by_name = {each.metadata["Name"]: each for each in found}
    monkeypatch.setattr("importlib.metadata.distribution", by_name.__getitem__)
    for name, value in {**environ, variable: f"{url}/plain.html"}.items():
        monkeypatch.setenv(name, value)
    here = {**environ, variable: f"{url}/plain.html"}
    lock = (
        lock_environment(PackageSync(), "x86_64", here)
        if how == "package_sync"
        else lock_software(["linked"])
    )
    check(lock)
    assert HERE.items() <= lock.packages.items()


def test_with_hashes_the_page_has_to_have_that_archive(
    environ: Environ, served: tuple[Path, str], tmp_path: Path
) -> None:
    root, url = served
    listed = tmp_path / "requirements.txt"
    hashes = {
        archive.name.split("-")[0]: hashlib.sha256(archive.read_bytes()).hexdigest()
        for archive in (root / "files").iterdir()
    }
    versions = {name: importlib.metadata.version(name) for name in BASE} | {"linked": "1.0"}

    def write() -> None:
        listed.write_text(
            f"-f {url}/plain.html\n"
            + "".join(f"{n}=={v} --hash=sha256:{hashes[n]}\n" for n, v in versions.items())
        )

    write()
    check(lock_file_packages(listed, "x86_64", environ))
    hashes["linked"] = "0" * 64
    write()
    with pytest.raises(SoftwareUnusable, match=r"its hashes of linked 1\.0"):
        lock_file_packages(listed, "x86_64", environ)
