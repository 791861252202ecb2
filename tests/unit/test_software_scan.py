"""Which packages of an environment hosts can have, and why not the others."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from terradask._software.environment import read_installed
from terradask._software.hosts import applies, host_markers
from terradask._software.local_wheels import LocalWheel
from terradask._software.lock import SoftwareLock
from terradask._software.scan import AddedPackage, Scan, scan

from ..command import in_this_process

MAC = {
    "os_name": "posix",
    "sys_platform": "darwin",
    "platform_system": "Darwin",
    "platform_machine": "arm64",
}


@pytest.mark.parametrize(
    ("marker", "extras", "holds"),
    [
        ("extra == 'fast'", ["slow", "fast"], True),
        ("extra == 'Fast_er'", ["fast-er"], True),
        ("extra == 'fast-er'", ["Fast.Er"], True),
        ("extra == 'fast'", ["slow"], False),
        ("extra == 'fast'", [], False),
        ("extra != 'fast'", ["fast"], True),
        ("sys_platform == 'linux'", ["fast"], True),
        ("sys_platform == 'darwin'", ["fast"], False),
        ("extra == 'fast' and sys_platform == 'darwin'", ["fast"], False),
        ("extra == 'fast' or extra == 'slow'", ["slow"], True),
    ],
)
def test_a_requirement_holds_with_any_extra_that_there_is(
    marker: str, extras: list[str], holds: bool
) -> None:
    requirement = Requirement(f"acme; {marker}")
    assert applies(requirement, extras, host_markers("x86_64")) is holds


def plant(site: Path, name: str, *needs: str, extras: tuple[str, ...] = (), **files: str) -> None:
    """Plant an installed package, with these files beside its metadata."""
    about = site / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    lines = [f"Requires-Dist: {need}" for need in needs]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    head = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    (about / "METADATA").write_text("\n".join([*head, *lines, ""]))
    for file, text in ({"RECORD": ""} | files).items():
        (about / file.replace("__", ".")).write_text(text)


def scanned(
    *sites: Path,
    architecture: str = "x86_64",
    python: str = "3.12",
    keep: Sequence[str] = (),
) -> Scan:
    """Scan these folders as a Mac's environment."""
    found = importlib.metadata.distributions(path=[str(site) for site in sites])
    return scan(
        read_installed(found, "x86_64"),
        python=python,
        architecture=architecture,
        here=MAC,
        hosts=host_markers(architecture),
        keep=keep,
    )


def verdicts(found: Scan) -> dict[str, str]:
    return {package.name: package.verdict for package in found.packages}


def test_what_came_from_an_index_is_taken(tmp_path: Path) -> None:
    plant(tmp_path, "Acme_Tools", "acme-core")
    plant(tmp_path, "acme-core")
    found = scanned(tmp_path)
    assert verdicts(found) == {"acme-core": "taken", "acme-tools": "taken"}
    assert {package.origin for package in found.packages} == {"index"}
    assert found.counts == {"taken": 2, "built": 0, "dropped": 0, "refused": 0, "added": 0}


def test_what_only_this_platform_needs_is_dropped_with_what_it_needs(tmp_path: Path) -> None:
    plant(tmp_path, "ipython", "appnope; sys_platform == 'darwin'", "decorator")
    plant(tmp_path, "appnope", "pyobjc", "decorator")
    plant(tmp_path, "pyobjc")
    plant(tmp_path, "decorator")
    found = scanned(tmp_path)
    assert verdicts(found) == {
        "appnope": "dropped",
        "decorator": "taken",
        "ipython": "taken",
        "pyobjc": "dropped",
    }
    assert found.packages[0].why == "needed on this platform only, by ipython"


def test_what_hosts_need_by_another_package_or_in_any_case_is_taken(tmp_path: Path) -> None:
    plant(tmp_path, "one", "two; sys_platform == 'darwin'", "dask; sys_platform == 'darwin'")
    plant(tmp_path, "three", "two; sys_platform == 'linux'")
    plant(tmp_path, "two")
    plant(tmp_path, "dask")
    assert verdicts(scanned(tmp_path))["two"] == "taken"
    assert verdicts(scanned(tmp_path))["dask"] == "dropped"
    assert verdicts(scanned(tmp_path, keep=["dask"]))["dask"] == "taken"


def test_packages_that_need_each_other_are_taken(tmp_path: Path) -> None:
    plant(tmp_path, "one", "two")
    plant(tmp_path, "two", "one")
    assert verdicts(scanned(tmp_path)) == {"one": "taken", "two": "taken"}


def test_what_an_extra_needs_everywhere_is_taken(tmp_path: Path) -> None:
    plant(tmp_path, "one", "two; extra == 'more'", extras=("more",))
    plant(tmp_path, "three", "two; sys_platform == 'darwin'")
    plant(tmp_path, "two")
    assert verdicts(scanned(tmp_path))["two"] == "taken"


def test_what_only_hosts_need_is_added(tmp_path: Path) -> None:
    on_linux = "sys_platform == 'linux' and platform_machine == 'x86_64'"
    plant(tmp_path, "torch", f"nvidia-cublas==12.8; {on_linux}", "triton>=3; os_name == 'nt'")
    plant(tmp_path, "acme", f"nvidia-cublas==12.8; {on_linux}", "absent")
    assert scanned(tmp_path).added == (
        AddedPackage("nvidia-cublas", "nvidia-cublas==12.8", ("acme", "torch")),
    )
    assert scanned(tmp_path, architecture="arm64").added == ()


def test_what_terradask_deploys_with_stays_here(tmp_path: Path) -> None:
    plant(tmp_path, "terradask", "cdktf", "uv", "boto3", "constructs", "terradask-simulator")
    plant(tmp_path, "terradask-simulator", "boto3", "moto")
    plant(tmp_path, "moto", "boto3")
    plant(tmp_path, "cdktf", "jsii")
    plant(tmp_path, "constructs", "jsii")
    plant(tmp_path, "jsii", "cattrs", "attrs")
    for name in ("cattrs", "boto3", "attrs"):
        plant(tmp_path, name)
    plant(tmp_path, "uv")
    plant(tmp_path, "other", "attrs", "constructs")
    assert verdicts(scanned(tmp_path)) == {
        "terradask": "taken",
        "terradask-simulator": "dropped",
        "moto": "dropped",
        "cdktf": "dropped",
        "uv": "dropped",
        # Another package, which hosts get, needs them.
        "constructs": "taken",
        "jsii": "taken",
        "cattrs": "taken",
        "boto3": "taken",
        "attrs": "taken",
        "other": "taken",
    }


def test_a_tool_that_nothing_needs_was_installed_for_its_own_sake(tmp_path: Path) -> None:
    plant(tmp_path, "terradask", "cdktf")
    plant(tmp_path, "uv")
    plant(tmp_path, "cdktf", "jsii")
    plant(tmp_path, "jsii", "cattrs")
    plant(tmp_path, "cattrs")
    assert verdicts(scanned(tmp_path)) == {
        "terradask": "taken",
        "uv": "taken",
        "cdktf": "dropped",
        "jsii": "dropped",
        "cattrs": "dropped",
    }


def test_what_a_dropped_package_needs_is_not_added(tmp_path: Path) -> None:
    plant(tmp_path, "one", "two; sys_platform == 'darwin'")
    plant(tmp_path, "two", "three; sys_platform == 'linux'")
    assert scanned(tmp_path).added == ()


def test_what_a_refused_package_needs_is_not_added(tmp_path: Path) -> None:
    direct = '{"url": "file:///x", "dir_info": {}}'
    plant(tmp_path, "one", "two; sys_platform == 'linux'", direct_url__json=direct)
    assert scanned(tmp_path).added == ()


def test_extras_that_a_package_asks_of_another_count(tmp_path: Path) -> None:
    plant(tmp_path, "one", "two[fast]")
    plant(
        tmp_path,
        "two",
        "three; extra == 'fast' and sys_platform == 'linux'",
        "four; extra == 'slow' and sys_platform == 'linux'",
        extras=("fast", "slow"),
    )
    assert [added.name for added in scanned(tmp_path).added] == ["three"]


def test_what_hosts_would_need_from_a_url_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "one", "two @ https://e.example/two.whl ; sys_platform == 'linux'")
    found = scanned(tmp_path)
    assert found.added[0].refused == "needed from a URL, not from an index"
    assert found.counts["refused"] == 1
    assert found.counts["added"] == 0


@pytest.mark.parametrize(
    ("url", "record", "origin", "why"),
    [
        ("file:///a", {"dir_info": {}}, "folder", "from file:///a"),
        ("https://{}/a?token={}", {"archive_info": {}}, "archive", "from https://e.example/a"),
        (
            "https://{}/a?token={}",
            {"vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "repository",
            "from git+https://e.example/a",
        ),
    ],
)
def test_what_came_from_no_index_is_refused_without_its_secrets(
    tmp_path: Path, url: str, record: dict[str, Any], origin: str, why: str
) -> None:
    whole = url.format("me:hunter2@e.example", "hunter2")
    plant(tmp_path, "acme", direct_url__json=json.dumps({"url": whole, **record}))
    (package,) = scanned(tmp_path).packages
    assert (package.origin, package.verdict) == (origin, "refused")
    assert package.why == f"{why}; its files are not listed as those of a wheel"


def test_what_came_from_no_index_is_built_if_its_wheel_is_one_for_hosts(tmp_path: Path) -> None:
    """What it needs on hosts alone is added, as for what came from an index."""
    direct = '{"url": "file:///x", "dir_info": {}}'
    needs = "two; sys_platform == 'linux'"
    files = {"direct_url__json": direct, "RECORD": "one.py,,\n"}
    plant(tmp_path, "one", needs, **files, WHEEL="Tag: py3-none-any\n")
    plant(tmp_path, "mac", **files, WHEEL="Tag: cp312-cp312-macosx_11_0_arm64\n")
    found = scanned(tmp_path)
    assert verdicts(found) == {"one": "built", "mac": "refused"}
    assert "macosx_11_0_arm64" in str(found.packages[0].why)
    assert [added.name for added in found.added] == ["two"]


def test_requirements_that_can_not_be_read(tmp_path: Path) -> None:
    plant(tmp_path, "old", "two (>>1)")
    (package,) = scanned(tmp_path).packages
    assert (package.origin, package.verdict) == ("index", "taken")
    assert "its requirements can't be read" in str(package.why)


def test_a_name_or_a_version_that_is_none_reaches_no_requirement(tmp_path: Path) -> None:
    for number, head in enumerate(("Name: a\n -r x\nVersion: 1", "Name: b\nVersion: 1\n -r x")):
        about = tmp_path / f"x{number}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\n{head}\n")
        (about / "RECORD").write_text("")
    (package,) = scanned(tmp_path).packages
    assert (package.name, package.verdict) == ("b", "refused")
    assert package.why == "its version can't be read"


def test_a_wheel_for_a_newer_glibc_is_taken_with_a_word(tmp_path: Path) -> None:
    plant(tmp_path, "fresh", WHEEL="Tag: cp312-cp312-manylinux_2_39_x86_64\n")
    (package,) = scanned(tmp_path).packages
    assert (package.verdict, package.why) == ("taken", "its wheel needs glibc 2.39")


def test_the_first_of_a_name_on_the_path_counts(tmp_path: Path) -> None:
    plant(tmp_path / "b", "acme", direct_url__json='{"url": "file:///x", "dir_info": {}}')
    plant(tmp_path / "a", "acme")
    assert verdicts(scanned(tmp_path / "a", tmp_path / "b")) == {"acme": "taken"}
    assert verdicts(scanned(tmp_path / "b", tmp_path / "a")) == {"acme": "refused"}


def test_what_an_interrupted_installation_left_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "acme-1.0.dist-info").mkdir()
    assert scanned(tmp_path).packages == ()


def test_a_python_that_hosts_lack(tmp_path: Path) -> None:
    assert not scanned(tmp_path, python="3.9").python_on_hosts
    assert scanned(tmp_path).python_on_hosts


def test_the_command_prints_a_table_or_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, "zz-local", direct_url__json='{"url": "file:///x", "dir_info": {}}')
    monkeypatch.syspath_prepend(tmp_path)
    shown = in_this_process("software", "scan")
    assert shown.returncode == 0
    line = next(line for line in shown.stdout.splitlines() if line.startswith("zz-local"))
    why = "from file:///x; its files are not listed as those of a wheel"
    assert line.split(maxsplit=4) == ["zz-local", "1.0", "folder", "refused", why]
    assert " taken, " in shown.stderr
    assert "Client.upload_file" in shown.stderr
    document = json.loads(in_this_process("software", "scan", "--json").stdout)
    found = {package["name"]: package["verdict"] for package in document["packages"]}
    assert found["zz-local"] == "refused"
    assert found["dask"] == "taken"
    assert document["counts"]["taken"] == list(found.values()).count("taken")


def test_the_json_of_the_lock_has_what_was_built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = LocalWheel("acme", "1.0", "acme-1.0-py3-none-any.whl", b"")
    lock = SoftwareLock("3.11", {"dask": "1.0"}, wheels=[wheel])
    monkeypatch.setattr(
        "terradask._software.package_sync.lock_for_hosts", lambda *args, **options: lock
    )
    # Would ask the index for the URLs.
    monkeypatch.setattr("terradask._software.pylock_file.as_pylock", lambda *args: "")
    document = json.loads(in_this_process("software", "lock", "--json").stdout)
    assert document["built"] == {"acme": "1.0"}
