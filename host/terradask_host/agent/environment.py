"""The software environment that Dask runs in: found, or built with uv from the run's lock."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from terradask_host.agent.event_queue import EventQueue, StopRequested
from terradask_host.agent.indexes import (
    INDEX_OPTIONS,
    by_indexes,
    index_environ,
    without_credentials,
)
from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, DocumentChanged, EnvironmentFailed

_HASH = "--hash="
_LOCK_LINE = re.compile(
    r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+"
    rf"(?:{INDEX_OPTIONS.pattern})*(?: --hash=sha256:[0-9a-f]{{64}})*$"
)
#: A package of the cluster's own: its wheel's SHA-256 and file name.
_WHEEL_LINE = re.compile(
    r"^(?P<name>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?) @ (?P<key>wheels/(?P<sha256>[0-9a-f]{64})/"
    r"(?P<file>[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.whl))$"
)
#: A line of uv's list of the hashes that an archive could have had.
_HASH_LINE = re.compile(r"^\s+sha256:[0-9a-f]{64}$")
_REQUIRE_HASHES = "--require-hashes"
_PYTHON = re.compile(r"^3\.\d{1,2}$")

#: How often a failed step is tried: networks blink.
TRIES = 2


def check_lock(text: str) -> list[str]:
    """Return the lock's lines: exact versions, with hashes or without, and wheels of the cluster's
    own, so that no line can be an option of the installer.

    Raises
    ------
    ConfigInvalid
        When a line is no ``name==version`` and no ``name @ wheels/…``, or some versions have hashes
        (``--hash=sha256:…``) and others none.
    """
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    for line in wanted:
        if not _LOCK_LINE.match(line) and not _WHEEL_LINE.match(line):
            raise ConfigInvalid(
                "software.lock has a line that names no exact version.",
                given=line[:200],
                allowed="name==version, or name @ wheels/<SHA-256>/<file>.whl",
            )
    versions = [line for line in wanted if not _WHEEL_LINE.match(line)]
    bare = [line for line in versions if _HASH not in line]
    if bare and len(bare) < len(versions):
        raise ConfigInvalid(
            "software.lock has hashes of some packages only.",
            given=bare[0],
            allowed="of all, or of none",
        )
    return wanted


def has_hashes(lock: Sequence[str]) -> bool:
    """Return whether a lock names the archives that may be installed, not versions alone."""
    return any(_HASH in line for line in lock)


def environment_folder(paths: Paths, python: str, lock: Sequence[str]) -> Path:
    """Return where the environment of this Python and these versions lies; with other hashes it is
    another one.
    """
    digest = hashlib.sha256("\n".join([python, *sorted(lock)]).encode()).hexdigest()
    return paths.environments / digest[:16]


def build_environment(
    paths: Paths,
    python: str,
    lock_text: str,
    *,
    events: EventQueue,
    log: Callable[[str], None],
    deadline_seconds: float,
    require_hashes: bool = False,
    read: Callable[[str], bytes | None] = lambda _: None,
    credentials: Mapping[str, str] | None = None,
) -> Path:
    """Build the environment, unless it is there already, and return its Python.

    The lock has one ``name==version`` a line, with ``--hash=sha256:…`` of each archive that may be
    installed, or without, and the indexes that may be asked (``--index=URL``), if not the image's;
    `credentials` are theirs, ``user:password`` by URL. ``name @ wheels/<SHA-256>/<file>`` is one of
    the cluster's own objects, which `read` returns, and no index is asked for it. A request to stop
    ends the installation.

    Raises
    ------
    ConfigInvalid
        When Python or a line of the lock is malformed, or there are no hashes where there have to
        be some.
    EnvironmentFailed
        When the installer fails or takes too long, also because an archive has none of its hashes;
        its last lines are in the error. When a wheel of the cluster's own isn't there.
    DocumentChanged
        When such a wheel isn't the one that the lock names.
    """
    if not _PYTHON.match(python):
        raise ConfigInvalid("run.json names no Python.", given=python, allowed="for instance 3.12")
    lock = check_lock(lock_text)
    if require_hashes and not has_hashes(lock):
        raise ConfigInvalid(
            "software.lock has no hashes, but the cluster's software_lock demands them.",
            given="exact versions",
            allowed="name==version --hash=sha256:…",
            advice="Start the cluster with a terradask that knows software_lock.",
        )
    folder = environment_folder(paths, python, lock)
    interpreter = folder / "bin" / "python"
    complete = folder / ".complete"
    if complete.exists():
        log(f"environment {folder.name} is there already")
        return interpreter
    shutil.rmtree(folder, ignore_errors=True)
    paths.environments.mkdir(parents=True, exist_ok=True)
    wheels = paths.environments / f"{folder.name}.wheels"
    installed = by_indexes(_with_file(line, wheels, read) for line in lock)
    uv = find_uv()
    environ = uv_environ(os.environ, paths)
    known = credentials or {}
    deadline = time.monotonic() + deadline_seconds
    # A source archive is not built then: what a build needs comes from the index, and the lock has
    # no hash of it.
    checks = [_REQUIRE_HASHES, "--no-build"] if has_hashes(lock) else []
    shown = partial(without_credentials, credentials=known)
    run = partial(_try, deadline=deadline, events=events, log=log, shown=shown)
    # boot.sh has installed this Python.
    venv = ["venv", "--no-config", "--no-python-downloads", "--clear", "--python", python]
    run([uv, *venv, str(folder)], environ=environ)
    # The lock has all that is needed: nothing comes in that it doesn't list.
    install = ["pip", "install", "--no-config", "--no-deps", *checks, "--python", str(interpreter)]
    for number, (options, lines) in enumerate(installed.items()):
        lock_file = paths.environments / f"{folder.name}-{number}.lock"
        lock_file.write_text("\n".join(lines) + "\n")
        run(
            [uv, *install, "--requirements", str(lock_file)],
            environ=index_environ(options, environ, known),
        )
    complete.touch()
    return interpreter


def _with_file(line: str, folder: Path, read: Callable[[str], bytes | None]) -> str:
    """Return the installer's line for one of the lock, after fetching the wheel that it names."""
    found = _WHEEL_LINE.match(line)
    if found is None:
        return line
    content = read(found["key"])
    if content is None:
        raise EnvironmentFailed(
            "A wheel of the cluster's own packages is not in the bucket.",
            given=found["key"],
            advice="Stop the cluster and start it again: start puts it there.",
        )
    digest = hashlib.sha256(content).hexdigest()
    if digest != found["sha256"]:
        raise DocumentChanged(
            "A wheel in the bucket is not the one that the cluster was started with.",
            given=f"{found['key']} with SHA-256 {digest}",
            allowed=f"SHA-256 {found['sha256']}, as software.lock says",
            advice="Find out who wrote it, delete it, then stop and start the cluster.",
        )
    path = folder / found["sha256"] / found["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"{found['name']} @ {path.absolute().as_uri()} {_HASH}sha256:{digest}"


def find_uv() -> str:
    """Return uv's path: beside this Python, else on ``PATH``.

    Raises
    ------
    EnvironmentFailed
        When there is none.
    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise EnvironmentFailed(
            "uv, which builds the environment, was not found.",
            given=str(beside),
            advice="boot.sh installs it; see /var/log/cloud-init-output.log.",
        )
    return found


def uv_environ(base: Mapping[str, str], paths: Paths) -> dict[str, str]:
    """Return uv's environment variables: all that it writes lies in the host's state directory."""
    kept = {
        name: value
        for name, value in base.items()
        if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    }
    own = {
        "HOME": str(paths.state),
        "UV_CACHE_DIR": str(paths.state / "uv-cache"),
        "UV_NO_PROGRESS": "1",
    }
    return kept | own


def _try(
    step: Sequence[str],
    *,
    environ: Mapping[str, str],
    deadline: float,
    events: EventQueue,
    log: Callable[[str], None],
    shown: Callable[[str], str],
) -> None:
    for attempt in range(1, TRIES + 1):
        lines: list[str] = []
        code = _run(
            step, lines, environ=environ, deadline=deadline, events=events, log=log, shown=shown
        )
        if code == 0:
            return
        late = time.monotonic() >= deadline
        if attempt < TRIES and not late:
            log(f"uv {step[1]} failed with exit code {code}; trying again")
            events.pause(2.0)
            continue
        how = "took too long" if late else f"failed with exit code {code}"
        hashed = (
            " Archives must be those whose hashes software_lock has."
            if _REQUIRE_HASHES in step
            else ""
        )
        raise EnvironmentFailed(
            f"Building the environment {how}: uv {step[1]}:\n{_tail(lines)}",
            advice="Check the versions that software= names, that each has a wheel for this "
            "processor "
            f"({platform.machine()}), that the instance has this Python, and that it reaches the "
            f"package index.{hashed}",
        )


def _tail(lines: Sequence[str]) -> str:
    """Return the installer's last lines, of a list of hashes the first alone: a package may have a
    hundred.
    """
    shown: list[str] = []
    for are_hashes, run in itertools.groupby(
        lines, key=lambda line: _HASH_LINE.match(line) is not None
    ):
        several = list(run)
        shown += (
            [several[0], f"  and {len(several) - 1} more"]
            if are_hashes and len(several) > 1
            else several
        )
    return "\n".join(shown[-15:])


def _run(
    step: Sequence[str],
    lines: list[str],
    *,
    environ: Mapping[str, str],
    deadline: float,
    events: EventQueue,
    log: Callable[[str], None],
    shown: Callable[[str], str],
) -> int:
    log(f"$ {' '.join(step)}")
    process = subprocess.Popen(
        list(step),
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for raw in output:
                line = shown(raw.decode(errors="replace").rstrip())
                lines.append(line)
                log(line)

    reader = threading.Thread(target=read, name="uv-output", daemon=True)
    reader.start()
    try:
        while process.poll() is None and time.monotonic() < deadline:
            events.pause(0.1)
    except StopRequested:
        process.kill()
        process.wait()
        raise
    if process.poll() is None:
        process.kill()
    code = process.wait()
    reader.join(2.0)
    return code
