"""The software environment that Dask runs in: reused, or built from the run's lock by uv and, for
conda packages, by py-rattler.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from terradask_host import conda_install
from terradask_host.agent.environment_archive import make_links, write_links
from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.uv import REQUIRE_HASHES, find_uv, run_step, uv_environ
from terradask_host.channel_credentials import secret_of
from terradask_host.conda_lines import conda_archives, conda_installer, is_conda_line
from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, DocumentChanged, EnvironmentFailed

_PUBLIC = "public"
#: Options of a line: an index URL without credentials, or uv's own default index.
INDEX_OPTIONS = re.compile(rf" --(default-)?index=(https?://[^\s@\"'\\]+|{_PUBLIC})")
_DEFAULTS = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
_OTHERS = ("UV_INDEX", "UV_EXTRA_INDEX_URL")


def group_by_index(lines: Iterable[str]) -> dict[str, list[str]]:
    """Group lines by index. uv has no per-package index, so each group is installed separately."""
    found: dict[str, list[str]] = {}
    for line in lines:
        options = "".join(match[0] for match in INDEX_OPTIONS.finditer(line))
        found.setdefault(options, []).append(INDEX_OPTIONS.sub("", line))
    return found


def index_environ(
    options: str, environ: Mapping[str, str], credentials: Mapping[str, str]
) -> dict[str, str]:
    """Return uv's variables for packages with these options; without options, the image's.

    uv reads indexes in order; the first that has a name decides about it. A default index is the
    image's, if it has one. Only variables of the installer's process hold credentials: other users
    can read command lines, but not its variables.
    """
    if not options:
        return dict(environ)
    named = [
        (default, _with_user(url, credentials)) for default, url in INDEX_OPTIONS.findall(options)
    ]
    asked = [url for default, url in named if not default]
    defaults = [url for default, url in named if default]
    kept = {name: value for name, value in environ.items() if name not in _DEFAULTS + _OTHERS}
    if not defaults:
        # Make the last one the default; otherwise uv adds PyPI.
        *asked, last = asked
        return kept | _uv_index_environ(asked) | {"UV_DEFAULT_INDEX": last}
    own = {name: environ[name] for name in _DEFAULTS if environ.get(name)}
    if own:
        asked += " ".join(environ.get(name, "") for name in _OTHERS).split()
    if not own and defaults[0] != _PUBLIC:
        own = {"UV_DEFAULT_INDEX": defaults[0]}
    return kept | _uv_index_environ(asked) | own


def without_credentials(text: str, credentials: Mapping[str, str]) -> str:
    """Return the installer's text with credentials masked."""
    for each in credentials.values():
        secret = secret_of(each)
        for form in filter(None, (secret, unquote(secret))):
            text = text.replace(form, "***")
    return text


def _uv_index_environ(asked: list[str]) -> dict[str, str]:
    return {"UV_INDEX": " ".join(asked)} if asked else {}


def _with_user(url: str, credentials: Mapping[str, str]) -> str:
    user = credentials.get(url)
    return url if not user else url.replace("://", f"://{user}@", 1)


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
    """Return the lock's lines, checked so that none can be an option of the installer.

    Allowed are exact versions, with or without hashes, wheels of the cluster's own, and conda's
    archives. Raises `ConfigInvalid` for other lines, for hashes (``--hash=sha256:…``) on some lines
    only, or if no line installs conda's archives.
    """
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    for line in wanted:
        if not any((_LOCK_LINE.match(line), _WHEEL_LINE.match(line), is_conda_line(line))):
            raise ConfigInvalid(
                "software.lock has a line without an exact version.",
                given=line[:200],
                allowed="name==version, name @ wheels/<SHA-256>/<file>.whl, or conda <URL of an "
                "archive> --hash=sha256:<SHA-256>",
            )
    if bool(conda_archives(wanted)) != (conda_installer(wanted) is not None):
        raise ConfigInvalid(
            "software.lock must have both conda's packages and their installer, or neither.",
            given=f"{len(wanted)} lines",
            allowed="conda-installer wheels/<SHA-256>/py_rattler-<version>….whl, once",
        )
    versions = [line for line in wanted if not _WHEEL_LINE.match(line)]
    versions = [line for line in versions if not line.startswith("conda-installer ")]
    bare = [line for line in versions if _HASH not in line]
    if bare and len(bare) < len(versions):
        raise ConfigInvalid(
            "software.lock has hashes of some packages only.",
            given=bare[0],
            allowed="of all, or without hashes",
        )
    return wanted


def has_hashes(lock: Sequence[str]) -> bool:
    """Return whether a lock has hashes of the archives, not only versions."""
    return any(_HASH in line for line in lock)


def environment_folder(paths: Paths, python: str, lock: Sequence[str]) -> Path:
    """Return the folder of the environment with this Python, these versions and these hashes."""
    digest = hashlib.sha256("\n".join([python, *sorted(lock)]).encode()).hexdigest()
    return paths.environments / digest[:16]


@dataclass(frozen=True)
class Environment:
    """An environment that exists, or is to be built from its lock, or unpacked.

    Raises `ConfigInvalid` when Python or a line of the lock is malformed, or hashes are missing.

    Parameters
    ----------
    python
        Its Python, such as ``3.12``, which `boot.sh` has installed.
    lock_text
        One ``name==version`` a line, with or without ``--hash=sha256:…`` of each archive that may
        be installed, and its indexes (``--index=URL``), if they aren't the image's;
        ``name @ wheels/<SHA-256>/<file>`` is one of the cluster's own objects, not of an index;
        ``conda URL`` is an archive of conda, one of which is then the Python.
    events
        A stop request among them ends the installation.
    deadline_seconds
        Limit of the installation.
    require_hashes
        Whether the lock must have hashes.
    read
        Returns one of the cluster's objects, or None.
    credentials
        Of indexes and channels, ``user:password`` by URL.
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
        """The environment's folder."""
        return environment_folder(self.paths, self.python, self.lock)

    @property
    def interpreter(self) -> Path:
        """The environment's Python."""
        return self.folder / "bin" / "python"

    @property
    def is_conda(self) -> bool:
        """Whether it is a conda environment instead of a virtual environment."""
        return conda_installer(self.lock) is not None

    @property
    def is_there(self) -> bool:
        """Whether the environment is complete."""
        return self._complete_mark.exists() and self.folder.exists()

    @property
    def _complete_mark(self) -> Path:
        # Outside the folder: no installed or unpacked file can create this mark.
        return self.folder.with_name(f"{self.folder.name}.whole")

    def build(self) -> Path:
        """Install the lock's packages, unless they are installed, and return the Python.

        Raises `EnvironmentFailed`, with the installer's last lines, when it fails, takes too long
        or an archive has another hash, and when a wheel of the cluster's own is missing;
        `DocumentChanged` when such a wheel isn't the lock's.
        """
        if self.is_known():
            return self.interpreter
        wheels = self.paths.environments / f"{self.folder.name}.wheels"
        of_uv = [line for line in self.lock if not is_conda_line(line)]
        lines = group_by_index(_with_file(line, wheels, self.read) for line in of_uv)
        self._make(self.folder)
        self._install(lines)
        self._complete_mark.touch()
        return self.interpreter

    def unpack(self, write: Callable[[Path], None]) -> Path:
        """Unpack an environment built by another host, unless it exists; return its Python.

        `write` puts the files into a temporary folder and raises if they aren't the expected ones;
        then they are moved into place. Raises `EnvironmentFailed`, and as `write` does.
        """
        if self.is_known():
            return self.interpreter
        beside = self.folder.with_name(f"{self.folder.name}.unpacked")
        try:
            self._make(beside)
            write(beside)
            if self.is_conda:
                make_links(beside)
            shutil.rmtree(self.folder, ignore_errors=True)
            beside.rename(self.folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        self._complete_mark.touch()
        return self.interpreter

    def is_known(self) -> bool:
        """Return whether the environment is complete, and log it: an image may have it."""
        if self.is_there:
            self.log(f"environment {self.folder.name} exists already")
        return self.is_there

    def _make(self, folder: Path) -> None:
        """Create a virtual environment without packages; a conda environment needs none."""
        self._complete_mark.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        self.paths.environments.mkdir(parents=True, exist_ok=True)
        if self.is_conda:
            folder.mkdir()
            return
        # Scripts in it find their Python wherever it is unpacked.
        venv = ["venv", "--no-config", "--no-python-downloads", "--clear", "--relocatable"]
        deadline = time.monotonic() + self.deadline_seconds
        self._run([*venv, "--python", self.python, str(folder)], deadline)

    def _install(self, lines: Mapping[str, Sequence[str]]) -> None:
        deadline = time.monotonic() + self.deadline_seconds
        self._install_conda(deadline)
        # With hashes no source archive is built: build requirements come from the index, and the
        # lock has no hashes of them.
        checks = [REQUIRE_HASHES, "--no-build"] if has_hashes(self.lock) else []
        # The lock is complete: only listed packages are installed.
        install = ["pip", "install", "--no-config", "--no-deps", *checks]
        if self.is_conda:
            # conda's Python may be marked as managed by the system.
            install.append("--break-system-packages")
        install += ["--python", str(self.interpreter), "--requirements"]
        for number, (options, some) in enumerate(lines.items()):
            lock_file = self.paths.environments / f"{self.folder.name}-{number}.lock"
            lock_file.write_text("\n".join(some) + "\n")
            self._run([*install, str(lock_file)], deadline, options)
        if self.is_conda:
            # For other hosts; links that lead outside are removed.
            for name in write_links(self.folder):
                self.log(f"removed {os.fspath(self.folder / name)}, a link out of the environment")

    def _install_conda(self, deadline: float) -> None:
        """Install conda's packages, which include Python and record this path, if there are any."""
        installer = conda_installer(self.lock)
        if installer is None:
            return
        wheel = _own_wheel(self.read, installer.key, installer.sha256)
        # On the environment's disk, so that files are linked and not copied.
        work = self.folder.with_name(f"{self.folder.name}.conda")
        shutil.rmtree(work, ignore_errors=True)
        program, request = work / "py-rattler", work / "request.json"
        program.mkdir(parents=True)
        with zipfile.ZipFile(io.BytesIO(wheel)) as files:
            files.extractall(program)
        archives = [asdict(each) for each in conda_archives(self.lock)]
        wanted = {"prefix": str(self.folder), "folder": str(work), "archives": archives}
        request.write_text(json.dumps(wanted))
        environ = {
            **uv_environ(os.environ, self.paths),
            "HOME": str(work),
            "TMPDIR": str(work),
            # A simulated host's program lies in a folder that its own variable names.
            "PYTHONPATH": str(Path(conda_install.__file__).parents[1]),
            conda_install.CREDENTIALS: json.dumps(self.credentials or {}),
        }
        command = [sys.executable, "-P", "-m", conda_install.__name__, str(program), str(request)]
        try:
            self._run_step(command, deadline, environ, "conda")
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _run(self, step: Sequence[str], deadline: float, indexes: str = "") -> None:
        environ = uv_environ(os.environ, self.paths)
        environ = index_environ(indexes, environ, self.credentials or {})
        self._run_step([find_uv(), *step], deadline, environ)

    def _run_step(
        self,
        command: Sequence[str],
        deadline: float,
        environ: Mapping[str, str],
        name: str | None = None,
    ) -> None:
        run_step(
            command,
            environ=environ,
            deadline=deadline,
            events=self.events,
            log=self.log,
            shown=partial(without_credentials, credentials=self.credentials or {}),
            name=name,
        )


def _with_file(line: str, folder: Path, read: Callable[[str], bytes | None]) -> str:
    """Return the installer's line for a line of the lock, with a named wheel fetched."""
    found = _WHEEL_LINE.match(line)
    if found is None:
        return line
    path = folder / found["sha256"] / found["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_own_wheel(read, found["key"], found["sha256"]))
    return f"{found['name']} @ {path.absolute().as_uri()} {_HASH}sha256:{found['sha256']}"


def own_wheels(lock_text: str, read: Callable[[str], bytes | None]) -> Iterator[bytes]:
    """Yield the wheels of the cluster's own packages in a lock.

    Raises `ConfigInvalid`, `EnvironmentFailed`, `DocumentChanged`.
    """
    for line in check_lock(lock_text):
        if found := _WHEEL_LINE.match(line):
            yield _own_wheel(read, found["key"], found["sha256"])


def _own_wheel(read: Callable[[str], bytes | None], key: str, sha256: str) -> bytes:
    content = read(key)
    if content is None:
        raise EnvironmentFailed(
            "A wheel of the cluster's own packages is not in the bucket.",
            given=key,
            advice="Stop the cluster and start it again: start puts it there.",
        )
    check_digest(
        content,
        key,
        sha256,
        problem="A wheel in the bucket is not the one that the cluster was started with.",
        then="stop and start the cluster.",
    )
    return content


def check_digest(content: bytes, key: str, sha256: str, *, problem: str, then: str) -> None:
    """Raise `DocumentChanged` if an object hasn't the expected SHA-256."""
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise DocumentChanged(
            problem,
            given=f"{key} with SHA-256 {found}",
            allowed=f"SHA-256 {sha256}",
            advice=f"Find out who wrote it, delete it, then {then}",
        )
