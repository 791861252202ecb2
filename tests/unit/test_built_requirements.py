"""What a file names by URL is built here, also where its build alone knows its version."""

from __future__ import annotations

import importlib.metadata
import socket
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask._software import resolver
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask.errors import SoftwareNotResolved

from ..package_index import publish, serving
from ..source_packages import install, source_folder
from .test_software_file import HERE, Lock, environment, modules, repository


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("index")
    for name in (*HERE, "bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    publish(root, "needs-none", "1.0")
    publish(root, "needs-acme", "1.0", needs=["acme-tools"])
    publish(root, "acme-tools", "9.0", body="raise SystemExit('attacked')")
    with serving(root, []) as url:
        yield url


@pytest.fixture
def lock(index: str, tmp_path: Path) -> Lock:
    """Write a file and lock the hosts' packages to it."""

    def write(name: str, text: str) -> SoftwareLock:
        (tmp_path / name).write_text(text)
        return lock_file_packages(tmp_path / name, "x86_64", environment(index, tmp_path / "cache"))

    return write


def with_dynamic_version(folder: Path) -> Path:
    """Let a source folder's version be known to its build alone."""
    settings = folder / "pyproject.toml"
    text = settings.read_text().replace('version = "1.0"\n', 'dynamic = ["version"]\n')
    settings.write_text(text + '[tool.hatch.version]\npath = "version.txt"\n')
    (folder / "version.txt").write_text('version = "1.0"\n')
    return folder


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("folder", "requirements.txt"),
        ("archive", "requirements.txt"),
        ("repository", "requirements.txt"),
        ("archive", "pyproject.toml"),
    ],
)
def test_packages_whose_version_only_their_build_knows_are_built_here(
    lock: Lock, tmp_path: Path, where: str, kind: str
) -> None:
    folder = with_dynamic_version(source_folder(tmp_path / "sources", "acme-dyn"))
    archive = tmp_path / "acme_dyn-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(folder, "acme_dyn-1.0")
    urls = {"folder": folder.as_uri(), "archive": archive.as_uri()}
    text = f"acme-dyn @ {urls.get(where) or repository(folder)}\n"
    if kind == "pyproject.toml":
        text = f'[project]\nname = "work"\nversion = "1"\ndependencies = ["{text.strip()}"]\n'
    assert modules(lock(kind, text)) == {"acme-dyn": ["acme_dyn.py"]}


FORMS = (
    "-e .",
    "lib/",
    "-r more/listed.txt",
    ".[plot] ; python_version > '3'",
    "git+file://${FOLDER}",
    "git+file://${FOLDER}@main#subdirectory=lib",
    "-e git+file://${FOLDER}#egg=acme-dyn",
    "git+file://${FOLDER}#egg=acme-dyn[plot]",
    "file://${FOLDER}/acme-dyn-main.tar.gz",
)


@pytest.mark.parametrize("form", FORMS)
def test_a_line_without_a_name_is_built_whatever_its_form(
    index: str, tmp_path: Path, form: str
) -> None:
    folder = with_dynamic_version(source_folder(tmp_path, "acme-dyn"))
    settings = folder / "pyproject.toml"
    more = '[project.optional-dependencies]\nplot = ["needs-none"]\n'
    settings.write_text(
        settings.read_text().replace("[tool.hatch.build]", f"{more}[tool.hatch.build]", 1)
    )
    with_dynamic_version(source_folder(tmp_path / "sub", "acme-lib")).rename(folder / "lib")
    repository(folder)
    subprocess.run(["git", "-C", str(folder), "branch", "-qM", "main"], check=True)
    with tarfile.open(tmp_path / "acme-dyn-main.tar.gz", "w:gz") as made:
        made.add(folder, "acme-dyn-main")
    (tmp_path / "acme-dyn-main.tar.gz").rename(folder / "acme-dyn-main.tar.gz")
    (folder / "more").mkdir()
    (folder / "more/listed.txt").write_text("-c ../limits.txt\n./lib\n")
    (folder / "limits.txt").write_text("bokeh>1\n")
    (folder / "requirements.txt").write_text(f"{form}\n")
    # Nothing that an earlier form has left.
    environ = {**environment(index, tmp_path / "cache"), "FOLDER": str(folder)}
    found = lock_file_packages(folder / "requirements.txt", "x86_64", environ)
    name = "acme-lib" if "lib" in form or "more" in form else "acme-dyn"
    assert [wheel.name for wheel in found.wheels] == [name]
    assert ("needs-none" in found.packages) == ("[plot]" in form)


def test_a_line_without_a_name_that_isnt_for_hosts_is_none(lock: Lock, tmp_path: Path) -> None:
    with_dynamic_version(source_folder(tmp_path, "acme-dyn"))
    assert modules(lock("needs.txt", "./acme-dyn ; sys_platform == 'win32'\n")) == {}


def test_what_no_build_makes_is_said_without_a_word_about_dask(lock: Lock, tmp_path: Path) -> None:
    folder = with_dynamic_version(source_folder(tmp_path, "acme-dyn"))
    (folder / "version.txt").unlink()
    with pytest.raises(SoftwareNotResolved, match="acme-dyn") as caught:
        lock("needs.txt", "git+" + repository(folder).removeprefix("git+") + "\n")
    assert "let it build here" in str(caught.value)
    assert "Hosts need Dask" not in str(caught.value)


def test_a_project_whose_version_only_its_build_knows_is_built_here(
    lock: Lock, tmp_path: Path
) -> None:
    folder = with_dynamic_version(source_folder(tmp_path, "acme-work"))
    text = (folder / "pyproject.toml").read_text()
    assert modules(lock("acme-work/pyproject.toml", text)) == {"acme-work": ["acme_work.py"]}


def test_an_editable_package_whose_version_only_its_build_knows_is_built_here(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_dynamic_version(source_folder(tmp_path / "sources"))
    install(tmp_path / "site", "--editable", str(folder))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert modules(lock("requirements.txt", "needs-acme\n")) == {"acme-tools": ["acme_tools.py"]}


def test_a_wheel_of_a_url_needs_no_build(lock: Lock, tmp_path: Path) -> None:
    wheel = tmp_path / "acme_whl-1.0-py3-none-any.whl"
    about = "acme_whl-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("acme_whl.py", "")
        made.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: acme-whl\nVersion: 1.0\n")
        made.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{about}/RECORD", "acme_whl.py,,\n")
    found = lock("requirements.txt", f"acme-whl @ {wheel.as_uri()} ; python_version > '3'\n")
    assert modules(found) == {"acme-whl": ["acme_whl.py"]}


def test_an_index_that_never_answers_is_said_to_be_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "_SECONDS", 2)
    (tmp_path / "needs.txt").write_text("frame\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        with pytest.raises(SoftwareNotResolved, match="no reply within 2 s") as caught:
            lock_file_packages(
                tmp_path / "needs.txt", "x86_64", environment(url, tmp_path / "cache")
            )
    assert caught.value.unanswered
    assert "package_sync" not in str(caught.value)
    assert "terradask software indexes" in str(caught.value)
