"""The command line, run in the test's process: the start of one takes longer than most commands."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from terradask.cli import run

from .waiting import PROCESS_SECONDS


def in_this_process(
    *arguments: str, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command, with these variables alone and in this folder where they are given."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patched,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        if folder is not None:
            patched.chdir(folder)
        if environ is not None:
            for name in os.environ.keys() - environ.keys():
                patched.delenv(name)
            for name, value in environ.items():
                patched.setenv(name, value)
        code = run(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def run_checked(
    command: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    code: int = 0,
    limit_seconds: float = PROCESS_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program, which ends with this code."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_seconds,
    )
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
