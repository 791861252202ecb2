"""OpenTofu for tests: a stand-in (`tests/stand_in_tofu.py`), with the provider at the address that
OpenTofu gives it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from terradask._terraform.binary import find_terraform
from terradask._terraform.folder_contents import LOCK_FILE
from terradask._terraform.program import OPENTOFU, TERRAFORM
from terradask._terraform.provider_mirror import (
    CLI_CONFIG_VARIABLE,
    cli_config_in_use,
    write_cli_config,
)

from .quick_provider import QuickProvider, write_lock

_PROGRAM = Path(__file__).with_name("stand_in_tofu.py")


def stand_in(folder: Path, provider: QuickProvider) -> Mapping[str, str] | None:
    """Make the stand-in, and return the variables with which terradask runs it; None without a copy
    of the provider on this machine.
    """
    terraforms = cli_config_in_use({**os.environ, **provider.environ}).cli_config
    if not provider.environ or terraforms is None:
        return None
    mirror = folder / "mirror"
    shutil.copytree(terraforms.parent / "mirror", mirror)
    shutil.copytree(mirror / TERRAFORM.registry, mirror / OPENTOFU.registry)
    (package,) = (mirror / OPENTOFU.provider).glob("*/*/terraform-provider-aws*")
    write_lock(folder / "data/terradask" / LOCK_FILE, package, OPENTOFU.provider)
    binary = find_terraform(os.environ)
    command = [sys.executable, "-IS", str(_PROGRAM), *binary.command, str(mirror)]
    program = folder / "bin/tofu"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join([*command, str(folder / "runs")])} "$@"\n')
    program.chmod(0o755)
    # Without Terraform's copy, which OpenTofu doesn't find.
    shutil.copytree(mirror / OPENTOFU.registry, folder / "own" / OPENTOFU.registry)
    settings = write_cli_config(folder / "own", folder / "tofu.rc", program=OPENTOFU)
    return {
        "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]]),
        "TERRAFORM_BINARY_NAME": "tofu",
        CLI_CONFIG_VARIABLE: str(settings),
        "XDG_DATA_HOME": str(folder / "data"),
    }
