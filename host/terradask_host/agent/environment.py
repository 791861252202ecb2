"""The software environment that Dask runs in: found, or built with uv from the run's lock."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path

from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.indexes import (
    INDEX_OPTIONS,
    by_indexes,
    index_environ,
    without_credentials,
)
from terradask_host.agent.uv import REQUIRE_HASHES, find_uv, run_step, uv_environ
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
_PYTHON = re.compile(r"^3\.\d{1,2}$")


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


@dataclass(frozen=True)
class Environment:
    """An environment that is there, is to be built from its lock, or to be unpacked.

    Parameters
    ----------
    paths
        Where it lies.
    python
        Its Python, such as ``3.12``, which `boot.sh` has installed.
    lock_text
        One ``name==version`` a line, with ``--hash=sha256:…`` of each archive that may be
        installed, or without, and the indexes that may be asked (``--index=URL``), if not the
        image's; ``name @ wheels/<SHA-256>/<file>`` is one of the cluster's own objects, and no
        index is asked for it.
    events
        A request to stop among them ends the installation.
    log
        Gets what is done, a line at a time.
    deadline_seconds
        For the installation.
    require_hashes
        Whether the lock has to have some.
    read
        Returns one of the cluster's objects, or None.
    credentials
        Of indexes, ``user:password`` by URL.

    Raises
    ------
    ConfigInvalid
        When Python or a line of the lock is malformed, or there are no hashes where there have to
        be some.
    """

    paths: Paths
    python: str
    lock_text: str = field(repr=False)
    _: KW_ONLY
    events: EventQueue
    log: Callable[[str], None]
    deadline_seconds: float
    require_hashes: bool = False
    read: Callable[[str], bytes | None] = lambda _: None
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    lock: Sequence[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not _PYTHON.match(self.python):
            raise ConfigInvalid(
                "run.json names no Python.", given=self.python, allowed="for instance 3.12"
            )
        lock = check_lock(self.lock_text)
        if self.require_hashes and not has_hashes(lock):
            raise ConfigInvalid(
                "software.lock has no hashes, but the cluster's software_lock demands them.",
                given="exact versions",
                allowed="name==version --hash=sha256:…",
                advice="Start the cluster with a terradask that knows software_lock.",
            )
        object.__setattr__(self, "lock", lock)

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return environment_folder(self.paths, self.python, self.lock)

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"

    @property
    def is_there(self) -> bool:
        """Whether it is whole."""
        return self._complete.exists()

    @property
    def _complete(self) -> Path:
        return self.folder / ".complete"

    def build(self) -> Path:
        """Install what the lock names, unless it is there already, and return its Python.

        Raises
        ------
        EnvironmentFailed
            When the installer fails or takes too long, also because an archive has none of its
            hashes; its last lines are in the error. When a wheel of the cluster's own isn't there.
        DocumentChanged
            When such a wheel isn't the one that the lock names.
        """
        if self.is_there:
            return self.fill(lambda: None)
        wheels = self.paths.environments / f"{self.folder.name}.wheels"
        lines = by_indexes(_with_file(line, wheels, self.read) for line in self.lock)
        return self.fill(lambda: self._install(lines))

    def fill(self, install: Callable[[], None]) -> Path:
        """Make a virtual environment and have its packages put there, unless it is there already;
        return its Python. Raises `EnvironmentFailed`, and as `install` does.
        """
        if self.is_there:
            self.log(f"environment {self.folder.name} is there already")
            return self.interpreter
        shutil.rmtree(self.folder, ignore_errors=True)
        self.paths.environments.mkdir(parents=True, exist_ok=True)
        # Scripts in it find their Python wherever it is unpacked.
        venv = ["venv", "--no-config", "--no-python-downloads", "--clear", "--relocatable"]
        deadline = time.monotonic() + self.deadline_seconds
        self._run([*venv, "--python", self.python, str(self.folder)], deadline)
        install()
        self._complete.touch()
        return self.interpreter

    def _install(self, lines: Mapping[str, Sequence[str]]) -> None:
        deadline = time.monotonic() + self.deadline_seconds
        # A source archive is not built with hashes: what a build needs comes from the index, and
        # the lock has no hash of it.
        checks = [REQUIRE_HASHES, "--no-build"] if has_hashes(self.lock) else []
        # The lock has all that is needed: nothing comes in that it doesn't list.
        install = ["pip", "install", "--no-config", "--no-deps", *checks]
        install += ["--python", str(self.interpreter), "--requirements"]
        for number, (options, some) in enumerate(lines.items()):
            lock_file = self.paths.environments / f"{self.folder.name}-{number}.lock"
            lock_file.write_text("\n".join(some) + "\n")
            self._run([*install, str(lock_file)], deadline, options)

    def _run(self, step: Sequence[str], deadline: float, indexes: str = "") -> None:
        known = self.credentials or {}
        run_step(
            [find_uv(), *step],
            environ=index_environ(indexes, uv_environ(os.environ, self.paths), known),
            deadline=deadline,
            events=self.events,
            log=self.log,
            shown=partial(without_credentials, credentials=known),
        )


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
