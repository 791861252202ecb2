"""The exact versions that hosts install are those of the client."""

import importlib.metadata
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from terradask._software.client_versions import BASE, lock_software
from terradask._software.hosts import describe_newer_glibc
from terradask._software.lock import SoftwareLock
from terradask._software.package_sync import describe_differences, lock_for_hosts, locked_once
from terradask._software.resolver import Resolver
from terradask._software.sync import PackageSync
from terradask.errors import SoftwareUnusable
from terradask_modules.errors import InvalidInput

from ..package_index import publish, serving, yank

ROOT = Path(__file__).parents[2]


def test_dask_and_all_it_needs_in_the_versions_installed_here():
    lock = lock_software()
    assert lock.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("dask", "distributed", "tornado", "msgpack", "cloudpickle"):
        assert lock.packages[name] == importlib.metadata.version(name)
    assert "cdktf" not in lock.packages


def test_what_every_host_needs_is_installed_with_terradask():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = {Requirement(text).name for text in project["dependencies"]}
    # distributed needs Dask and cloudpickle.
    assert {Requirement(text).name for text in BASE} - {"dask", "cloudpickle"} <= installed


def test_a_python_that_hosts_lack_is_refused(monkeypatch):
    monkeypatch.setattr("platform.python_version_tuple", lambda: ("3", "98", "1"))
    with pytest.raises(SoftwareUnusable, match="Hosts have no Python") as caught:
        lock_software()
    assert caught.value.given == "3.98"
    assert "3.11" in str(caught.value.allowed)


@pytest.mark.locked
def test_what_is_named_comes_with_what_it_needs():
    lock = lock_software(["pandas", "s3fs>=2025"])
    assert {"pandas", "numpy", "python-dateutil", "s3fs", "aiobotocore", "fsspec"} <= set(
        lock.packages
    )


def test_extras_bring_their_needs():
    assert set(lock_software(["moto[server]"]).packages) > set(lock_software(["moto"]).packages)


def test_the_lock_is_a_requirements_file_in_order():
    lines = lock_software().to_requirements().splitlines()
    assert lines == sorted(lines)
    assert f"dask=={importlib.metadata.version('dask')}" in lines


def test_markers_of_other_systems_are_left_out():
    # click needs colorama on Windows alone.
    assert "colorama" not in lock_software(["click"]).packages


@pytest.fixture
def picky(tmp_path, monkeypatch):
    """Install a package that needs click on x86-64, and something that isn't installed on ARM."""
    folder = tmp_path / "picky-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n"
        "Requires-Dist: click ; platform_machine == 'x86_64'\nRequires-Dist: only-for-arm ; "
        "platform_machine == 'aarch64'\n"
    )
    (folder / "RECORD").write_text("")
    monkeypatch.syspath_prepend(tmp_path)


def test_what_one_processor_alone_needs_is_for_its_hosts(picky):
    assert {"click", "picky"} <= lock_software(["picky"], architecture="x86_64").packages.keys()
    with pytest.raises(SoftwareUnusable, match="only-for-arm"):
        lock_software(["picky"], architecture="arm64")


@pytest.mark.parametrize("wanted", ["pandas==1.0.0", "no-such-package-anywhere"])
def test_what_is_not_installed_here_is_refused(wanted):
    with pytest.raises(SoftwareUnusable, match="client's environment") as caught:
        lock_software([wanted])
    text = str(caught.value)
    assert f"pip install '{wanted}'" in text
    assert wanted.partition("=")[0] in text


def test_a_second_demand_for_the_same_package_is_checked_too():
    with pytest.raises(SoftwareUnusable, match="client's environment"):
        lock_software(["dask==2020.1.0"])


def test_what_is_no_requirement_is_refused():
    with pytest.raises(InvalidInput, match="not a requirement"):
        lock_software(["pandas = 3"])


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Install a package from a wheel with some platform tags."""

    def install(*platforms):
        folder = tmp_path / "fresh-1.0.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fresh\nVersion: 1.0\n")
        (folder / "RECORD").write_text("")
        tags = "".join(f"Tag: cp311-cp311-{platform}\n" for platform in platforms)
        (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\n{tags}")

    monkeypatch.syspath_prepend(tmp_path)
    return install


@pytest.mark.parametrize(
    ("platforms", "needed"),
    [
        (("manylinux_2_39_x86_64",), (2, 39)),
        (("manylinux_2_34_x86_64",), None),
        # A wheel may be for several; an older one suffices.
        (("manylinux_2_17_x86_64.manylinux2014_x86_64.manylinux_2_39_x86_64",), None),
        (("manylinux2014_x86_64", "manylinux_2_39_x86_64"), None),
        (("macosx_11_0_arm64",), None),
        (("any",), None),
        ((), None),
    ],
)
def test_wheels_for_a_newer_glibc_than_the_hosts_are_told(wheel, platforms, needed):
    wheel(*platforms)
    lock = lock_software(["fresh"])
    assert lock.newer_glibc == ({} if needed is None else {"fresh": needed})
    assert "fresh (glibc 2.39)" in describe_newer_glibc({"fresh": (2, 39)})


def test_hosts_have_what_the_dashboard_and_pip_install_need():
    packages = lock_software().packages
    for name in ("bokeh", "jinja2", "pip"):
        assert packages[name] == importlib.metadata.version(name)


def test_hosts_do_without_a_pip_that_is_not_from_an_index(monkeypatch, tmp_path):
    (tmp_path / "pip-99.0.dist-info").mkdir()
    (tmp_path / "pip-99.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: pip\nVersion: 99.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    lock = lock_software()
    assert "pip" not in lock.versions
    assert "dask" in lock.packages


@pytest.mark.locked
def test_hosts_do_without_a_pip_that_the_teams_lock_file_leaves_out(tmp_path):
    whole = (ROOT / "requirements/dev.lock").read_text()
    lock_file = tmp_path / "requirements.txt"
    lock_file.write_text(whole)
    assert "pip" in lock_software(lock_file=lock_file).packages
    # As pip-compile does.
    lock_file.write_text(re.sub(r"(?m)^pip==.*\n(?:    .*\n)*", "", whole))
    assert "pip" not in lock_software(lock_file=lock_file).packages


def test_one_cluster_resolves_the_same_request_once(monkeypatch) -> None:
    asked: list[object] = []

    def lock(software: list[str], **rest: object) -> SoftwareLock:
        asked.append((software, rest))
        return SoftwareLock("3.12")

    monkeypatch.setattr("terradask._software.package_sync.lock_software", lock)

    def twice(*, architecture: str = "x86_64") -> int:
        for _ in range(2):
            lock_for_hosts(["a"], PackageSync(False), architecture=architecture, lock_file=None)
        return len(asked)

    with locked_once():
        assert twice() == 1
        # The cluster turned out to have other hosts.
        assert twice(architecture="arm64") == 2
    assert twice() == 4


def test_a_version_that_its_index_has_yanked_comes_with_a_warning(tmp_path) -> None:
    publish(tmp_path, "old", "1.0")
    yank(tmp_path, "old", "broken on Mondays")
    with serving(tmp_path) as url:
        environ = {**os.environ, "UV_DEFAULT_INDEX": url, "UV_CACHE_DIR": str(tmp_path / "cache")}
        found = Resolver("x86_64", environ)(["old==1.0"])
    warning = describe_differences(SoftwareLock("3.12", {"old": "1.0"}, yanked=found.yanked))
    assert "old 1.0" in warning
    assert "broken on Mondays" in warning


def test_the_differences_are_one_warning() -> None:
    lock = SoftwareLock("3.12", missing={"acme": "editable"}, changed={"fast": ("1.2", "1.3")})
    assert describe_differences(lock) == (
        "hosts don't get acme (editable); hosts get fast 1.3 instead of 1.2"
    )
    assert describe_differences(SoftwareLock("3.12")) == ""
