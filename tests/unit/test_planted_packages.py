"""Packages that are wrong in an index, by each way in which hosts get packages: what is said names
the package, what was tried, and what to do. With the real uv.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask._software.client_versions import lock_software
from terradask._software.hosts import python_version
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.package_sync import describe_differences, lock_environment
from terradask._software.sync import PackageSync
from terradask._software.uv import find_uv
from terradask.errors import (
    SoftwareNotResolved,
    SoftwareUnusable,
    TerradaskError,
)
from terradask_host.agent.environment import Environment
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths
from terradask_host.errors import EnvironmentFailed

from ..package_index import publish, publish_source, serving, yank
from ..source_packages import install, source_folder
from ..waiting import PROCESS_SECONDS
from .test_package_sync import Environ, client
from .test_software_file import HERE, PINS, repository

MAC = "cp311-cp311-macosx_11_0_arm64"
#: A build that fails, and would be seen if it ran where it must not.
BROKEN = "raise SystemExit('the build needs a compiler')\n"
WAYS = ("package_sync", "requirements.txt", "pyproject.toml", "uv.lock")


@pytest.fixture
def asked() -> list[str]:
    """The paths that the index was asked for."""
    return []


@pytest.fixture
def environ(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Environ]:
    """The variables of a client whose index has what is wrong."""
    root = tmp_path / "index"
    for name in ("dask", "distributed", "cloudpickle", "bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    publish_source(root, "broken", "1.0", BROKEN)
    publish(root, "elsewhere", "1.0", tag=MAC)
    publish(root, "withdrawn", "1.0")
    yank(root, "withdrawn", "it deletes files")
    publish(root, "acme-tools", "1.0", "raise SystemExit('attacked')")
    publish(root, "needs-acme", "1.0", needs=["acme-tools"])
    monkeypatch.setattr("terradask_host.agent.uv.TRIES", 1)
    with serving(root, asked) as url:
        environ = client(url, tmp_path / "cache")
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        yield environ


Lock = Callable[[str, str], SoftwareLock]


@pytest.fixture
def lock(environ: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lock:
    """Have hosts' packages locked with one more package, in one of the ways."""

    def locked(way: str, name: str) -> SoftwareLock:
        if way == "package_sync":
            _installed(tmp_path, monkeypatch, name)
            sync = PackageSync(fail_on="warning-or-higher")
            return lock_environment(sync, "x86_64", environ)
        path = tmp_path / "work" / way
        path.parent.mkdir()
        needs = [f"{name}==1.0", *PINS.split(), "bokeh", "pip"]
        listed = ", ".join(f'"{need}"' for need in needs)
        path.with_name("pyproject.toml").write_text(
            f'[project]\nname = "work"\nversion = "1"\nrequires-python = ">=3.11"\n'
            f"dependencies = [{listed}]\n"
        )
        if way == "requirements.txt":
            path.write_text("\n".join(needs))
        if way == "uv.lock":
            command = [find_uv(environ), "lock", "--quiet"]
            subprocess.run(command, cwd=path.parent, env=environ, check=True)
        return lock_file_packages(path, "x86_64", environ)

    return locked


def _installed(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have Dask and a package installed, from an index."""
    for each, version in {**HERE, name: "1.0"}.items():
        about = folder / f"site/{each}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {each}\nVersion: {version}\n")
        (about / "RECORD").write_text("")
    found = list(importlib.metadata.distributions(path=[str(folder / "site")]))
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)


def says(error: TerradaskError, *parts: str) -> None:
    text = str(error)
    assert all(part in text for part in (*parts, "to do: ")), text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["broken", "elsewhere"])
def test_what_has_no_wheel_for_hosts_is_named_and_nothing_is_built(
    lock: Lock, way: str, name: str
) -> None:
    """Of a source archive whose build fails, and of a wheel for another platform."""
    with pytest.raises((SoftwareUnusable, SoftwareNotResolved)) as caught:
        lock(way, name)
    says(caught.value, name)
    assert "compiler" not in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_version_that_was_yanked_is_told_with_the_reason(lock: Lock, way: str) -> None:
    found = lock(way, "withdrawn")
    assert found.packages["withdrawn"] == "1.0"
    if way == "uv.lock":
        # It has been reviewed, and no index is asked.
        return
    said = 'hosts get withdrawn 1.0, which its index has yanked (reason: "it deletes files")'
    assert said in describe_differences(found)


@pytest.mark.parametrize("name", ["broken", "elsewhere"])
def test_what_software_names_fails_on_the_host_with_the_installers_words(
    environ: Environ, tmp_path: Path, name: str
) -> None:
    """`software` asks no index here."""
    with pytest.raises(EnvironmentFailed) as caught:
        _host(tmp_path, f"{name}==1.0\n").build()
    text = str(caught.value)
    assert f"{name}==1.0" in text or f"`{name}" in text
    assert "each has a wheel for this processor" in text
    if name == "broken":
        assert "the build needs a compiler" in text


def test_what_software_names_and_was_yanked_is_installed_with_a_line_in_the_log(
    environ: Environ, tmp_path: Path
) -> None:
    log: list[str] = []
    _host(tmp_path, "withdrawn==1.0\n", log).build()
    assert [line for line in log if "yanked" in line and "it deletes files" in line]


def _host(folder: Path, lock: str, log: list[str] | None = None) -> Environment:
    return Environment(
        Paths(folder / "host"),
        python_version(),
        lock,
        events=EventQueue(),
        log=([] if log is None else log).append,
        deadline_seconds=PROCESS_SECONDS,
    )


def test_a_folder_whose_build_fails_is_named_with_what_it_says(
    environ: Environ, tmp_path: Path
) -> None:
    folder = source_folder(tmp_path / "sources", "acme-tools")
    (folder / "backend.py").write_text(BROKEN)
    text = (folder / "pyproject.toml").read_text().partition("[build-system]")[0]
    (folder / "pyproject.toml").write_text(
        f'{text}[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    path = tmp_path / "requirements.txt"
    path.write_text(f"acme-tools @ {folder.as_uri()}\n")
    with pytest.raises((SoftwareUnusable, SoftwareNotResolved)) as caught:
        lock_file_packages(path, "x86_64", environ)
    says(caught.value, "acme-tools", "the build needs a compiler")


@pytest.mark.parametrize("source", ["folder", "repository"])
def test_a_uv_lock_has_the_teams_package_and_its_name_is_asked_of_no_index(
    environ: Environ, asked: list[str], tmp_path: Path, source: str
) -> None:
    """Neither when it is locked here, nor where another package needs it."""
    folder = source_folder(tmp_path / "sources", "acme-tools")
    (folder / "acme_tools.py").write_text("print('ours')\n")
    url = repository(folder).removeprefix("git+")
    named = {"folder": f'path = "{folder}", editable = true', "repository": f'git = "{url}"'}
    needs = ", ".join(f'"{need}"' for need in ["needs-acme", "acme-tools", *PINS.split()])
    work = tmp_path / "work"
    work.mkdir()
    (work / "pyproject.toml").write_text(
        '[project]\nname = "work"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f"dependencies = [{needs}]\n[tool.uv.sources]\nacme-tools = {{ {named[source]} }}\n"
    )
    environ |= {"UV_NO_BUILD_ISOLATION": "1"}
    # The sources are the project's own settings.
    del environ["UV_NO_CONFIG"]
    subprocess.run([find_uv(environ), "lock", "--quiet"], cwd=work, env=environ, check=True)
    found = lock_file_packages(work / "uv.lock", "x86_64", environ)
    assert "acme-tools" not in found.packages
    assert found.packages["needs-acme"] == "1.0"
    (wheel,) = found.wheels
    python = _host_with(tmp_path, found)
    done = subprocess.run([python, "-c", "import acme_tools"], capture_output=True, check=True)
    assert done.stdout == b"ours\n"
    assert wheel.name == "acme-tools"
    assert not [path for path in asked if "acme-tools" in path or "acme_tools" in path]


def _host_with(folder: Path, lock: SoftwareLock) -> Path:
    """Build what a host would, of the one wheel and what needs it."""
    lines = [
        line
        for line in lock.to_requirements().splitlines()
        if line.startswith(("acme-tools", "needs-acme"))
    ]
    return Environment(
        Paths(folder / "host"),
        python_version(),
        "\n".join(lines) + "\n",
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
        read=lock.contents.get,
    ).build()


@pytest.mark.parametrize("name", ["dask", "distributed"])
def test_a_url_for_what_came_from_an_index_here_is_refused(
    environ: Environ, asked: list[str], name: str
) -> None:
    """The index's package isn't what was asked for, and no repository is asked from here."""
    with pytest.raises(SoftwareUnusable, match="differs from the client") as caught:
        lock_software([f"{name} @ git+https://example.org/{name}@main"])
    version = importlib.metadata.version(name)
    says(caught.value, f"{name} {version}, from a package index", "pip install")
    assert asked == []


@pytest.mark.parametrize(
    ("asked_for", "suits"),
    [
        ("{url}", True),
        ("{url}@{commit}", True),
        ("git+https://example.org/acme-tools", False),
        ("{url}@another", False),
        ("{folder}", False),
    ],
)
def test_a_url_has_to_be_the_one_that_was_installed_here(
    asked_for: str, suits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source_folder(tmp_path / "sources", "acme-tools")
    url = repository(folder)
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    site = tmp_path / "site"
    install(site, f"acme-tools @ {url}")
    monkeypatch.syspath_prepend(str(site))
    text = asked_for.format(url=url, commit=commit, folder=tmp_path.as_uri())
    if suits:
        lock = lock_software([f"acme-tools @ {text}"])
        assert [wheel.name for wheel in lock.wheels] == ["acme-tools"]
        return
    with pytest.raises(SoftwareUnusable, match="differs from the client") as caught:
        lock_software([f"acme-tools @ {text}"])
    says(caught.value, f"acme-tools 1.0, from {url}", f"pip install 'acme-tools @ {text}'")
