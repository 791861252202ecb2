"""Environments as streams: what is packed and unpacked, and what is refused."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("content", [b"", b"no archive" * 100, b"\x1f\x8b" + b"x" * 600])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EnvironmentFailed, match="can't be read"):
        unpack(io.BytesIO(content), tmp_path)
