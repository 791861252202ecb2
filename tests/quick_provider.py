"""The AWS provider in a package that Terraform checks in no time: a line of shell that starts the real one.

Terraform reads all of a provider's package, 700 MB, at each of its commands, twice to initialise, to compare it with the lock file: a
quarter of the processor time that it takes. What the real package's checksum is good for is tested where the real lock file is used.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from terradask._terraform.provider_mirror import (
    CLI_CONFIG_VARIABLE,
    PROVIDER_VERSION,
    cli_config_in_use,
    this_platform,
    write_cli_config,
)
from terradask._terraform.terraform import LOCK_FILE

_SOURCE = "registry.terraform.io/hashicorp/aws"


@dataclass(frozen=True)
class QuickProvider:
    """How Terraform gets the package.

    Parameters
    ----------
    environ
        Variables for whatever runs Terraform. With them, a folder that is no workspace's has the lock file already.
    lock_file
        The lock file; it belongs beside each ``terradask.toml``.
    """

    environ: Mapping[str, str]
    lock_file: Path

    def lock(self, folder: Path) -> None:
        """Put the lock file into a workspace's folder."""
        shutil.copy(self.lock_file, folder / LOCK_FILE)


def quick_provider(folder: Path, real_lock_file: Path) -> QuickProvider:
    """Make the package from the one on this machine; where Terraform takes the provider from elsewhere, all stays as it is.

    Parameters
    ----------
    folder
        Where to make it.
    real_lock_file
        The real provider's lock file.
    """
    mirror = cli_config_in_use(os.environ).mirror
    if mirror is None:
        return QuickProvider({}, real_lock_file)
    below = Path(_SOURCE, PROVIDER_VERSION, this_platform())
    (real,) = (mirror / below).glob("terraform-provider-aws*")
    launcher = folder / "mirror" / below / real.name
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real))} "$@"\n')
    launcher.chmod(0o755)
    lock_file = folder / "data/terradask" / LOCK_FILE
    lock_file.parent.mkdir(parents=True)
    lock_file.write_text(
        f'provider "{_SOURCE}" {{\n'
        f'  version     = "{PROVIDER_VERSION}"\n'
        f'  constraints = "{PROVIDER_VERSION}"\n'
        f'  hashes      = ["{_package_hash(launcher)}"]\n'
        "}\n"
    )
    config = write_cli_config(folder / "mirror", folder / "terraform.rc")
    return QuickProvider({CLI_CONFIG_VARIABLE: str(config), "XDG_DATA_HOME": str(folder / "data")}, lock_file)


def _package_hash(file: Path) -> str:
    """Return the checksum of a package of one file: https://developer.hashicorp.com/terraform/language/files/dependency-lock#h1."""
    listed = f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
    return "h1:" + base64.b64encode(hashlib.sha256(listed.encode()).digest()).decode()
