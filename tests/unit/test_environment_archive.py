"""Environments as streams: what is packed and unpacked, and what is refused."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from terradask_host.agent import environment_archive
from terradask_host.agent.environment_archive import pack, unpack
from terradask_host.errors import EnvironmentFailed


def test_files_keep_their_rights_and_times_and_links_stay_the_hosts_own(tmp_path: Path) -> None:
    made, there, stream = tmp_path / "made", tmp_path / "there", io.BytesIO()
    (made / "bin").mkdir(parents=True)
    for name, mode in (("bin/dask", 0o755), ("module.py", 0o600)):
        (made / name).write_text(name)
        (made / name).chmod(mode)
        os.utime(made / name, (1_000_000_000, 1_000_000_000))
    (made / "bin/python").symlink_to(sys.executable)
    os.link(made / "module.py", made / "same.py")
    pack(made, stream)
    stream.seek(0)
    (there / "bin").mkdir(parents=True)
    (there / "bin/python").symlink_to("/nowhere")
    unpack(stream, there)
    assert (there / "bin/python").readlink() == Path("/nowhere")
    assert (there / "same.py").read_text() == (there / "module.py").read_text() == "module.py"
    assert (there / "bin/dask").stat().st_mode & 0o777 == 0o755
    assert (there / "module.py").stat().st_mode & 0o777 == 0o644
    assert (there / "module.py").stat().st_mtime == 1_000_000_000


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


@pytest.mark.parametrize(
    "entry",
    [
        _entry("../outside"),
        _entry("lib/../../outside"),
        _entry("/etc/passwd"),
        _entry("link", tarfile.SYMTYPE, "/etc"),
        _entry("link", tarfile.LNKTYPE, "../outside"),
        _entry("device", tarfile.CHRTYPE),
        _entry("pipe", tarfile.FIFOTYPE),
        _entry("folder", tarfile.DIRTYPE),
        _entry("away/file"),
    ],
    ids=lambda entry: f"{entry.name}-{entry.type.decode()}",
)
def test_no_entry_leads_out_of_the_environment(tmp_path: Path, entry: tarfile.TarInfo) -> None:
    folder, stream = tmp_path / "environment", io.BytesIO()
    folder.mkdir()
    (folder / "away").symlink_to(tmp_path)
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(entry, io.BytesIO())
    stream.seek(0)
    with pytest.raises(EnvironmentFailed, match="archive"):
        unpack(stream, folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["environment"]


def _sparse(archive: tarfile.TarFile) -> None:
    entry = _entry("large", b"S")
    entry.size = 512
    archive.addfile(entry, io.BytesIO(bytes(512)))


def _sparse_by_header(archive: tarfile.TarFile) -> None:
    """As GNU tar has a file of 16 MiB without a byte."""
    entry = _entry("large")
    entry.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(2**24),
        "GNU.sparse.map": f"{2**24},0",
    }
    archive.addfile(entry)


def _large_header(archive: tarfile.TarFile) -> None:
    """A header that is to be read into memory, and is larger than all there is."""
    archive.addfile(_entry("ordinary"))
    entry = _entry("header", tarfile.XHDTYPE)
    entry.size = 2**32
    assert archive.fileobj is not None
    archive.fileobj.write(entry.tobuf())


def _header_of_header(archive: tarfile.TarFile) -> None:
    entry = _entry("header", tarfile.XHDTYPE)
    assert archive.fileobj is not None
    archive.fileobj.write(entry.tobuf() * 5000)


def _long_name(archive: tarfile.TarFile) -> None:
    entry = _entry("name", tarfile.GNUTYPE_LONGNAME)
    entry.size = 2**32
    assert archive.fileobj is not None
    archive.fileobj.write(entry.tobuf())


def _strange_time(archive: tarfile.TarFile) -> None:
    entry = _entry("late")
    entry.pax_headers = {"mtime": "1e400"}
    archive.addfile(entry)


def _strange_name(archive: tarfile.TarFile) -> None:
    entry = _entry("name")
    entry.pax_headers = {"path": "na\0me"}
    archive.addfile(entry)


def _many(archive: tarfile.TarFile) -> None:
    for number in range(11):
        archive.addfile(_entry(f"{number}"))


def _many_folders(archive: tarfile.TarFile) -> None:
    archive.addfile(_entry("/".join("abcdefghijk")))


@pytest.mark.parametrize(
    "write",
    [
        _sparse,
        _sparse_by_header,
        _large_header,
        _header_of_header,
        _long_name,
        _strange_time,
        _strange_name,
        _many,
        _many_folders,
    ],
)
def test_an_archive_takes_no_more_than_its_own_size_and_so_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[tarfile.TarFile], None]
) -> None:
    """Before anybody knows whether it is the right one."""
    monkeypatch.setattr(environment_archive, "MOST_FILES", 10)
    folder, stream = tmp_path / "environment", _Counted()
    folder.mkdir()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        write(archive)
    stream.seek(0)
    with pytest.raises(EnvironmentFailed, match="archive"):
        unpack(stream, folder)
    written = list(folder.rglob("*"))
    assert len(written) <= 11
    assert sum(path.stat().st_size for path in written if path.is_file()) == 0
    assert stream.asked <= 2**18


class _Counted(io.BytesIO):
    """A stream that knows how many bytes it was asked for; 16 MiB of zeros follow what it has."""

    asked = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        self.asked += size
        return super().read(size) or (bytes(size) if self.asked < 2**24 else b"")


@pytest.mark.parametrize("content", [b"", b"no archive" * 100, b"\x1f\x8b" + b"x" * 600])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EnvironmentFailed, match="can't be read"):
        unpack(io.BytesIO(content), tmp_path)
