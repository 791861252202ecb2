"""uv and pip where the environment lacks them: each gets the other, by hash."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask._software import installers
from terradask._software.installers import _locked_uv, download_archives, find_uv
from terradask.errors import SetupError

from ..package_index import list_archive, publish, serving
from ..simulator.own_index import list_installed
from .test_package_sync import client

Environ = dict[str, str]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environ]:
    """The variables of a client with an index on loopback,and the system's programs."""
    root = tmp_path / "index"
    publish(root, "frame", "2.0")
    list_installed(root, ["pip"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    with serving(root) as url:
        of_pip = {"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin"}
        yield {**client(url, tmp_path / "cache"), **of_pip}


@pytest.fixture
def without_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terradask._software.installers._installed_uv", lambda _: None)


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terradask._software.installers._has_pip", lambda: False)


def publish_uv(root: Path) -> str:
    """Put a uv into the index that prints its version; return its SHA-256."""
    wheel = root / "files" / "uv-9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("uv-9.9.data/scripts/uv", "#!/bin/sh\necho uv 9.9\n")
        archive.writestr(
            "uv-9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: uv\nVersion: 9.9\n"
        )
        archive.writestr(
            "uv-9.9.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("uv-9.9.dist-info/RECORD", "")
    return list_archive(root, "uv", wheel)


def test_an_installed_uv_is_used(environ: Environ) -> None:
    assert find_uv(environ) == str(Path(sys.executable).with_name("uv"))


def test_without_uv_pip_downloads_that_of_hosts_once(
    environ: Environ, tmp_path: Path, without_uv: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = publish_uv(tmp_path / "index")
    lines = f"uv==9.9 --hash=sha256:{digest}\n"
    monkeypatch.setattr(installers, "_locked_uv", lambda: ("9.9", lines))
    found = find_uv(environ)
    assert Path(found).is_relative_to(tmp_path / "user")
    assert subprocess.check_output([found], text=True) == "uv 9.9\n"
    assert [each.name for each in Path(found).parent.iterdir()] == ["uv"]
    # The second time, no index is asked.
    assert find_uv({**environ, "PIP_INDEX_URL": "http://127.0.0.1:9/"}) == found


def test_an_older_uv_is_not_used(
    environ: Environ, tmp_path: Path, without_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    monkeypatch.setattr("terradask._software.installers._installed_uv", lambda _: str(uv))
    for number, version in enumerate(["0.13.0", "1.0.0", "0.12.24", "0.9.1"]):
        uv.write_text(f"#!/bin/sh\necho uv {version}\n")
        uv.chmod(0o755)
        os.utime(uv, ns=(number, number))
        if number < 2:
            assert find_uv(environ) == str(uv)
        else:
            with pytest.raises(SetupError, match=r"is older than 0\.13"):
                find_uv(environ)


def test_another_uv_than_the_locked_one_is_refused(
    environ: Environ, tmp_path: Path, without_uv: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_uv(tmp_path / "index")
    other = hashlib.sha256(b"other").hexdigest()
    monkeypatch.setattr(
        installers, "_locked_uv", lambda: ("9.9", f"uv==9.9 --hash=sha256:{other}\n")
    )
    with pytest.raises(SetupError, match="DO NOT MATCH THE HASHES") as caught:
        find_uv(environ)
    assert "pip install 'uv>=0.13'" in str(caught.value)
    assert list((tmp_path / "user").rglob("uv*/**/uv*")) == []


def test_hosts_uv_is_locked_for_every_platform() -> None:
    version, lines = _locked_uv()
    assert lines.startswith(f"uv=={version}")
    # Linux, macOS and Windows, on two processors each, and the source.
    assert lines.count("--hash=sha256:") >= 7
    assert "urllib3" not in lines


def test_without_both_the_error_names_what_to_install(
    environ: Environ, tmp_path: Path, without_uv: None, without_pip: None
) -> None:
    with pytest.raises(SetupError, match=r"pip install 'uv>=0\.13'"):
        find_uv(environ)
    with pytest.raises(SetupError, match="ensurepip"):
        download_archives("frame==2.0", tmp_path / "here", environ)


@pytest.mark.parametrize("pip", ["of the environment", "run by uv"])
def test_archives_are_downloaded_by_hash(
    environ: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: str
) -> None:
    if pip == "run by uv":
        monkeypatch.setattr("terradask._software.installers._has_pip", lambda: False)
    archive = tmp_path / "index/files/frame-2.0-py3-none-any.whl"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    folder = tmp_path / "here"
    assert download_archives(f"frame==2.0 --hash=sha256:{digest}", folder, environ) is None
    assert [each.name for each in folder.iterdir()] == [archive.name]
    failed = download_archives(f"frame==2.0 --hash=sha256:{'0' * 64}", tmp_path / "other", environ)
    assert failed is not None
    assert "HASHES" in failed
