"""Lock files of the provider: each program's own address and checksums."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from terradask._terraform.folder_contents import LOCK_FILE
from terradask._terraform.program import OPENTOFU, PROGRAMS, TERRAFORM, Program
from terradask._terraform.provider_lock import lock_in_use, provider_lock
from terradask_modules.frameworks import PROVIDER_VERSION

_PLATFORMS = 10


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "data/terradask").mkdir(parents=True)
    return tmp_path / "data/terradask"


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_has_a_lock_file_of_its_registry(program: Program):
    text = provider_lock(program).read_text()
    assert re.findall(r'^provider "(.+)" {$', text, re.M) == [program.provider]
    for name in ("version", "constraints"):
        assert re.findall(rf'^  {name} += "(.+)"$', text, re.M) == [PROVIDER_VERSION]


def test_opentofus_has_both_checksums_of_each_platform():
    # The unpacked provider, which each command checks, has only the second kind.
    text = provider_lock(OPENTOFU).read_text()
    archives = re.findall(r'^    "zh:[0-9a-f]{64}",$', text, re.M)
    contents = re.findall(r'^    "h1:[A-Za-z0-9+/]{43}=",$', text, re.M)
    assert len(set(archives)) == len(set(contents)) == _PLATFORMS
    # Its registry's packages are builds of its own.
    terraforms = provider_lock(TERRAFORM).read_text()
    assert not [line for line in (*archives, *contents) if line in terraforms]


def test_a_users_own_lock_file_is_for_the_program_that_it_names(data: Path):
    own = data / LOCK_FILE
    own.write_text(f'provider "{OPENTOFU.provider}" {{}}\n')
    assert provider_lock(OPENTOFU) == own
    assert provider_lock(TERRAFORM).name == "terraform.lock.hcl"
    own.write_text(f'provider "{TERRAFORM.provider}" {{}}\n')
    assert provider_lock(TERRAFORM) == own
    assert provider_lock(OPENTOFU).name == "tofu.lock.hcl"


def test_stacks_are_written_with_the_lock_file_of_the_program_in_use(tmp_path: Path):
    for program in PROGRAMS:
        binary = tmp_path / program.command
        binary.write_text(f"#!/bin/sh\necho '{program.name} v1.11.4'\n")
        binary.chmod(0o755)
        environ = {"TERRAFORM_BINARY_NAME": str(binary)}
        assert lock_in_use(environ) == provider_lock(program)
    # `terradask synth` needs no program.
    assert lock_in_use({"TERRAFORM_BINARY_NAME": "/no/such"}) == provider_lock(TERRAFORM)
