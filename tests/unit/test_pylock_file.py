"""`terradask software lock`: a pylock.toml for packaging, uv and `software`."""

from __future__ import annotations

import importlib.metadata
import io
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.pylock import Pylock

from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.pylock_file import as_pylock, conda_packages, write_pylock
from terradask._software.uv import find_uv
from terradask.errors import SoftwareNotResolved, SoftwareUnusable
from terradask_stacks.wheel_file import write_wheel

from ..command import in_this_process
from ..package_index import publish, serving
from ..source_packages import source_folder
from .test_software_file import HERE, MAC, PINS, X86, environment

USER = "me:t0ken"
#: As an index writes them that signs the URLs of its files.
SIGNED = "?X-Signature=s1gned"

Write = Callable[[str], tuple[SoftwareLock, str]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("index")
    for name in ("bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    for name, version in HERE.items():
        publish(root, name, version)
    publish(root, "fast", "1.0+cpu", tag=X86)
    publish(root, "fast", "1.0+cpu", tag=MAC, beside=True)
    return root


@pytest.fixture(scope="module")
def index(root: Path) -> Iterator[str]:
    with serving(root, user=USER) as url:
        yield url


@pytest.fixture
def environ(index: str, tmp_path: Path) -> Mapping[str, str]:
    return environment(index.replace("://", f"://{USER}@"), tmp_path / "cache")


@pytest.fixture
def write(environ: Mapping[str, str], tmp_path: Path) -> Write:
    """Lock requirements, and return the lock with its text."""

    def written(text: str) -> tuple[SoftwareLock, str]:
        path = tmp_path / "requirements.txt"
        path.write_text(text)
        lock = lock_file_packages(path, "x86_64", environ)
        return lock, as_pylock(lock, "x86_64", environ, tmp_path)

    return written


def test_packaging_reads_it_and_it_has_no_secrets(write: Write, index: str) -> None:
    lock, text = write("fast\n")
    document = Pylock.from_dict(tomllib.loads(text))
    assert str(document.requires_python) == f"=={sys.version_info[0]}.{sys.version_info[1]}.*"
    assert {each.name: str(each.version) for each in document.packages} == lock.packages
    assert {each.index for each in document.packages} == {index}
    (fast,) = (each for each in document.packages if each.name == "fast")
    (wheel,) = fast.wheels or ()
    # The Mac's isn't for hosts.
    assert wheel.filename == f"fast-1.0+cpu-{X86}.whl"
    assert wheel.hashes["sha256"] in lock.hashes["fast"]
    assert "t0ken" not in text


def test_software_takes_what_was_written(
    write: Write, environ: Mapping[str, str], tmp_path: Path
) -> None:
    folder = source_folder(tmp_path / "sources", "acme-folder")
    lock, text = write(f"fast\nacme-folder @ {folder.as_uri()}\n")
    path = tmp_path / "review" / "pylock.etl.toml"
    write_pylock(path, text, lock)
    again = lock_file_packages(path, "x86_64", environ)
    assert again.packages == lock.packages
    assert again.indexes == lock.indexes
    assert again.credentials == lock.credentials
    assert {name: set(each) <= set(lock.hashes[name]) for name, each in again.hashes.items()} == (
        dict.fromkeys(lock.packages, True)
    )
    assert again.contents == lock.contents
    assert as_pylock(again, "x86_64", environ, tmp_path) == text
    with pytest.raises(SoftwareUnusable, match="environments"):
        lock_file_packages(path, "arm64", environ)
    (wheel,) = lock.wheels
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        listed = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        files = {name: archive.read(name) for name in listed}
    planted = write_wheel({**files, "acme_folder.py": b"raise SystemExit('attacked')"})
    (path.parent / wheel.key).write_bytes(planted)
    with pytest.raises(SoftwareUnusable, match=r"(?s)acme-folder.*Hash mismatch"):
        lock_file_packages(path, "x86_64", environ)


def test_uv_installs_what_was_written(
    write: Write, environ: Mapping[str, str], tmp_path: Path
) -> None:
    folder = source_folder(tmp_path / "sources", "acme-folder")
    lock, text = write(f"acme-folder @ {folder.as_uri()}\n")
    path = tmp_path / "pylock.toml"
    write_pylock(path, text, lock)
    uv, made = find_uv(environ), tmp_path / "made"
    subprocess.run([uv, "venv", "--quiet", made], env=dict(environ), check=True)
    sync = [uv, "pip", "sync", "--require-hashes", "--no-build", f"--python={made}", path]
    subprocess.run(sync, env=dict(environ), check=True, capture_output=True)
    (site,) = made.glob("lib/*/site-packages")
    found = {each.name: each.version for each in importlib.metadata.distributions(path=[str(site)])}
    assert found == lock.versions


def test_a_signature_in_a_url_is_left_out(
    write: Write, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = root / "simple/fast/index.html"
    before = page.read_text()
    page.write_text(re.sub(r"\.whl(?=[#\"])", f".whl{SIGNED}", before))
    try:
        _, text = write("fast\n")
    finally:
        page.write_text(before)
    assert "s1gned" not in text
    assert f"fast-1.0%2Bcpu-{X86}.whl" in text or f"fast-1.0+cpu-{X86}.whl" in text


def test_an_index_that_has_other_archives_now_is_an_error(
    write: Write, environ: Mapping[str, str], tmp_path: Path
) -> None:
    lock, _ = write("fast\n")
    other = replace(lock, hashes={**lock.hashes, "fast": ("0" * 64,)})
    with pytest.raises(SoftwareNotResolved, match="other archives now: fast"):
        as_pylock(other, "x86_64", environ, tmp_path)


CHANNEL = "https://conda.example/forge"
ARCHIVE = {
    "name": "frame",
    "version": "2.0",
    "url": f"{CHANNEL}/noarch/frame-2.0-0.conda",
    "sha256": "a" * 64,
}


def _toml(**conda: str) -> str:
    listed = ", ".join(f'{name} = "{value}"' for name, value in {**ARCHIVE, **conda}.items())
    return f'[tool.terradask]\nformat = 1\nchannels = ["{CHANNEL}"]\nconda = [{{ {listed} }}]\n'


def test_condas_packages_are_read() -> None:
    (package,), channels = conda_packages(_toml(), Path("pylock.toml"), "x86_64")
    assert package.url == ARCHIVE["url"]
    assert channels == [CHANNEL]
    assert conda_packages("", Path("pylock.toml"), "x86_64") == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        _toml(url="https://me:t0ken@conda.example/forge/noarch/frame-2.0-0.conda"),
        _toml(url="https://conda.example/t/t0ken/noarch/frame-2.0-0.conda"),
        _toml(url="https://conda.example/forge/linux-aarch64/frame-2.0-0.conda"),
        _toml(url="https://conda.example/forge/noarch/frame-2.0-0.conda --hash=x"),
        _toml(url="file:///noarch/frame-2.0-0.conda"),
        _toml(url="frame"),
        _toml(sha256="a"),
        _toml(sha256="a" * 64 + "\\nuv==1"),
        '[tool.terradask]\nformat = 1\nconda = [{ url = "x" }]\n',
        _toml().replace("format = 1", "format = 2"),
        "[tool]\nterradask = 7\n",
        "[tool.terradask]\nformat = 1\nconda = 7\n",
        "[tool.terradask]\nformat = 1\nconda = [7]\n",
        "tool = 7\n",
        "[",
    ],
)
def test_what_hosts_would_not_take_of_conda_is_refused(text: str) -> None:
    with pytest.raises(SoftwareUnusable) as caught:
        conda_packages(text, Path("pylock.toml"), "x86_64")
    assert "t0ken" not in str(caught.value)


def test_the_command_writes_the_file_and_wheels_beside_it(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    folder = source_folder(tmp_path / "sources", "acme-folder")
    listed = tmp_path / "requirements.txt"
    listed.write_text(f"{PINS}acme-folder @ {folder.as_uri()}\n")
    command = ("software", "lock", str(listed))
    said = in_this_process(*command, environ=dict(environ))
    assert "wheels of acme-folder, which --out writes beside it" in said.stderr
    out = tmp_path / "out" / "pylock.toml"
    told = in_this_process(*command, "--out", str(out), environ=dict(environ))
    assert (told.returncode, told.stdout.strip()) == (0, str(out))
    assert out.read_text().strip() == said.stdout.strip()
    (archive,) = (
        p["archive"] for p in tomllib.loads(out.read_text())["packages"] if "archive" in p
    )
    assert (out.parent / archive["path"]).stat().st_size == archive["size"]
    refused = in_this_process(*command, "--out", str(tmp_path / "my.lock"), environ=dict(environ))
    assert refused.returncode != 0
    assert "pylock.NAME.toml" in refused.stderr
