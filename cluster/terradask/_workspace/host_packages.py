"""Upload the host program's packages to the workspace's bucket, from the package index or from a
folder in the settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._aws.s3 import ObjectStore
from terradask._software.host_packages import (
    BootLock,
    download,
    objects_beside,
    packages_cache,
    packages_unavailable,
)
from terradask._software.hosts import MACHINES
from terradask._workspace.context import WorkspaceContext
from terradask.errors import AwsError

if TYPE_CHECKING:
    from terradask._workspace.stack import Stack
    from terradask_stacks.settings import Settings

_CONTENT_TYPE = "application/zip"


@dataclass(frozen=True)
class HostProgram:
    """A host program that is deployed or planned."""

    #: The objects beside its wheel.
    objects: ObjectStore
    lock: BootLock
    #: Architectures of its hosts.
    architectures: tuple[str, ...]

    def lacking(self) -> dict[str, list[str]]:
        """Return the missing packages, by architecture.

        Permission needed: ``s3:ListBucket``.
        """
        names = self.objects.names()
        lacking = {one: self.lock.missing_archives(names, one) for one in self.architectures}
        return {one: packages for one, packages in lacking.items() if packages}


@dataclass(frozen=True)
class HostPackages:
    """Get archives, check their hashes, and put them beside the host program."""

    context: WorkspaceContext

    @property
    def are_needed(self) -> bool:
        """Whether hosts install packages: hosts of an embedded AWS don't, unless the settings name
        a folder.
        """
        return self._folder is not None or not is_loopback_endpoint(os.environ)

    @property
    def _folder(self) -> Path | None:
        return packages_folder(self.context.settings, self.context.loaded.root)

    def planned(self, stack: Stack) -> HostProgram:
        """Return the host program in a network's configuration."""
        resources: Mapping[str, Any] = stack.terraform.configuration()["resource"]
        wheel = resources["aws_s3_object"]["host-wheel"]
        templates = resources["aws_launch_template"]
        return self._program(
            wheel["key"],
            (stack.folder / wheel["source"]).read_bytes(),
            [one for one in MACHINES if any(name.endswith(f"-{one}") for name in templates)],
        )

    def deployed(self) -> HostProgram:
        """Return the host program of the deployed network.

        Raises `BaselineError`.

        Permissions needed: ``s3:GetObject`` on the host program, ``s3:ListBucket``.
        """
        baseline = self.context.network.baseline()
        key = baseline.host.wheel_key
        objects = objects_beside(self.context.aws, self.context.bucket, key)
        wheel = objects.read(key.rpartition("/")[2])
        if wheel is None:
            raise AwsError(
                "the host program isn't in the bucket",
                given=f"no s3://{self.context.bucket}/{key}",
                advice="terradask apply network puts it there",
            )
        return self._program(key, wheel.content, sorted(baseline.architectures))

    def _program(self, key: str, wheel: bytes, architectures: list[str]) -> HostProgram:
        objects = objects_beside(self.context.aws, self.context.bucket, key)
        return HostProgram(objects, BootLock.of_wheel(wheel), tuple(architectures))

    def gather(self, program: HostProgram) -> tuple[Path, ...]:
        """Return the archives missing in the bucket, downloaded if necessary. Changes nothing in
        AWS. Raises `BaselineError`.
        """
        lacking = program.lacking()
        found = {
            path.name: path
            for architecture, packages in lacking.items()
            for package, path in self._archives(program.lock, architecture).items()
            if package in packages
        }
        return tuple(found.values())

    def put(self, program: HostProgram, archives: tuple[Path, ...]) -> None:
        """Put archives beside the host program.

        Permission needed: ``s3:PutObject`` on ``host/*`` in the bucket.
        """
        if not archives:
            return
        size = sum(path.stat().st_size for path in archives) / 2**20
        self.context.message(
            f"{len(archives)} packages for hosts, {size:.0f} MiB, to s3://{self.context.bucket}"
        )
        for path in archives:
            program.objects.write(path.name, path.read_bytes(), content_type=_CONTENT_TYPE)

    def _archives(self, lock: BootLock, architecture: str) -> dict[str, Path]:
        given = self._folder
        folder = packages_cache() if given is None else given
        found = lock.select(folder, architecture)
        if given is None and len(found) < len(lock.hashes):
            self.context.message(f"downloading the host program's packages for {architecture}")
            download(lock, folder, architecture)
            found = lock.select(folder, architecture)
        lacking = [package for package in lock.hashes if package not in found]
        if lacking:
            raise packages_unavailable(
                f"{folder} lacks archives of the host program's packages for {architecture}",
                given=", ".join(lacking),
                allowed="a wheel of each, with a SHA-256 that the host program's boot.lock lists",
            )
        return found


def packages_folder(settings: Settings, root: Path) -> Path | None:
    """Return the folder of archives in the settings, relative to `root`."""
    named = settings.network.host_packages
    return None if named is None else root / Path(named).expanduser()
