"""uv as the resolver: exact versions and hashes of wheels for the hosts' platform."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from terradask._software.archive_hashes import Locked, read_lock_file
from terradask._software.hosts import MACHINES
from terradask._software.indexes import without_user
from terradask._software.wheel_tags import HOST_GLIBC
from terradask.errors import ResolverMissing, SoftwareNotResolved

#: uv's exit code when the requirements have no solution; with others it could not look.
_NO_SOLUTION = 1
_SECONDS = 300
#: What uv says of an index that didn't let it look: what it has isn't known then.
_UNANSWERED = re.compile(r"\b(?:401 Unauthorized|403 Forbidden|Failed to fetch)\b")
_YANKED = re.compile(r"^warning: `([A-Za-z0-9._-]+)==[^`]+` is yanked ?(.*)$", re.MULTILINE)
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==")
_ANNOTATED = re.compile(r"\s+# from (\S+)")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
#: What stands between a URL's scheme and its host.
_USER = re.compile(r"(?<=://)[^\s/@]+(?=@)")


@dataclass(frozen=True)
class Resolved:
    """What uv found."""

    versions: Locked
    #: Package -> URL of the index that it is from, without credentials.
    indexes: Mapping[str, str]
    #: Package that its index has withdrawn -> the reason, as the index says.
    yanked: Mapping[str, str] = field(default_factory=dict)


class Unsolvable(Exception):
    """The requirements have no solution; the text is uv's."""


@dataclass(frozen=True)
class Resolver:
    """Resolves for hosts of one processor architecture, with the indexes that uv's variables and
    files name.
    """

    architecture: str
    environ: Mapping[str, str]

    def __call__(
        self,
        requirements: Sequence[str],
        *,
        overrides: Iterable[str] = (),
        constraints: Iterable[str] = (),
        excludes: Iterable[str] = (),
        deps: bool = True,
    ) -> Resolved:
        """Return versions with the hashes of their archives, and the index of each.

        `overrides` replace what packages require of them; for `excludes` no index is asked. Nothing
        is built. Raises `Unsolvable`, `SoftwareNotResolved`, `ResolverMissing`.
        """
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            folder = Path(made)
            (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
            options = [] if deps else ["--no-deps"]
            for name, lines in (
                ("overrides", list(overrides)),
                ("constraints", list(constraints)),
                ("excludes", list(excludes)),
            ):
                # uv warns of an empty file.
                if lines:
                    file = folder / f"{name}.txt"
                    file.write_text("".join(f"{line}\n" for line in lines))
                    options.append(f"--{name}={file}")
            said = self._run(folder, options)
            lock = folder / "lock.txt"
            return Resolved(read_lock_file(lock), _indexes(lock.read_text()), _yanked(said))

    def _run(self, folder: Path, more: Sequence[str]) -> str:
        glibc = "{}_{}".format(*HOST_GLIBC)
        command = [
            find_uv(self.environ),
            "pip",
            "compile",
            "--no-progress",
            "--no-sources",
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
            "--emit-index-annotation",
            "--only-binary=:all:",
            f"--python={sys.executable}",
            f"--python-version={_release()}",
            f"--python-platform={MACHINES[self.architecture]}-manylinux_{glibc}",
            f"--output-file={folder / 'lock.txt'}",
            *more,
            str(folder / "requirements.txt"),
        ]
        try:
            done = subprocess.run(
                command,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SoftwareNotResolved(
                f"{type(error).__name__}: {without_users(str(error))}"
            ) from None
        said = without_users(done.stderr.strip())
        unanswered = _UNANSWERED.search(said) is not None
        if done.returncode == _NO_SOLUTION and not unanswered:
            raise Unsolvable(said)
        if done.returncode:
            raise SoftwareNotResolved(said, unanswered=unanswered)
        return said


def _indexes(text: str) -> dict[str, str]:
    found, name = {}, ""
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            name = canonicalize_name(pinned[1])
        elif annotated := _ANNOTATED.match(line):
            found[name] = without_user(annotated[1])[0]
    return found


def _yanked(said: str) -> dict[str, str]:
    return {canonicalize_name(name): why for name, why in _YANKED.findall(said)}


def without_users(text: str) -> str:
    """Return a text without the credentials in its URLs."""
    return _USER.sub("***", text)


def _release() -> str:
    """Return the running Python's release: hosts have the same minor version, patched later."""
    found = _RELEASE.match(platform.python_version())
    assert found is not None
    return found[0]


def find_uv(environ: Mapping[str, str]) -> str:
    """Return uv's path: beside this Python, else on ``PATH``. Raises `ResolverMissing`."""
    folders = [str(Path(sys.executable).parent), environ.get("PATH", os.defpath)]
    found = shutil.which("uv", path=os.pathsep.join(folders))
    if found is None:
        raise ResolverMissing()
    return found
