"""What `terradask doctor` says of the provider is what Terraform says when it is to install it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._doctor import doctor
from terradask._doctor.doctor import examine
from terradask._doctor.provider_check import check_provider
from terradask._terraform import provider_mirror
from terradask._terraform.program import OPENTOFU, TERRAFORM, Program
from terradask.cli import run

INSTALLS = "Installing provider version: hashicorp/aws v5.100.0..."


def terraform(
    folder: Path,
    *messages: str,
    error: str = "",
    seconds: float = 0,
    program: Program = TERRAFORM,
) -> dict[str, str]:
    """Make a Terraform that says these, and return the environment with it."""
    lines = [json.dumps({"@message": text, "type": "log"}) for text in messages]
    if error:
        found = {"severity": "error", "summary": "Failed to install provider", "detail": error}
        lines.append(json.dumps({"@message": "", "type": "diagnostic", "diagnostic": found}))
    script = folder / program.command
    said = "\n".join(lines)
    script.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = version ] && {{ echo "{program.name} v1.11.4"; exit; }}\n'
        f"cat <<'END'\n{said}\nEND\n"
        f"trap 'exit 1' INT\nfor i in $(seq {int(seconds * 20)}); do sleep 0.05; done\n"
        f"mkdir -p .terraform; exit {1 if error else 0}\n"
    )
    script.chmod(0o755)
    return {**os.environ, "TERRAFORM_BINARY_NAME": str(script)}


def test_what_terraform_can_not_install_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = terraform(tmp_path, error="could not connect to registry.terraform.io: no such host")
    (found,) = examine(["provider"], environ=environ)
    assert not found.ok
    assert "registry" in found.found
    assert "terradask doctor --fix" in str(found.fix)
    monkeypatch.setenv("TERRAFORM_BINARY_NAME", environ["TERRAFORM_BINARY_NAME"])
    assert run(["doctor", "--toolchain"]) == 3
    assert "missing  provider" in capsys.readouterr().out


def test_a_copy_of_another_checksum_is_missing(tmp_path: Path) -> None:
    problem = "doesn't match any of the checksums previously recorded in the dependency lock file"
    settings = tmp_path / "terraform.rc"
    settings.write_text("")
    environ = terraform(tmp_path, INSTALLS, error=problem)
    # From a registry the installation is stopped at once, before its error.
    (found,) = examine(["provider"], environ={**environ, "TF_CLI_CONFIG_FILE": str(settings)})
    assert not found.ok
    assert "differs from the lock file" in found.found


@pytest.mark.parametrize("kind", ["registry", "user"])
def test_what_would_be_downloaded_is_not(tmp_path: Path, kind: str) -> None:
    environ = terraform(tmp_path, INSTALLS, seconds=30)
    settings = tmp_path / "terraform.rc"
    settings.write_text("")
    environ |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    environ["TF_CLI_CONFIG_FILE"] = str(settings) if kind == "user" else ""
    started = time.monotonic()
    assert check_provider(environ, install_seconds=0.2).ok
    assert time.monotonic() - started < 20
    assert check_provider(terraform(tmp_path, INSTALLS)).ok


@pytest.mark.parametrize(
    "message",
    [
        "- Installing hashicorp/aws v5.100.0...",  # OpenTofu 1.11
        "Installing hashicorp/aws v5.100.0 to the shared cache directory...",  # OpenTofu 1.12
    ],
)
def test_what_opentofu_would_download_is_not(tmp_path: Path, message: str) -> None:
    environ = terraform(tmp_path, message, seconds=30, program=OPENTOFU)
    environ |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "TF_CLI_CONFIG_FILE": ""}
    started = time.monotonic()
    found = check_provider(environ)
    assert (found.ok, found.found) == (
        True,
        "hashicorp/aws 5.100.0 from registry.opentofu.org",
    )
    assert time.monotonic() - started < 20


def test_a_copy_for_terraform_alone_is_named_to_opentofu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = "could not connect to registry.opentofu.org: no such host"
    environ = terraform(tmp_path, error=problem, program=OPENTOFU)
    environ |= {"HOME": str(tmp_path), "TF_CLI_CONFIG_FILE": ""}
    monkeypatch.setattr(
        provider_mirror,
        "find_mirror",
        lambda *, program: None if program is OPENTOFU else tmp_path / "copy",
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (found,) = examine(["provider"], environ=environ, fix=True)
    assert not found.ok
    assert f"the copy in {tmp_path / 'copy'} is Terraform's" in found.found
    assert "tofu providers mirror" in str(found.fix)


def test_a_registry_that_never_answers_is_missing(tmp_path: Path) -> None:
    found = check_provider(terraform(tmp_path, "Initializing", seconds=30), answer_seconds=0.3)
    assert not found.ok
    assert "no reply within" in found.found


def test_without_terraform_the_provider_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERRAFORM_BINARY_NAME", "/no/such/terraform")
    assert run(["doctor", "--toolchain"]) == 3
    said = capsys.readouterr().out
    assert "-        provider  not checked: it depends on terraform" in said
    assert said.count("to do:") == 1


def test_what_aws_refuses_in_its_own_words_ends_one_check_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ClientError({"Error": {"Code": "OptInRequired", "Message": "subscribe"}}, "Describe")

    class Refuses:
        account_id, caller_arn, region = "123456789012", "arn", "us-east-1"

        def client(self, name: str) -> Any:
            raise refused

    monkeypatch.setattr(doctor._Examiner, "_aws", Refuses())
    found = examine(["region", "python"])
    assert [(one.check, one.ok) for one in found] == [("region", False), ("python", True)]
    assert "OptInRequired" in found[0].found
