"""The host program's packages, stored beside its wheel in the workspace's bucket, so that hosts
need no package index to boot. ``boot.lock`` in the wheel has their checksums.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from terradask._aws.s3 import ObjectStore
from terradask._common.checksum import sha256_of_file
from terradask._software.hosts import HOST_GLIBC, MACHINES
from terradask._software.installers import download_archives
from terradask.errors import AccessDenied, BaselineError
from terradask_stacks.user_folders import cache_folder

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.baseline import Baseline

#: What hosts run the host program with.
_PYTHON = "3.11"

_LOCK = "terradask_host/boot.lock"
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class BootLock:
    """The packages of one host program: exact versions, and a checksum of each archive."""

    content: bytes

    @classmethod
    def of_wheel(cls, wheel: bytes) -> BootLock:
        """Read the list in a host program's wheel."""
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            return cls(archive.read(_LOCK))

    @cached_property
    def hashes(self) -> Mapping[str, frozenset[str]]:
        """``name==version`` -> the SHA-256 of each of its archives."""
        parts = re.split(r"^(?=[A-Za-z0-9])", self.content.decode(), flags=re.MULTILINE)
        return {
            f"{canonicalize_name(found[1])}=={found[2]}": frozenset(_HASH.findall(part))
            for part in parts
            if (found := _REQUIREMENT.match(part))
        }

    def missing_archives(self, archives: Iterable[str], architecture: str) -> list[str]:
        """Return the packages without an archive for hosts of an architecture."""
        there = {_package(name) for name in archives if _is_for(name, architecture)}
        return [package for package in self.hashes if package not in there]

    def select(self, folder: Path, architecture: str) -> dict[str, Path]:
        """Return the archives of a folder for hosts of an architecture, one per package, with a
        listed checksum. uv's comes last, since boot.sh begins with it.
        """
        found: dict[str, Path] = {}
        for path in sorted(folder.glob("*.whl")):
            package = _package(path.name)
            if (
                package not in found
                and _is_for(path.name, architecture)
                and sha256_of_file(path) in self.hashes.get(package, ())
            ):
                found[package] = path
        return dict(sorted(found.items(), key=lambda item: item[0].startswith("uv==")))


def _is_for(archive: str, architecture: str) -> bool:
    """Return whether boot.sh fetches an archive on hosts of an architecture."""
    return archive.endswith(("-any.whl", f"_{MACHINES[architecture]}.whl"))


def _package(archive: str) -> str:
    with suppress(InvalidWheelFilename):
        name, version, _, _ = parse_wheel_filename(archive)
        return f"{name}=={version}"
    return ""


def objects_beside(aws: Aws, bucket: str, wheel_key: str) -> ObjectStore:
    """Return the objects beside a host program's wheel, where hosts read its packages."""
    return ObjectStore(aws, bucket, f"{wheel_key.rpartition('/')[0]}/")


def check_host_packages(aws: Aws, baseline: Baseline, architecture: str) -> None:
    """Check that hosts of an architecture find the host program's packages when they boot. Looks
    for uv, which is uploaded last.

    Raises `BaselineError`.

    Permission needed: ``s3:ListBucket``; without it the check is skipped.
    """
    objects = objects_beside(aws, baseline.bucket, baseline.host.wheel_key)
    with suppress(AccessDenied):
        if not any(_is_for(name, architecture) for name in objects.names("uv-")):
            raise BaselineError(
                f"hosts ({architecture}) would not find the packages of their host program",
                given=f"no package beside s3://{baseline.bucket}/{baseline.host.wheel_key}",
                advice="upload them: terradask doctor --fix, or terradask apply network",
            )


def packages_cache() -> Path:
    """Return the folder of downloads for hosts."""
    return cache_folder() / "host-packages"


def download(lock: BootLock, folder: Path, architecture: str) -> None:
    """Download missing archives for an architecture with pip, from pip's configured index."""
    machine = MACHINES[architecture]
    options = [
        *("--implementation", "cp", "--python-version", _PYTHON),
        *(f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, HOST_GLIBC[1] + 1)),
        f"--platform=manylinux2014_{machine}",
    ]
    failed = download_archives(lock.content.decode(), folder, os.environ, options)
    if failed is not None:
        raise packages_unavailable(
            f"pip could not download the host program's packages for {architecture}", given=failed
        )


def packages_unavailable(problem: str, *, given: str, allowed: str | None = None) -> BaselineError:
    """Return the error for packages that are in neither an index nor a folder."""
    return BaselineError(
        problem,
        given=given,
        allowed=allowed,
        advice="configure pip's index (PIP_INDEX_URL, or pip.conf), or set "
        "network.host_packages to a folder with the archives",
    )
