"""The Python that the framework runs in: this one, a given one, or that of an environment which
terradask makes for it.

The environment is in the user's cache folder, one for each ``synthesis.lock`` and Python. It is
complete or absent: it is made under another name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from terradask._common.progress import Message, Progress, phase, silent
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import read_indexes
from terradask._software.installers import find_uv
from terradask._software.uv import run_uv
from terradask._terraform.platforms import check_platform
from terradask.errors import SetupError
from terradask_modules.frameworks import installed_framework
from terradask_stacks.loading import SYNTHESIS_PYTHON_VARIABLE
from terradask_stacks.rendering import OtherProcess
from terradask_stacks.synthesis import OtherPython
from terradask_stacks.synthesis_lock import SYNTHESIS_LOCK, locked_versions
from terradask_stacks.user_folders import cache_folder

Kind = Literal["here", "given", "made", "not made"]

_VENV_SECONDS, _INSTALL_SECONDS = 60.0, 900.0
_WAIT_SECONDS = 900.0
#: How long an environment that no command uses stays.
_KEPT_SECONDS = 30 * 24 * 3600.0
#: The last lines of uv that an error quotes.
_QUOTED = 8

_OTHERWISE = (
    "pip install 'terradask[deploy]' in this environment; or set "
    f"{SYNTHESIS_PYTHON_VARIABLE} to the Python of one that has it"
)


@dataclass(frozen=True)
class FrameworkEnvironment:
    """Finds or makes the Python that the framework runs in."""

    environ: Mapping[str, str]
    progress: Progress = silent

    @classmethod
    def here(cls, progress: Progress = silent) -> FrameworkEnvironment:
        """Return that of this process."""
        return cls(os.environ, progress)

    @property
    def kind(self) -> Kind:
        """Whether the framework is in this Python, or in another one that exists or doesn't."""
        if self.environ.get(SYNTHESIS_PYTHON_VARIABLE):
            return "given"
        if installed_framework() is not None:
            return "here"
        return "made" if self.python.is_file() else "not made"

    @property
    def python(self) -> Path:
        """The other Python, which may be missing."""
        given = self.environ.get(SYNTHESIS_PYTHON_VARIABLE)
        return Path(given) if given else _python_in(self._folder)

    def other_python(self) -> OtherPython | None:
        """Return itself for the other Python; None if the framework runs in this one.

        Raises `SetupError` if there is none, and none can be made.
        """
        kind = self.kind
        if kind == "here":
            return None
        if kind == "given":
            _check_given(self.python)
        elif kind == "not made":
            # On Windows, nothing keeps two processes from making it at once.
            check_platform()
            _check_uv(self.environ)
        return self

    def get(self) -> Path:
        """Return the other Python, made if necessary. Raises `SetupError`, `FolderBusy`."""
        if self.kind == "not made":
            self._make()
        if self.kind == "made":
            # For the removal of those that no command uses.
            os.utime(self._folder)
        return self.python

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the framework in the other Python; a given one is asked.

        Raises `SetupError` if that has none.
        """
        given = self.kind == "given"
        return self.check() if given else locked_versions()

    def check(self) -> Mapping[str, str]:
        """Return the versions that the other Python answers. Raises `SetupError`."""
        return OtherProcess(self.python).versions()

    def remake(self) -> None:
        """Make terradask's own environment, again if it is there."""
        # First, so that an interruption leaves none that seems complete.
        self.python.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self.get()

    # ---- terradask's own environment -------------------------------------------------------------

    @cached_property
    def _root(self) -> Path:
        return cache_folder() / "synthesis-environments"

    @cached_property
    def _folder(self) -> Path:
        parts = (SYNTHESIS_LOCK.read_bytes(), sys.version.encode(), sys.base_prefix.encode())
        return self._root / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def _make(self) -> None:
        # Here, and not above: Windows has no such locks.
        from terradask._terraform.folder_lock import FolderLock

        lock = FolderLock(
            self._folder,
            limit_seconds=_WAIT_SECONDS,
            on_wait=lambda busy: self.progress(Message(f"waiting: {busy.problem}")),
        )
        with lock:
            if not self.python.is_file():
                self.progress(
                    Message(
                        "CDKTF isn't in this environment: making one for it, once for this "
                        "version (some 450 MB)"
                    )
                )
                with phase(self.progress, "install", "cdktf"):
                    self._install()
                _remove_unused(self._root)

    def _install(self) -> None:
        """Make the environment under another name, which gets its own at the end."""
        made = self._folder.with_name(f".making-{self._folder.name}")
        shutil.rmtree(made, ignore_errors=True)
        # The folder's configuration counts, not that of the working directory: what uv installs is
        # in the lock, and its indexes are the user's.
        machine = replace(Machine.here(self.environ), folder=self._root)
        environ = read_indexes(self.environ, machine).environ(self.environ)
        try:
            self._run(["venv", "--no-project", f"--python={sys.executable}", str(made)], environ)
            self._run(
                [
                    *("pip", "install", f"--python={_python_in(made)}", "--no-deps"),
                    # Nothing is built; the hash counts, whatever index has the archive.
                    *("--require-hashes", "--only-binary=:all:"),
                    *("--index-strategy=unsafe-best-match", f"--requirements={SYNTHESIS_LOCK}"),
                ],
                environ,
            )
            shutil.rmtree(self._folder, ignore_errors=True)
            made.rename(self._folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _run(self, arguments: list[str], environ: Mapping[str, str]) -> None:
        seconds = _VENV_SECONDS if arguments[0] == "venv" else _INSTALL_SECONDS
        done = run_uv([*arguments, "--quiet"], environ, seconds=seconds, folder=self._root)
        if done.code != 0:
            raise SetupError(
                "the environment for CDKTF, which writes Terraform's configuration, can't be made",
                given="\n".join(done.text.splitlines()[-_QUOTED:]),
                allowed=f"the packages of {SYNTHESIS_LOCK}, by their hashes",
                advice="see that the package index answers (terradask software indexes lists it), "
                f"and run the command again; or {_OTHERWISE}",
            )


def _python_in(environment: Path) -> Path:
    names = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return environment.joinpath(*names)


def _check_given(python: Path) -> None:
    if not (python.is_absolute() and python.is_file() and os.access(python, os.X_OK)):
        raise SetupError(
            f"{SYNTHESIS_PYTHON_VARIABLE} names no Python",
            given=python,
            allowed="the absolute path of a Python that has the extra deploy, such as "
            "/opt/synthesis/bin/python",
            advice="correct it, or leave it out",
        )


def _check_uv(environ: Mapping[str, str]) -> None:
    try:
        find_uv(environ)
    except SetupError as error:
        raise SetupError(
            "CDKTF, which writes Terraform's configuration, is neither in this environment nor in "
            "one of its own; uv, which would make that, was not found",
            given=error.given,
            advice=f"pip install uv; or {_OTHERWISE}",
        ) from error


def _remove_unused(root: Path) -> None:
    """Remove environments that no command has used for a while: of earlier versions."""
    oldest = time.time() - _KEPT_SECONDS
    for folder in root.iterdir():
        if folder.is_dir() and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_name(f".{folder.name}.lock").unlink(missing_ok=True)


# ---- a user's first synthesis --------------------------------------------------------------------

#: At most one.
_BEGUN: list[subprocess.Popen[bytes]] = []


def begin_first_synthesis(environment: FrameworkEnvironment, cache_dir: Path) -> None:
    """Begin a user's first synthesis on a machine, in a process beside this one: jsii unpacks the
    provider's bindings, which takes it 3 seconds. `cache_dir` has the results of earlier syntheses.

    Nothing begins where the framework isn't there; what fails is left to the synthesis.
    """
    if _BEGUN or environment.kind == "not made" or any(cache_dir.glob("*")):
        return
    python = Path(sys.executable) if environment.kind == "here" else environment.python
    with contextlib.suppress(OSError):
        _BEGUN.append(OtherProcess(python).unpack())


def await_first_synthesis() -> None:
    """Wait for it: two processes would unpack the same files."""
    for process in _BEGUN:
        process.wait()
