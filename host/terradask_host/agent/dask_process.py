"""The programs that run Dask: an environment's Python or a container image."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from terradask_host.agent.conda_activation import activated_environ, is_conda

LAUNCHER = Path(__file__).parent.parent / "preload" / "launch.py"

#: Variables that would make the cluster's Python import the host program's packages.
_OWN_VARIABLES = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONSAFEPATH", "__PYVENV_LAUNCHER__")

#: Folder of packages outside the Python's environment.
OWN_PACKAGES = "TERRADASK_OWN_PACKAGES"


class DaskProcess(Protocol):
    """A process that runs ``launch.py`` in its own session: it doesn't get the host program's
    signals.

    It reads one JSON document a line from standard input, whose end means that the host program is
    gone: then the process ends with all its children. It reports events on a separate pipe.
    """

    def send(self, line: bytes) -> None:
        """Write a line to standard input."""

    def output(self) -> Iterator[bytes]:
        """Yield the lines of its output, until it and its children have ended."""

    def events(self) -> Iterator[str]:
        """Yield the events that it reports, until it ends."""

    def kill(self) -> None:
        """End the process and its children at once, and wait for its end."""

    def wait(self) -> int:
        """Wait for the end and return the exit code, negative for a signal."""


class DaskProgram(Protocol):
    """A program that starts Dask processes."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The program's own environment variables."""

    def start(self, environ: Mapping[str, str], folder: Path) -> DaskProcess:
        """Start a process in a folder. Raises `OSError` or `DaskFailed`."""


class LocalPython:
    """An environment's Python on this host, with a folder of additional packages.

    Raises `EnvironmentFailed`.
    """

    def __init__(self, python: Path, packages: Path | None = None) -> None:
        self._python = python
        prefix = python.parent.parent
        own = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
        self._environ = activated_environ(prefix, own) if is_conda(prefix) else own
        if packages is not None:
            paths = [str(packages), *filter(None, [own.get("PYTHONPATH")])]
            self._environ = {
                **self._environ,
                "PYTHONPATH": os.pathsep.join(paths),
                OWN_PACKAGES: str(packages),
            }

    @property
    def environ(self) -> Mapping[str, str]:
        """The host program's variables, and those that activating a conda environment sets."""
        return self._environ

    def start(self, environ: Mapping[str, str], folder: Path) -> DaskProcess:
        """Start a process. Raises `OSError`."""
        return _LocalProcess(self._python, environ, folder)

    def __str__(self) -> str:
        """Return the Python's path."""
        return str(self._python)


class _LocalProcess:
    def __init__(self, python: Path, environ: Mapping[str, str], folder: Path) -> None:
        self._reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [str(python), "-P", str(LAUNCHER), str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=folder,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def output(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            yield from lines

    def events(self) -> Iterator[str]:
        with os.fdopen(self._reading, encoding="utf-8", errors="replace") as lines:
            yield from lines

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def wait(self) -> int:
        return self._process.wait()
