"""The programs that run Dask: an environment's Python or a container image."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from terradask_host.errors import EnvironmentFailed

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


# ---- variables that activating a conda environment sets, in conda's order ------------------------
# GDAL and PROJ, for instance, find their data by variables that scripts of their packages set:
# https://docs.conda.io/projects/conda/en/stable/dev-guide/deep-dives/activation.html.


_SCRIPTS = Path("etc/conda/activate.d")
_SECONDS = 60.0
_LINES_SHOWN = 10
#: conda's placeholder for a variable without a value.
_UNSET = "***unset***"
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
#: Variables of the shell itself, unrelated to the environment.
_OF_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
#: Scripts may print anything, so the variables go to a separate file descriptor.
_SCRIPT = """
for script in "${CONDA_PREFIX}"/etc/conda/activate.d/*.sh; do
  if [ -f "${script}" ]; then . "${script}"; fi
done
exec /usr/bin/env -0 >&"$1"
"""


def is_conda(prefix: Path) -> bool:
    """Return whether a folder is a conda environment."""
    return (prefix / "conda-meta").is_dir()


def activated_environ(prefix: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of processes in a conda environment, based on the given ones.

    Its programs come first on ``PATH``, then the variables that its packages set by text and by
    script. Raises `EnvironmentFailed` when a script ends the shell or takes too long.
    """
    own = {
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": str(prefix),
        "CONDA_SHLVL": "1",
        "PATH": os.pathsep.join([str(prefix / "bin"), environ.get("PATH", os.defpath)]),
    }
    with tempfile.TemporaryFile() as found:
        number = str(found.fileno())
        try:
            done = subprocess.run(
                ["/bin/bash", "--noprofile", "--norc", "-c", _SCRIPT, "activate", number],
                env={**environ, **own, **_declared_variables(prefix)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(found.fileno(),),
                cwd=prefix,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _script_failed(
                prefix, f"took more than {_SECONDS:.0f} s", error.output
            ) from error
        found.seek(0)
        variables = dict(_parse_variables(found.read()))
    # A script that ends the shell leaves no output, whatever its exit code.
    if done.returncode != 0 or not variables:
        raise _script_failed(prefix, f"ended the shell with {done.returncode}", done.stdout)
    return variables


def _script_failed(prefix: Path, how: str, said: bytes | None) -> EnvironmentFailed:
    lines = (said or b"").decode(errors="replace").splitlines()[-_LINES_SHOWN:]
    return EnvironmentFailed(
        f"A script that activates the environment {how}:\n" + "\n".join(lines),
        given=", ".join(sorted(each.name for each in (prefix / _SCRIPTS).glob("*.sh"))),
        advice="Leave the package out that brings the script, or take another version of it.",
    )


def _parse_variables(content: bytes) -> list[tuple[str, str]]:
    pairs = (os.fsdecode(each).partition("=") for each in content.split(b"\0") if each)
    return [(name, to) for name, _, to in pairs if _NAME.match(name) and name not in _OF_SHELL]


def _declared_variables(prefix: Path) -> dict[str, str]:
    """Return the variables that packages declare as text, then the environment's own.

    Raises `EnvironmentFailed` when they can't be read.
    """
    found: dict[str, str] = {}
    paths = [*sorted((prefix / "etc/conda/env_vars.d").glob("*.json")), prefix / "conda-meta/state"]
    for path in paths:
        if not path.is_file():
            continue
        try:
            document = json.loads(path.read_bytes())
            named = document.get("env_vars", {}) if path.name == "state" else document
            found |= {str(name): str(to) for name, to in named.items() if to != _UNSET}
        except (OSError, ValueError, AttributeError) as error:
            raise EnvironmentFailed(
                "A file of variables in the environment can't be read.", given=str(path)
            ) from error
    return {name: to for name, to in found.items() if _NAME.match(name) and "\0" not in to}
