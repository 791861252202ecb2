"""The AWS provider in a package that Terraform checks in no time, and that says of its types only
what terradask needs.

Terraform reads all of a provider's package, 700 MB, at each of its commands, twice to initialise,
to compare it with the lock file; then it has the provider describe its 2,000 types. Both take more
processor time than everything else that a command does. The package here is a few lines of shell,
which start `tests/provider_launcher.py`, which starts the real provider. What the real package's
checksum is good for is tested where the real lock file is used; the examples and the demo use the
real package too.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from terradask._terraform.folder_contents import LOCK_FILE
from terradask._terraform.program import TERRAFORM
from terradask._terraform.provider_mirror import (
    CLI_CONFIG_VARIABLE,
    cli_config_in_use,
    this_platform,
    write_cli_config,
)
from terradask_modules.frameworks import PROVIDER_VERSION

#: Set to anything, it has the package start the real provider at once, with nothing in between.
DIRECT_VARIABLE = "TESTS_DIRECT_PROVIDER"

_SOURCE = TERRAFORM.provider
_LAUNCHER = Path(__file__).with_name("provider_launcher.py")


@dataclass(frozen=True)
class QuickProvider:
    """How Terraform gets the package.

    Parameters
    ----------
    environ
        Variables for whatever runs Terraform; with them, its user has the lock file.
    lock_file
        The lock file. The ``cdktf`` command needs it beside ``terradask.toml`` besides.
    """

    environ: Mapping[str, str]
    lock_file: Path

    def lock(self, folder: Path) -> None:
        """Put the lock file into a workspace's folder."""
        shutil.copy(self.lock_file, folder / LOCK_FILE)


@contextmanager
def quick_provider(folder: Path, real_lock_file: Path) -> Iterator[QuickProvider]:
    """Make the package from the one on this machine; where Terraform takes the provider from
    elsewhere, all stays as it is.

    Parameters
    ----------
    folder
        Where to make it.
    real_lock_file
        The real provider's lock file.
    """
    mirror = cli_config_in_use(os.environ).mirror
    if mirror is None:
        yield QuickProvider({}, real_lock_file)
        return
    below = Path(_SOURCE, PROVIDER_VERSION, this_platform())
    (real,) = (mirror / below).glob("terraform-provider-aws*")
    with relay() as path:
        package = folder / "mirror" / below / real.name
        _write_package(package, path, real)
        lock_file = folder / "data/terradask" / LOCK_FILE
        write_lock(lock_file, package)
        config = write_cli_config(folder / "mirror", folder / "terraform.rc")
        yield QuickProvider(
            {CLI_CONFIG_VARIABLE: str(config), "XDG_DATA_HOME": str(folder / "data")}, lock_file
        )


@contextmanager
def relay() -> Iterator[str]:
    """Run the relay, which ends with this process, however that ends; give its socket."""
    command = [sys.executable, "-m", f"{__package__}.provider_relay"]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        socket = process.stdout.readline().strip()
        assert socket, "the relay doesn't start"
        yield socket


def _write_package(package: Path, relay_socket: str, real: Path) -> None:
    launch = shlex.join([sys.executable, "-IS", str(_LAUNCHER), relay_socket, str(real)])
    package.parent.mkdir(parents=True)
    package.write_text(
        f'#!/bin/sh\n[ -z "${DIRECT_VARIABLE}" ] || exec {shlex.quote(str(real))}\nexec {launch}\n'
    )
    package.chmod(0o755)


def write_lock(lock_file: Path, package: Path, provider: str = _SOURCE) -> None:
    """Write a lock file by which Terraform runs a package of one file."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock_file.write_text(
        f'provider "{provider}" {{\n'
        f'  version     = "{PROVIDER_VERSION}"\n'
        f'  constraints = "{PROVIDER_VERSION}"\n'
        f'  hashes      = ["{package_hash(package)}"]\n'
        "}\n"
    )


def package_hash(file: Path) -> str:
    """Return the checksum of a package of one file:
    https://developer.hashicorp.com/terraform/language/files/dependency-lock#h1.
    """
    listed = f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
    return "h1:" + base64.b64encode(hashlib.sha256(listed.encode()).digest()).decode()
