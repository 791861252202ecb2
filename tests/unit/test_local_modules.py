"""The working directory's modules as a wheel."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from terradask._deployments.package_sync import lock_for_hosts, sync_of
from terradask._software.local_modules import build_modules
from terradask._software.sync import PackageSync
from terradask.errors import LocalModulesRefused
from terradask_stacks.settings import ClusterSettings

from ..source_packages import install


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("STATE = 'first'\n")


def test_modules_and_packages_are_in_it_and_the_rest_is_not(tmp_path: Path) -> None:
    put(
        tmp_path,
        *("steps.py", "work/__init__.py", "work/deep/more.py", "work/data.csv"),
        *("notes.txt", ".hidden.py", "two words.py", "no_package/inside.py", "venv/lib/x.py"),
    )
    wheel = build_modules(tmp_path)
    names = zipfile.ZipFile(io.BytesIO(wheel.content)).namelist()
    assert [name for name in names if name.endswith(".py")] == [
        "steps.py",
        "work/__init__.py",
        "work/deep/more.py",
    ]
    assert build_modules(tmp_path).key == wheel.key
    (tmp_path / "steps.py").write_text("STATE = 'edited'\n")
    assert build_modules(tmp_path).key != wheel.key


def test_hosts_can_install_it(tmp_path: Path) -> None:
    put(tmp_path / "work", "steps.py")
    wheel = build_modules(tmp_path / "work")
    (tmp_path / wheel.filename).write_bytes(wheel.content)
    install(tmp_path / "site", "--no-index", str(tmp_path / wheel.filename))
    assert (tmp_path / "site/steps.py").read_text() == "STATE = 'first'\n"


def test_names_of_installed_packages_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "dask.py", "steps.py")
    with pytest.raises(LocalModulesRefused, match="the names of dask"):
        build_modules(tmp_path)


def test_an_empty_folder_and_a_large_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalModulesRefused, match="no module"):
        build_modules(tmp_path)
    (tmp_path / "large.py").write_bytes(b"#" * 20_000_001)
    with pytest.raises(LocalModulesRefused, match="20000001 bytes"):
        build_modules(tmp_path)


def test_they_come_with_every_other_way_to_name_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "steps.py")
    monkeypatch.chdir(tmp_path)
    settings = ClusterSettings(software=[], package_sync=False, local_modules=True)
    sync = sync_of(settings.model_dump(mode="json"), {})
    assert sync == PackageSync(False, local_modules=True)
    lock = lock_for_hosts([], sync, architecture="x86_64", lock_file=None)
    assert lock.versions["terradask-local-modules"] == "0"
    assert "dask" in lock.packages
