"""What hosts install of an ``environment.yml``, as the real rattler and uv find it in a channel and
an index on loopback.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask._software.conda.lock import installer_lock, installer_wheel
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.package_sync import describe_packages
from terradask.errors import (
    SetupError,
    SoftwareNotResolved,
    SoftwareUnusable,
)
from terradask_host.agent.environment import check_lock

from .. import conda_channel
from ..command import in_this_process
from ..conda_channel import ARCHITECTURE, MINOR, SUBDIR, module, publish_conda
from ..package_index import publish, serving
from ..source_packages import install, source_folder
from .test_software_file import environment

HERE = {name: importlib.metadata.version(name) for name in ("dask", "distributed", "cloudpickle")}
NEXT_MINOR = f"3.{sys.version_info.minor + 1}"
LOCK = Path(__file__).parents[2] / "requirements/dev.lock"

Lock = Callable[..., SoftwareLock]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is served: two channels and an index."""
    root = tmp_path_factory.mktemp("served")
    forge, other = root / "forge", root / "other"
    # Hosts don't run these: of Python and Dask the names are enough.
    publish_conda(forge, "python", platform.python_version(), subdir=SUBDIR)
    publish_conda(forge, "python", f"{NEXT_MINOR}.0", subdir=SUBDIR)
    for name, version in HERE.items():
        conda_name = conda_channel.CONDA_NAMES.get(name, name)
        files = module(name, version, "")
        publish_conda(forge, conda_name, version, files, depends=["python"], is_python=True)
    publish_conda(forge, "dask", HERE["dask"], depends=[f"dask-core {HERE['dask']}"])
    publish_conda(forge, "dask-core", "2020.1.0", depends=["python"])
    for name in ("bokeh", "pip"):
        publish_conda(forge, name, "9.0", module(name, "9.0", ""), depends=["python"])
    below = f"lib/python{MINOR}/site-packages"
    numbers = {
        **module("numbers-of-acme", "8.0", "", below),
        f"{below}/old_style-1.2-py{MINOR}.egg-info/PKG-INFO": b"",
    }
    publish_conda(forge, "libnumbers", "8.0", numbers, depends=["python"], subdir=SUBDIR)
    publish_conda(forge, "frame", "2.0", depends=["libnumbers >=8"])
    publish_conda(forge, "new", "1.0", depends=["__glibc >=2.39"])
    publish_conda(forge, "suits", "1.0", depends=["__glibc >=2.17", "__linux", "__unix"])
    publish_conda(forge, "fast", "1.0", depends=["__archspec * x86_64_v3"])
    publish_conda(forge, "gpu", "1.0", depends=["__cuda >=12"])
    publish_conda(forge, "clash", "1.0", depends=["libnumbers <8"])
    publish_conda(other, "frame", "3.0")
    publish_conda(other, "only-here", "1.0")
    publish_conda(other, "suits", "0.9")
    for channel in (forge, other):
        conda_channel.index(channel)
    publish(root, "acme-web", "1.0", needs=["numbers-of-acme>=8", "old-style", "pure"])
    publish(root, "acme-old", "1.0", needs=["numbers-of-acme<8"])
    publish(root, "pure", "1.0")
    publish(root, "dask", HERE["dask"])
    publish(root, "dask", "2099.1.0", beside=True)
    publish(root, "bokeh", "3.9")
    publish(root, "acme-tools", "9.0", body="raise SystemExit('attacked')")
    return root


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """The paths that were asked for."""
    return []


@pytest.fixture(scope="module")
def url(root: Path, asked: list[str]) -> Iterator[str]:
    with serving(root, asked) as url:
        yield url


@pytest.fixture
def lock(url: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lock:
    """Write a file and lock the hosts' packages to it; HOST is the one of the channels."""
    conda_channel.own_cache(tmp_path / "cache", monkeypatch)
    environ = {**environment(url, tmp_path / "uv"), "HOME": str(tmp_path)}
    base = url.removesuffix("/simple")

    def write(text: str, architecture: str = ARCHITECTURE, **more: str) -> SoftwareLock:
        path = tmp_path / "environment.yml"
        path.write_text(text.replace("HOST", base))
        asked.clear()
        return lock_file_packages(path, architecture, {**environ, **more})

    return write


def names(lock: SoftwareLock) -> dict[str, str]:
    return {package.name: package.version for package in lock.conda}


def test_hosts_get_what_the_file_names_with_python_and_dask_as_they_are_here(
    lock: Lock, url: str
) -> None:
    found = lock(
        "name: x\nprefix: /opt/x\nchannels: ['HOST/forge']\ndependencies: [frame, suits]\n"
    )
    assert names(found) == {
        "python": platform.python_version(),
        "dask-core": HERE["dask"],
        "distributed": HERE["distributed"],
        "cloudpickle": HERE["cloudpickle"],
        "bokeh": "9.0",
        "pip": "9.0",
        "libnumbers": "8.0",
        "frame": "2.0",
        "suits": "1.0",
    }
    assert HERE.items() <= found.versions.items()
    assert found.python == MINOR
    assert found.is_hashed
    assert not found.packages
    assert not found.missing
    channel = url.replace("/simple", "/forge")
    assert found.loopback == [channel]
    lines = check_lock(found.to_requirements())
    assert lines[0] == f"conda-installer {next(iter(found.contents))}"
    assert all(line.startswith(f"conda {channel}/") for line in lines[1:])
    assert describe_packages(found) == "hosts get 10 packages"


def test_the_first_channel_that_has_a_name_decides(lock: Lock) -> None:
    text = "channels: ['HOST/other', 'HOST/forge']\ndependencies: [frame, only-here, suits]\n"
    found = names(lock(text))
    assert found["frame"] == "3.0"
    assert found["suits"] == "0.9"
    with pytest.raises(SoftwareUnusable, match="/other has frame only in versions"):
        lock("channels: ['HOST/other', 'HOST/forge']\ndependencies: [frame <3]\n")
    text = "channels: ['HOST/other', 'HOST/forge']\ndependencies: ['HOST/forge::frame']\n"
    assert names(lock(text))["frame"] == "2.0"


def test_the_list_for_pip_stands_beside_condas_packages(
    lock: Lock, asked: list[str], tmp_path: Path
) -> None:
    source_folder(tmp_path, "local-tools")
    (tmp_path / "more.txt").write_text("pure\n")
    found = lock(
        "channels: ['HOST/forge']\ndependencies:\n- frame\n"
        "- pip: [acme-web, ./local-tools, -r more.txt, terradask]\n"
    )
    assert found.packages == {"acme-web": "1.0", "pure": "1.0"}
    assert [wheel.name for wheel in found.wheels] == ["local-tools"]
    assert all(found.hashes.values())
    # What conda's packages contain, under whichever name, no index is asked for.
    assert {path for path in asked if path.startswith("/simple/")} == {
        "/simple/acme-web/",
        "/simple/pure/",
    }
    assert check_lock(found.to_requirements())


def test_dask_may_be_pips(lock: Lock) -> None:
    text = "channels: ['HOST/forge']\ndependencies: [frame, {pip: ['dask>=2026', bokeh]}]\n"
    found = lock(text)
    assert found.packages == {"dask": HERE["dask"], "bokeh": "3.9"}
    assert not {"dask-core", "bokeh"} & names(found).keys()
    with pytest.raises(SoftwareUnusable, match=r"it has dask 2099\.1\.0; the client has"):
        lock(text.replace(">=2026", ">=2099"))


def test_a_name_that_came_from_no_index_here_is_asked_of_none(
    lock: Lock, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    install(site, str(source_folder(tmp_path / "source", "acme-tools")))
    monkeypatch.syspath_prepend(str(site))
    found = lock("channels: ['HOST/forge']\ndependencies:\n- frame\n- pip: [acme-tools]\n")
    assert [(wheel.name, wheel.version) for wheel in found.wheels] == [("acme-tools", "1.0")]
    assert not any("acme" in path for path in asked)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dependencies: [absent]", r"(?s)rattler could not.*absent.*put these|no channel has"),
        ("dependencies: [frame, clash]", "(?s)rattler could not.*libnumbers"),
        ("dependencies: [new]", "(?s)rattler could not.*__glibc"),
        ("dependencies: [fast]", "(?s)rattler could not.*__archspec"),
        ("dependencies: [gpu]", "(?s)rattler could not.*__cuda"),
        (f"dependencies: [python={NEXT_MINOR}]", rf"it has python={NEXT_MINOR}, .*python {MINOR}"),
        ("dependencies: [dask=2020.1.0]", rf"it has dask=2020.1.0, .*dask {HERE['dask']}"),
        ("dependencies: [dask-core <2021]", "it has dask-core <2021"),
        ("dependencies: ['frame >>> 1']", "frame >>> 1"),
        ("dependencies: ['https://x/y/linux-64/a-1-0.conda']", "an archive"),
        ("dependencies: ['conda-forge::frame']", "its channel is not among the file's channels"),
        ("dependencies: [frame, {pip: [absent]}]", "(?s)uv could not.*absent"),
        ("dependencies: [frame, {pip: [acme-old]}]", "conda packages provide numbers-of-acme 8.0"),
        ("dependencies: [frame, {pip: [dask==2020.1.0]}]", "(?s)uv could not.*dask"),
    ],
)
def test_what_hosts_can_not_have_is_told(lock: Lock, text: str, said: str) -> None:
    with pytest.raises((SoftwareNotResolved, SoftwareUnusable), match=said):
        lock(f"channels: ['HOST/forge']\n{text}\n")


def test_a_driver_that_only_hosts_have_is_said_as_conda_does(lock: Lock) -> None:
    text = "channels: ['HOST/forge']\ndependencies: [gpu]\n"
    assert "gpu" in names(lock(text, CONDA_OVERRIDE_CUDA="12.8"))


def test_another_processor_has_other_packages(lock: Lock) -> None:
    other = "arm64" if ARCHITECTURE == "x86_64" else "x86_64"
    with pytest.raises(SoftwareNotResolved, match="No candidates were found for python"):
        lock("channels: ['HOST/forge']\ndependencies: [frame]\n", other)


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("HOST/absent", "absent"),
        ("http://me:s3cr3t@127.0.0.1:9/forge", "127.0.0.1:9/forge"),
        ("http://127.0.0.1:9/t/s3cr3t/forge", "/t/\\*\\*\\*/forge"),
    ],
)
def test_a_channel_that_does_not_answer_is_named(lock: Lock, channel: str, said: str) -> None:
    with pytest.raises(SoftwareNotResolved, match=said) as told:
        lock(f"channels: ['{channel}']\ndependencies: [frame]\n")
    assert told.value.unanswered
    assert "see that the file's channels" in str(told.value)
    assert "s3cr3t" not in str(told.value)


@pytest.mark.parametrize("kind", ["url", "variable", "netrc", "file"])
def test_credentials_are_found_and_are_no_part_of_the_lock(
    root: Path, tmp_path: Path, lock: Lock, kind: str
) -> None:
    more: dict[str, str] = {"RATTLER_AUTH_FILE": str(tmp_path / "auth.json")}
    user = {"url": "me:s3cr3t@", "variable": "me:${MY_TOKEN}@"}.get(kind, "")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password s3cr3t\n")
    if kind != "netrc":
        (tmp_path / ".netrc").unlink()
    if kind == "file":
        entry = {"127.0.0.1": {"BasicHTTP": {"username": "me", "password": "s3cr3t"}}}
        (tmp_path / "auth.json").write_text(json.dumps(entry))
    with serving(root, user="me:s3cr3t") as url:
        channel = url.replace("/simple", "/forge")
        given = channel.replace("//", f"//{user}")
        text = f"channels: ['{given}']\ndependencies: [frame, {{pip: []}}]\n"
        found = lock(text, MY_TOKEN="s3cr3t", **more)
    assert found.credentials == {channel: "me:s3cr3t"}
    assert "s3cr3t" not in f"{found!r} {found.to_requirements()}"


def test_a_token_in_the_path_is_no_part_of_the_lock(root: Path, tmp_path: Path, lock: Lock) -> None:
    (tmp_path / "served/conda/t").mkdir(parents=True)
    (tmp_path / "served/conda/t/s3cr3t").symlink_to(root)
    asked: list[str] = []
    with serving(tmp_path / "served", asked) as url:
        base = url.replace("/simple", "/conda")
        found = lock(f"channels: ['{base}/t/s3cr3t/forge']\ndependencies: [frame, {{pip: []}}]\n")
    assert found.credentials == {f"{base}/forge": "/conda/t/s3cr3t"}
    assert "s3cr3t" not in f"{found!r} {found.to_requirements()}"
    assert f"/conda/t/s3cr3t/forge/{SUBDIR}/repodata.json" in asked
    # Nothing on this disk has it either.
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.suffix in (".json", ".info")]
    assert not any(b"s3cr3t" in path.read_bytes() for path in kept)


def test_without_rattler_the_error_says_what_to_install(
    lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rattler", None)
    with pytest.raises(SetupError, match=r"pip install 'terradask\[conda\]'"):
        lock("channels: ['HOST/forge']\ndependencies: [frame]\n")


def test_modules_of_the_working_directory_are_no_part_of_the_query(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "asyncio", "terradask", "rattler"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('attacked')\n")
    monkeypatch.chdir(tmp_path)
    assert lock("channels: ['HOST/forge']\ndependencies: [frame]\n").conda


@pytest.mark.parametrize("program", ["/bin/false", "/absent"])
def test_a_query_that_ends_without_an_answer_is_told(
    lock: Lock, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(SoftwareNotResolved, match=r"it ended with 1|FileNotFoundError") as told:
        lock("channels: ['HOST/forge']\ndependencies: [frame]\n")
    assert told.value.unanswered


def test_the_installer_is_the_version_that_is_tested_here() -> None:
    (package,) = installer_lock().hashes
    assert package == f"py-rattler=={importlib.metadata.version('py-rattler')}"
    lines = LOCK.read_text().split(f"{package} ")[1].split("# via")[0]
    assert {word.removeprefix("--hash=sha256:") for word in lines.split() if "--hash" in word} == {
        *installer_lock().hashes[package]
    }


def test_an_installer_that_can_not_be_had_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with serving(tmp_path) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        with pytest.raises(SetupError, match=r"(?s)py-rattler==.*conda.*PIP_INDEX"):
            installer_wheel(ARCHITECTURE)


def test_what_hosts_would_install_is_shown(lock: Lock, tmp_path: Path) -> None:
    text = "channels: ['HOST/forge']\ndependencies: [frame]\n"
    found = lock(text)
    file = str(tmp_path / "environment.yml")
    command = ("software", "lock", file, "--architecture", ARCHITECTURE)
    said = in_this_process(*command)
    assert said.returncode == 0, said.stderr
    path = tmp_path / "pylock.toml"
    path.write_text(said.stdout)
    again = lock_file_packages(path, ARCHITECTURE, os.environ)
    assert again.conda == found.conda
    assert again.channels == found.channels
    assert again.to_requirements() == found.to_requirements()
    shown = json.loads(in_this_process(*command, "--json").stdout)
    assert {each["name"] for each in shown["conda"]} == names(found).keys()
    (frame,) = (each for each in shown["conda"] if each["name"] == "frame")
    assert frame["url"].endswith("/forge/noarch/frame-2.0-0.conda")
