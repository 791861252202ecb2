"""Wheels of packages that came from no index, built from real folders and installations."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from terradask._software.local_wheels import LocalWheel, build_obstacle, build_wheel
from terradask.errors import SoftwareUnusable

from ..source_packages import install, source_folder

#: The build backend is the one that is installed here: no index is asked.
OFFLINE = {**os.environ, "UV_NO_BUILD_ISOLATION": "1", "UV_OFFLINE": "1"}


def only(site: Path) -> importlib.metadata.Distribution:
    (found,) = importlib.metadata.distributions(path=[str(site)])
    return found


def built(site: Path, architecture: str = "x86_64") -> LocalWheel:
    return build_wheel(only(site), architecture, OFFLINE)


def names(wheel: LocalWheel) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(wheel.content)).namelist()


def installed(site: Path, *, tag: str = "py3-none-any", files: tuple[str, ...] = ()) -> None:
    """Write an installation from an archive's URL."""
    about = site / "acme_tools-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "acme_tools.py").write_text("")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    (about / "WHEEL").write_text(f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
    (about / "entry_points.txt").write_text("[console_scripts]\nacme = acme_tools:main\n")
    (about / "direct_url.json").write_text(
        json.dumps({"url": "https://me:secret@host/acme.whl", "archive_info": {}})
    )
    listed = ["acme_tools.py", *(f"{about.name}/{path.name}" for path in about.iterdir()), *files]
    (about / "RECORD").write_text("".join(f"{path},,\n" for path in listed))


def test_an_editable_package_is_built_as_it_is_now_and_the_same_twice(tmp_path: Path) -> None:
    folder = source_folder(tmp_path / "sources")
    install(tmp_path / "site", "--editable", str(folder))
    first = built(tmp_path / "site")
    assert (first.name, first.version) == ("acme-tools", "1.0")
    assert first.filename == "acme_tools-1.0-py2.py3-none-any.whl"
    (folder / "acme_tools.py").touch()
    assert built(tmp_path / "site").key == first.key
    (folder / "acme_tools.py").write_text("EDITED = True\n")
    edited = built(tmp_path / "site")
    assert edited.key != first.key
    assert zipfile.ZipFile(io.BytesIO(edited.content)).read("acme_tools.py") == b"EDITED = True\n"
    assert {path.name for path in folder.iterdir()} == {"acme_tools.py", "pyproject.toml"}


def test_what_was_installed_from_elsewhere_is_packed_from_its_files(tmp_path: Path) -> None:
    installed(tmp_path, files=("../../../bin/acme", "__pycache__/acme_tools.cpython-311.pyc"))
    wheel = built(tmp_path)
    about = "acme_tools-1.0.dist-info"
    assert names(wheel) == [
        f"{about}/METADATA",
        f"{about}/WHEEL",
        f"{about}/entry_points.txt",
        "acme_tools.py",
        f"{about}/RECORD",
    ]
    assert b"secret" not in wheel.content


def test_a_wheel_that_is_made_here_can_be_installed(tmp_path: Path) -> None:
    install(tmp_path / "site", str(source_folder(tmp_path / "sources")))
    wheel = built(tmp_path / "site")
    path = tmp_path / wheel.filename
    path.write_bytes(wheel.content)
    install(tmp_path / "other", "--no-index", str(path))
    assert only(tmp_path / "other").version == "1.0"
    assert (tmp_path / "other/acme_tools.py").exists()


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("py3-none-any", None),
        ("cp312-cp312-manylinux_2_34_x86_64", None),
        ("cp312-cp312-manylinux2014_x86_64", None),
        ("cp312-cp312-manylinux_2_39_x86_64", "another platform"),
        ("cp312-cp312-manylinux_2_28_aarch64", "another platform"),
        ("cp312-cp312-macosx_11_0_arm64", "macosx_11_0_arm64"),
    ],
)
def test_what_is_compiled_for_another_platform_is_an_error(tmp_path, tag, why) -> None:
    installed(tmp_path, tag=tag)
    found = build_obstacle(only(tmp_path), "x86_64")
    if why is None:
        assert found is None
        assert built(tmp_path).filename == f"acme_tools-1.0-{tag}.whl"
        return
    assert why in found
    with pytest.raises(SoftwareUnusable, match=why) as caught:
        built(tmp_path)
    assert caught.value.problem == "No wheel for hosts can be made of acme-tools."


@pytest.mark.parametrize(
    ("library", "suits"), [(("glibc", "2.34"), True), (("glibc", "2.39"), False), (("", ""), False)]
)
def test_what_was_compiled_here_suits_hosts_by_this_machines_glibc(
    tmp_path, monkeypatch, library, suits
) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: library)
    installed(tmp_path, tag="cp312-cp312-linux_x86_64")
    assert (build_obstacle(only(tmp_path), "x86_64") is None) == suits


def test_files_elsewhere_are_an_error_and_are_not_left_out_silently(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "share/data.csv").write_text("1")
    installed(tmp_path / "site", files=("../share/data.csv",))
    with pytest.raises(SoftwareUnusable, match=r"share/data\.csv"):
        built(tmp_path / "site")


def test_a_folder_that_is_gone_is_an_error_with_what_uv_says(tmp_path: Path) -> None:
    folder = source_folder(tmp_path / "sources")
    install(tmp_path / "site", "--editable", str(folder))
    (folder / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(SoftwareUnusable, match="uv build"):
        built(tmp_path / "site")
