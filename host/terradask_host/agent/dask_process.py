"""What runs Dask: the Python of an environment, or a container image."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from terradask_host.agent.conda_activation import activated, is_conda

LAUNCHER = Path(__file__).parent.parent / "preload" / "launch.py"

#: What would lead the cluster's Python to the host program's own packages.
_OWN_VARIABLES = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONSAFEPATH", "__PYVENV_LAUNCHER__")

#: Where this host's Dask processes find packages that aren't in their Python's environment.
OWN_PACKAGES = "TERRADASK_OWN_PACKAGES"


class DaskProcess(Protocol):
    """A process that runs ``launch.py``, in a session of its own: signals to the host program
    don't reach it.

    It reads documents on standard input (one JSON document a line; its end means that the host
    program is gone, and the process with all its children goes too), and reports events beside its
    output.
    """

    def send(self, line: bytes) -> None:
        """Write a line to its standard input."""

    def output(self) -> Iterator[bytes]:
        """Yield the lines that it writes, until it and all that it started have ended."""

    def events(self) -> Iterator[str]:
        """Yield the lines that it reports, until it ends."""

    def kill(self) -> None:
        """End it with whatever it started, at once, and wait for its end."""

    def wait(self) -> int:
        """Wait for its end and return its exit code, negative for a signal."""


class DaskProgram(Protocol):
    """What Dask processes are started with."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables that it comes with."""

    def start(self, environ: Mapping[str, str], folder: Path) -> DaskProcess:
        """Start a process in a folder. Raises `OSError` or `DaskFailed` if that can't be."""


class LocalPython:
    """The Python of an environment on this host, with a folder of packages that aren't in it.

    Raises `EnvironmentFailed`.
    """

    def __init__(self, python: Path, packages: Path | None = None) -> None:
        self._python = python
        prefix = python.parent.parent
        own = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
        self._environ = activated(prefix, own) if is_conda(prefix) else own
        if packages is not None:
            paths = [str(packages), *filter(None, [own.get("PYTHONPATH")])]
            self._environ = {
                **self._environ,
                "PYTHONPATH": os.pathsep.join(paths),
                OWN_PACKAGES: str(packages),
            }

    @property
    def environ(self) -> Mapping[str, str]:
        """The host program's own, and what activating an environment of conda sets."""
        return self._environ

    def start(self, environ: Mapping[str, str], folder: Path) -> DaskProcess:
        """Start a process. Raises `OSError`."""
        return _LocalProcess(self._python, environ, folder)

    def __str__(self) -> str:
        """Return its path."""
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
