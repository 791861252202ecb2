"""uv, as a program: where it is, and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from terradask._software.configured import Machine
from terradask._software.uv_settings import own_settings, own_variables, to_toml
from terradask.errors import SetupError
from terradask_modules.programs import environ_for_programs, find_program

#: What stands between a URL's scheme and its host.
_USER = re.compile(r"(?<=://)[^\s/@]+(?=@)")


@dataclass(frozen=True)
class Said:
    """How uv ended, and what it said, without credentials."""

    #: None if it could not be run, or took too long.
    code: int | None
    text: str
    output: str = ""
    timed_out: bool = False


def ask_uv(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    seconds: float,
    folder: Path | None = None,
    of_project: bool = False,
    text: str | None = None,
) -> Said:
    """Run uv in a folder, by default the working directory, with what counts of the configuration
    there (`uv_settings`); what a project says of its packages counts if they are asked for.
    It gets a text on standard input.

    Raises `SetupError`, `SoftwareUnusable`.
    """
    here = Machine.here(environ)
    machine = here if folder is None else replace(here, folder=folder)
    settings = own_settings(environ, machine, of_project=of_project)
    try:
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            named = Path(made, "uv.toml")
            named.write_text(to_toml(settings), encoding="utf-8")
            done = subprocess.run(
                [find_uv(environ), *arguments, "--color=never", f"--config-file={named}"],
                env=own_variables(environ_for_programs(environ), machine),
                input=text or "",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
                cwd=folder,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Said(
            None,
            without_users(f"{type(error).__name__}: {error}"),
            timed_out=isinstance(error, subprocess.TimeoutExpired),
        )
    return Said(done.returncode, without_users(done.stderr.strip()), done.stdout)


def find_uv(environ: Mapping[str, str]) -> str:
    """Return uv's path: beside this Python, else on ``PATH``. Raises `SetupError`."""
    found = find_program("uv", environ, before=[Path(sys.executable).parent])
    if found is None:
        raise SetupError(
            "uv, which resolves this environment for hosts, was not found.",
            given="neither beside this Python nor on PATH",
            advice="pip install uv; or package_sync=False, with which hosts get Dask alone",
        )
    return found


def without_users(text: str) -> str:
    """Return a text without the credentials in its URLs."""
    return _USER.sub("***", text)
