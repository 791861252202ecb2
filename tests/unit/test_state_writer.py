"""States of the other program, and encrypted ones: refused before the program reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from terradask._terraform.program import OPENTOFU, TERRAFORM, Program
from terradask._terraform.state.model import StateInfo, check_writer, state_of
from terradask.errors import StateConflict, TerraformError

from .network_folders import KEY, Folder
from .network_folders import state_of as network_state

#: https://github.com/opentofu/opentofu/blob/v1.11/internal/encryption/base.go
ENCRYPTED = {
    "serial": 4,
    "lineage": "9bd7ad5f-5c1c-bb11-d2ba-ad2c5e0a8b4c",
    "meta": {"key_provider.pbkdf2.mykey": "eyJzYWx0IjoiIn0="},
    "encrypted_data": "DyiqqPOVTGBJhWE=",
    "encryption_version": "v0",
}


def _state(*writers: Program) -> dict[str, Any]:
    document = json.loads(network_state())
    resources = [
        {**resource, "provider": writer.provider_in_state}
        for resource, writer in zip(document["resources"], writers, strict=False)
    ]
    return {**document, "resources": resources}


@pytest.mark.parametrize(
    ("program", "writers", "warnings"),
    [
        (TERRAFORM, (), 0),
        (TERRAFORM, (TERRAFORM, TERRAFORM), 0),
        (OPENTOFU, (), 0),
        (OPENTOFU, (OPENTOFU, OPENTOFU), 0),
        (OPENTOFU, (TERRAFORM, TERRAFORM), 1),
        (OPENTOFU, (TERRAFORM, OPENTOFU), 1),
    ],
)
def test_what_a_program_can_continue(
    program: Program, writers: tuple[Program, ...], warnings: int
) -> None:
    warned: list[str] = []
    check_writer(_state(*writers), program, "s3://b/k", warned.append)
    assert len(warned) == warnings
    assert all("Terraform wrote s3://b/k" in text for text in warned)


@pytest.mark.parametrize("writers", [(OPENTOFU, OPENTOFU), (TERRAFORM, OPENTOFU)])
def test_what_terraform_can_not_continue(writers: tuple[Program, ...]) -> None:
    with pytest.raises(StateConflict, match="OpenTofu wrote the state") as caught:
        check_writer(_state(*writers), TERRAFORM, "s3://b/k", pytest.fail)
    assert "registry.opentofu.org/hashicorp/aws" in str(caught.value.given)
    assert "TERRAFORM_BINARY_NAME=tofu" in str(caught.value.advice)
    assert caught.value.exit_code == 5


def test_the_networks_state_is_checked_before_anything_is_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.objects[KEY] = json.dumps(_state(OPENTOFU, OPENTOFU)).encode()
    folder.state.prepare(OPENTOFU)
    assert folder.told == []
    with pytest.raises(StateConflict, match="this is Terraform"):
        folder.state.prepare(TERRAFORM)
    folder.objects[KEY] = json.dumps(_state(TERRAFORM, TERRAFORM)).encode()
    folder.state.prepare(TERRAFORM)
    assert folder.told == []
    folder.state.prepare(OPENTOFU)
    assert ["Terraform wrote" in text for text in folder.told] == [True]


def test_an_encrypted_state_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    # Its serial and lineage are plain.
    assert StateInfo.from_json(ENCRYPTED).ids == {}
    content = json.dumps(ENCRYPTED).encode()
    with pytest.raises(TerraformError, match="OpenTofu has encrypted the state") as caught:
        state_of(content, "s3://b/k")
    assert "TF_ENCRYPTION" in str(caught.value.advice)
    folder = Folder(tmp_path)
    folder.objects[KEY] = content
    for read in (folder.state.prepare, lambda: folder.states.state("network")):
        with pytest.raises(TerraformError, match="encrypted"):
            read()
