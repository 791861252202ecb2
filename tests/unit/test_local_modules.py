"""The working directory's modules as a wheel."""

from __future__ import annotations

import importlib
import io
import json
import sys
import zipfile
from pathlib import Path

import pytest

from terradask._software.local_modules import (
    build_modules,
    imported_unsent_modules,
    unsent_modules_variable,
)
from terradask._software.local_wheels import LocalWheel
from terradask._software.package_sync import lock_for_hosts, package_sync_settings
from terradask._software.sync import PackageSync
from terradask.errors import SoftwareUnusable
from terradask_host.preload.local_names import VARIABLE
from terradask_stacks.settings import ClusterSettings

from ..package_index import publish
from ..source_packages import install

HERE = ("dask", "distributed")


NONE = ClusterSettings(package_sync=False)
SENT = ClusterSettings(local_modules=True)


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("STATE = 'first'\n")


def sent(wheel: LocalWheel) -> list[str]:
    names = zipfile.ZipFile(io.BytesIO(wheel.content)).namelist()
    return [name for name in names if name.endswith(".py")]


def test_modules_and_packages_are_in_it_and_the_rest_is_not(tmp_path: Path) -> None:
    put(
        tmp_path,
        *("steps.py", "work/__init__.py", "work/deep/more.py", "work/data.csv"),
        *("notes.txt", ".hidden.py", "two words.py", "no_package/inside.py", "venv/lib/x.py"),
    )
    wheel = build_modules(tmp_path, HERE)
    names = zipfile.ZipFile(io.BytesIO(wheel.content)).namelist()
    assert [name for name in names if name.endswith(".py")] == [
        "steps.py",
        "work/__init__.py",
        "work/deep/more.py",
    ]
    assert build_modules(tmp_path, HERE).key == wheel.key
    (tmp_path / "steps.py").write_text("STATE = 'edited'\n")
    assert build_modules(tmp_path, HERE).key != wheel.key


def test_hosts_can_install_it(tmp_path: Path) -> None:
    put(tmp_path / "work", "steps.py")
    wheel = build_modules(tmp_path / "work", HERE)
    (tmp_path / wheel.filename).write_bytes(wheel.content)
    install(tmp_path / "site", "--no-index", str(tmp_path / wheel.filename))
    assert (tmp_path / "site/steps.py").read_text() == "STATE = 'first'\n"


def test_names_of_installed_packages_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "dask.py", "steps.py")
    with pytest.raises(SoftwareUnusable, match=r"the same names: dask \(dask\)") as caught:
        build_modules(tmp_path, HERE)
    assert "package_sync_ignore" in str(caught.value)
    # Hosts that don't get the package get the module.
    assert sent(build_modules(tmp_path, ())) == ["dask.py", "steps.py"]


def test_terradasks_own_name_is_refused_whatever_hosts_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "index", "terradask", "1.0")
    install(tmp_path / "site", *map(str, (tmp_path / "index/files").iterdir()))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    put(tmp_path / "work", "terradask.py")
    with pytest.raises(SoftwareUnusable, match="terradask"):
        build_modules(tmp_path / "work", ())


def test_tests_that_another_package_has_brought_by_mistake_are_no_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "index", "cdf", "1.0")
    wheel = tmp_path / "index/files/cdf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/__init__.py", "")
    install(tmp_path / "site", "--no-index", str(wheel))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    work = tmp_path / "work"
    put(work, "steps.py", "tests/__init__.py", "tests/shared.py")
    assert "tests/shared.py" in sent(build_modules(work, ("cdf",)))
    put(work, "cdf.py")
    with pytest.raises(SoftwareUnusable, match=r"cdf \(cdf\)"):
        build_modules(work, ("cdf",))


@pytest.mark.parametrize("inside", ["", "src"])
def test_the_folders_own_package_is_no_conflict_though_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    folder = tmp_path / "acme"
    put(folder / inside, "acme/__init__.py", "acme/work.py")
    about = tmp_path / "site/acme-1.dist-info"
    about.mkdir(parents=True)
    # As setuptools does: its finder lies beside the metadata, far from the modules.
    files = {
        "METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1\n",
        "top_level.txt": "acme\n",
        "RECORD": "acme-1.dist-info/METADATA,,\n",
        "direct_url.json": json.dumps(
            {"url": folder.as_uri(), "dir_info": {"editable": True}},
        ),
    }
    for name, text in files.items():
        (about / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = build_modules(folder / inside, ("acme",))
    assert {"acme/__init__.py", "acme/work.py"} <= set(sent(found))


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("steps.py", "credentials"),
        ("steps.py", "work/.env"),
        ("pack/deep.py", "other.py"),
        ("pack", "lib"),
    ],
)
def test_links_lead_no_other_file_into_the_bucket(tmp_path: Path, target: str, link: str) -> None:
    work = tmp_path / "work"
    put(tmp_path, "credentials", "work/.env", "other.py", "lib/__init__.py", "lib/more.py")
    put(work, "main.py", "pack0/__init__.py")
    if "/" in link:
        put(work, "pack/__init__.py")
    (work / link).symlink_to(tmp_path / target)
    with pytest.raises(SoftwareUnusable, match=f"{link}.* symbolic links"):
        build_modules(work, HERE)


def test_links_to_modules_of_the_folder_are_taken(tmp_path: Path) -> None:
    put(tmp_path, "steps.py", "lib/shared.py")
    (tmp_path / "shared.py").symlink_to("lib/shared.py")
    assert sent(build_modules(tmp_path, HERE)) == ["shared.py", "steps.py"]


def test_an_empty_folder_and_a_large_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SoftwareUnusable, match="no module"):
        build_modules(tmp_path, HERE)
    (tmp_path / "large.py").write_bytes(b"#" * 20_000_001)
    with pytest.raises(SoftwareUnusable, match="20000001 bytes"):
        build_modules(tmp_path, HERE)


def test_they_come_with_every_other_way_to_name_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "steps.py")
    monkeypatch.chdir(tmp_path)
    settings = ClusterSettings(software=[], package_sync=False, local_modules=True)
    sync = package_sync_settings(settings, {})
    assert sync == PackageSync(False, local_modules=True)
    lock = lock_for_hosts([], sync, architecture="x86_64", lock_file=None)
    assert lock.versions["terradask-local-modules"] == "0"
    assert "dask" in lock.packages


def test_what_this_process_has_imported_from_its_own_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, script = tmp_path / "work", tmp_path / "scripts/main.py"
    put(work, "own_steps.py", "own_work/__init__.py", "own_later.py", "two words.py")
    put(tmp_path, "scripts/main.py", "scripts/own_beside.py", "elsewhere/own_steps2.py")
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    for folder in (work, tmp_path / "scripts", tmp_path / "elsewhere"):
        monkeypatch.syspath_prepend(str(folder))
    for name in ("own_steps", "own_work", "own_beside", "own_steps2"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)
    assert imported_unsent_modules(NONE) == ["own_beside", "own_steps", "own_work"]
    names = unsent_modules_variable(NONE)[VARIABLE].split(",")
    assert names == ["main", "own_beside", "own_later", "own_steps", "own_work"]
    assert imported_unsent_modules(SENT) == []
    assert unsent_modules_variable(SENT) == {}
    # Package sync builds what lies in an editable package's folder.
    about = tmp_path / "site/own-1.dist-info"
    put(about, "METADATA", "RECORD")
    origin = {"url": work.as_uri(), "dir_info": {"editable": True}}
    (about / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert imported_unsent_modules(NONE) == ["own_beside"]


def test_without_a_working_directory_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert (imported_unsent_modules(NONE), unsent_modules_variable(NONE)) == ([], {})
