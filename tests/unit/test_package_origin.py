"""Packages that didn't come from an index are refused, as the installers' own records show them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from terradask._software.client_versions import lock_software
from terradask.errors import SoftwareUnusable

from ..package_index import publish, serving
from ..source_packages import install, source_folder

FORGE = "https://conda.example/conda-forge/noarch/acme-tools-1.0-py_0.conda"
#: With a reviewed lock file, what came from no index is refused before the file is read.
REVIEWED = Path("reviewed.lock")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for packages, at the front of this process's path."""
    folder = tmp_path / "env/lib/python3.11/site-packages"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(folder)
    return folder


def refused(*software: str, lock_file: Path | None = None) -> dict[str, str]:
    with pytest.raises(SoftwareUnusable, match="installed locally from elsewhere") as caught:
        lock_software(software or ["acme-tools"], lock_file=lock_file)
    # Each has version 1.0.
    origins = re.split(r"; (?=[\w-]+ 1\.0, )", str(caught.value.given))
    return dict(origin.split(" ", 1) for origin in origins)


def planted(site: Path, name: str = "acme-tools", needs: str = "", **files: str) -> Path:
    """Plant an installed package with these files beside its metadata."""
    about = site / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}"
    )
    for file, text in ({"RECORD": ""} | files).items():
        (about / file.replace("__", ".")).write_text(text)
    return about


def test_what_an_index_had_is_locked(site: Path, tmp_path: Path) -> None:
    publish(tmp_path / "index", "acme-tools", "1.0")
    with serving(tmp_path / "index") as url:
        install(site, "--default-index", url, "acme-tools")
    assert lock_software(["acme-tools"]).packages["acme-tools"] == "1.0"


BROKEN = '{"url": "https://[x", "archive_info": {}}'


def test_an_editable_folder(site: Path, tmp_path: Path) -> None:
    folder = source_folder(tmp_path)
    install(site, "--editable", str(folder))
    assert refused(lock_file=REVIEWED) == {"acme-tools": f"1.0, editable, from file://{folder}"}


def test_a_folder(site: Path, tmp_path: Path) -> None:
    folder = source_folder(tmp_path)
    install(site, str(folder))
    assert refused(lock_file=REVIEWED) == {"acme-tools": f"1.0, from file://{folder}"}


def test_a_repository_without_the_secret_in_its_url(site: Path, tmp_path: Path) -> None:
    folder = source_folder(tmp_path)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    install(site, f"git+file://{folder}")
    assert refused(lock_file=REVIEWED) == {"acme-tools": f"1.0, from git+file://{folder}"}
    (record,) = site.glob("*.dist-info/direct_url.json")
    document = json.loads(record.read_text())
    document["url"] = "https://me:hunter2@git.example/acme/tools?token=hunter2"
    record.write_text(json.dumps(document))
    assert refused(lock_file=REVIEWED) == {
        "acme-tools": "1.0, from git+https://git.example/acme/tools"
    }


def test_a_wheel(site: Path, tmp_path: Path) -> None:
    publish(tmp_path, "acme-tools", "1.0")
    (wheel,) = (tmp_path / "files").iterdir()
    install(site, str(wheel))
    assert refused(lock_file=REVIEWED) == {"acme-tools": f"1.0, from file://{wheel}"}


def test_a_file_behind_a_url(site: Path, tmp_path: Path) -> None:
    publish(tmp_path / "index", "acme-tools", "1.0")
    with serving(tmp_path / "index") as url:
        address = url.replace("simple", "files/acme_tools-1.0-py3-none-any.whl")
        install(site, f"acme-tools @ {address}")
    assert refused(lock_file=REVIEWED) == {"acme-tools": f"1.0, from {address}"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"url": 7}', '"x"', '{"url": "file:///x"}', BROKEN]
)
def test_a_record_that_can_not_be_read_is_no_index(site: Path, text: str) -> None:
    planted(site, direct_url__json=text)
    assert refused() == {"acme-tools": "1.0, its direct_url.json can't be read"}


def test_a_source_folder_on_the_path(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an old ``setup.py develop`` left it: metadata in the source folder, which a path file
    names.
    """
    about = tmp_path / "sources/acme_tools.egg-info"
    about.mkdir(parents=True)
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    (about / "SOURCES.txt").write_text("acme_tools.py\n")
    monkeypatch.syspath_prepend(tmp_path / "sources")
    where = f"found, not installed, in {tmp_path / 'sources'}"
    assert {name: text.rstrip("/") for name, text in refused().items()} == {
        "acme-tools": f"1.0, {where}"
    }


def test_what_an_old_pip_installed_from_a_source_archive(site: Path) -> None:
    about = site / "acme_tools-1.0.egg-info"
    about.mkdir()
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    (about / "installed-files.txt").write_text("../acme_tools.py\n")
    assert "acme-tools" in lock_software(["acme-tools"]).packages


def test_all_are_listed_also_those_that_others_need(site: Path) -> None:
    editable = json.dumps({"url": "file:///home/me/x", "dir_info": {"editable": True}})
    planted(site, needs="acme-core")
    planted(site, "acme-core", needs="acme-base[fast]; python_version > '3'")
    planted(site, "acme-base", direct_url__json=editable)
    planted(site, "other", direct_url__json=editable)
    assert refused("acme-tools", "other", lock_file=REVIEWED) == {
        "acme-base": "1.0, editable, from file:///home/me/x, needed by acme-core",
        "other": "1.0, editable, from file:///home/me/x",
    }
    # What isn't for the hosts may come from anywhere, such as terradask itself.
    assert "other" not in lock_software().packages


def test_dask_itself_is_no_exception(site: Path) -> None:
    about = planted(site, "cloudpickle", direct_url__json='{"url": "file:///x", "dir_info": {}}')
    assert refused("click") == {
        "cloudpickle": "1.0, from file:///x; its files are not listed as those of a wheel"
    }
    assert about.exists()


def conda_record(site: Path, name: str, url: str) -> None:
    records = site.parents[2] / "conda-meta"
    records.mkdir(exist_ok=True)
    file = f"lib/python3.11/site-packages/{name.replace('-', '_')}-1.0.dist-info/METADATA"
    document = {"url": url, "files": ["bin/x", file]}
    (records / f"{name}-of-conda-1.0-py_0.json").write_text(json.dumps(document))
    (records / "broken-1.0-py_0.json").write_text("{")


#: What conda's packages have of the machine that built them.
BUILT = '{"url": "file:///home/me/feedstock_root/build_artifacts/work", "dir_info": {}}'


@pytest.mark.parametrize(
    "url", [FORGE, "https://mirror.example/pkgs/main/linux-64/acme-tools-1.0-0.conda"]
)
def test_channels_that_build_the_packages_of_the_index(site: Path, url: str) -> None:
    planted(site, INSTALLER="conda\n", direct_url__json=BUILT)
    conda_record(site, "acme-tools", url)
    assert lock_software(["acme-tools"]).packages["acme-tools"] == "1.0"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://c.example/acme/noarch/a-1.0.conda", "from https://c.example/acme"),
        ("https://u:p@c.example/t/to-ken/acme/noarch/a.conda", "from https://c.example/acme"),
        ("https://c.example/not-conda-forge/noarch/a.conda", "from https://c.example/not-conda-fo"),
        ("file:///home/me/build/noarch/a-1.0.conda", "from file:///home/me/build"),
        (None, "from an unknown channel"),
    ],
)
@pytest.mark.locked
def test_other_channels_take_hashes(site: Path, tmp_path: Path, url: str | None, told: str) -> None:
    planted(site, INSTALLER="conda\n", direct_url__json=BUILT)
    if url is not None:
        conda_record(site, "acme-tools", url)
    (origin,) = refused().values()
    assert origin.startswith(f"1.0, installed by conda, {told}")
    assert "to-ken" not in origin
    lock = tmp_path / "requirements.txt"
    bare = Path(__file__).parents[2] / "requirements/dev.lock"
    lock.write_text(f"{bare.read_text()}\nacme-tools==1.0 --hash=sha256:{'0' * 64}\n")
    assert lock_software(["acme-tools"], lock_file=lock).hashes["acme-tools"] == ("0" * 64,)


def test_hashes_do_not_make_a_folder_the_same_code(site: Path, tmp_path: Path) -> None:
    planted(site, direct_url__json='{"url": "file:///x", "dir_info": {}}')
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"acme-tools==1.0 --hash=sha256:{'0' * 64}\n")
    assert refused("acme-tools", lock_file=lock) == {"acme-tools": "1.0, from file:///x"}
