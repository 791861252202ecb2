"""Which files may be scripts of hosts, and what each other one is told."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from terradask_stacks.errors import SettingsError
from terradask_stacks.host_scripts import MOST_BYTES, HostScript, read_host_scripts
from terradask_stacks.loading import load_settings

GOOD = b'#!/bin/bash\nset -e\necho "${HOME} %{no template} ${TfToken[TOKEN.0]}"\n'


def read(folder: Path, **settings: str | int) -> dict[str, HostScript]:
    lines = "\n".join(f"{name} = {value!r}" for name, value in settings.items())
    (folder / "terradask.toml").write_text(f"[network]\n{lines}\n")
    return read_host_scripts(load_settings(folder, environ={}))


def refused(folder: Path, given: str) -> str:
    with pytest.raises(SettingsError) as error:
        read(folder, host_setup=given)
    text = str(error.value)
    assert f"network.host_setup in {folder}/terradask.toml: " in text
    return text


def test_scripts_are_read_with_their_limits(tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts/setup.sh").write_bytes(GOOD)
    (tmp_path / "leave.sh").write_bytes(b"#!/usr/bin/env python3\n")
    found = read(
        tmp_path,
        host_setup="hosts/setup.sh",
        host_leave="leave.sh",
        host_setup_timeout_seconds=600,
    )
    assert found["setup"].content == GOOD
    assert found["setup"].key == f"host/scripts/{hashlib.sha256(GOOD).hexdigest()}"
    assert [script.timeout_seconds for script in found.values()] == [600, 30]
    assert read(tmp_path) == {}


def test_70_kib_of_script(tmp_path: Path) -> None:
    (tmp_path / "setup.sh").write_bytes(GOOD + b"#" * 70 * 1024)
    text = refused(tmp_path, "setup.sh")
    assert f"given: 'setup.sh, {70 * 1024 + len(GOOD):,} bytes'" in text
    assert "allowed: 65,536 bytes" in text
    (tmp_path / "setup.sh").write_bytes(GOOD + b"#" * (MOST_BYTES - len(GOOD)))
    assert len(read(tmp_path, host_setup="setup.sh")["setup"].content) == MOST_BYTES


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the script is empty"),
        (b" \n\n", "the script is empty"),
        (b"#!/bin/bash\necho \xff\n", "isn't UTF-8: byte 17 is 0xff"),
        (b"\x7fELF\x02\x01\x01\x00", "names no program to run it: '\\x7fELF"),
        (b"#!/bin/bash\0\n", "names no program to run it"),
        (b"echo hello\n", "names no program to run it: 'echo hello'"),
        (b"#!bash\necho\n", "names no program to run it: '#!bash'"),
        (b"\xef\xbb\xbf#!/bin/bash\n", "names no program to run it: '\\ufeff#!/bin/bash'"),
        (b"#!/bin/bash\r\necho\r\n", "the script has Windows line ends"),
    ],
)
def test_what_is_no_script(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "setup.sh").write_bytes(content)
    text = refused(tmp_path, "setup.sh")
    assert message in text
    assert "#!/bin/bash" in text.partition("allowed: ")[2]


def test_other_files_of_the_user_are_not_published(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    (tmp_path / "other.sh").write_bytes(GOOD)
    (folder / "link.sh").symlink_to(tmp_path / "other.sh")
    (folder / "linked").symlink_to(tmp_path)
    outside = "is outside of the folder of terradask.toml"
    assert outside in refused(folder, "../other.sh")
    assert outside in refused(folder, str(tmp_path / "other.sh"))
    assert f"link.sh leads to {tmp_path}/other.sh" in refused(folder, "link.sh")
    assert f"linked leads to {tmp_path}" in refused(folder, "linked/other.sh")


def test_missing_files_and_folders_and_all_of_them_at_once(tmp_path: Path) -> None:
    assert f"there is no such script in {tmp_path}" in refused(tmp_path, "setup.sh")
    (tmp_path / "folder").mkdir()
    assert "the script isn't a file" in refused(tmp_path, "folder")
    with pytest.raises(SettingsError) as error:
        read(tmp_path, host_setup="setup.sh", host_leave="folder")
    assert len(error.value.findings) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("host_setup_timeout_seconds", 601), ("host_leave_timeout_seconds", 61), ("host_setup", "")],
)
def test_limits_of_time(tmp_path: Path, name: str, value: str | int) -> None:
    with pytest.raises(SettingsError, match=name):
        read(tmp_path, **{name: value})
