"""Named environments of a workspace in its bucket: packages that its clusters share.

Every user's hosts run their packages, so only the policy of `setup` allows writing them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._common.json_text import parse_json
from terradask._software.client_versions import client_mismatch, index_fields, python_for_hosts
from terradask._software.conda.file import configured_channels
from terradask._software.conda.lock import INSTALLER
from terradask._software.conda.solver import CondaPackage
from terradask._software.hosts import python_version
from terradask._software.indexes.indexes import read_indexes
from terradask._software.local_wheels import LocalWheel
from terradask._software.lock import SoftwareLock, conda_versions, with_conda
from terradask.errors import AccessDenied, DocumentFormat, SoftwareUnusable
from terradask_host.documents import UNREADABLE, EnvironmentArchive
from terradask_modules.names import SOFTWARE

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_FORMAT = 1
_END, _BUILT = ".json", ".built.json"


@dataclass(frozen=True)
class NamedEnvironment:
    """An environment as created."""

    name: str
    python: str
    architecture: str
    #: Version by package.
    packages: Mapping[str, str]
    #: SHA-256 of each archive, by package.
    hashes: Mapping[str, tuple[str, ...]]
    #: Index options of each package's line.
    indexes: Mapping[str, tuple[str, ...]]
    #: Locally built wheels: file name and SHA-256, by ``name==version``.
    wheels: Mapping[str, tuple[str, str]]
    created_at: str
    created_by: str
    #: Conda packages.
    conda: tuple[CondaPackage, ...] = ()
    #: File name and SHA-256 of the conda installer's wheel, with its version.
    installer: tuple[str, str, str] | None = None
    #: The channels of the conda packages, without credentials.
    channels: tuple[str, ...] = ()
    #: SHA-256 of the settings that declared it; empty in older environments.
    declaration: str = ""

    @classmethod
    def of_lock(
        cls,
        name: str,
        lock: SoftwareLock,
        architecture: str,
        *,
        at: str,
        by: str,
        declaration: str = "",
    ) -> NamedEnvironment:
        """Make the environment of a lock."""
        return cls(
            name,
            lock.python,
            architecture,
            dict(lock.packages),
            {package: tuple(each) for package, each in lock.hashes.items()},
            {package: tuple(each) for package, each in lock.indexes.items()},
            {f"{wheel.name}=={wheel.version}": _about(wheel) for wheel in lock.wheels},
            at,
            by,
            tuple(lock.conda),
            None if lock.installer is None else (*_about(lock.installer), lock.installer.version),
            tuple(lock.channels),
            declaration,
        )

    @property
    def versions(self) -> dict[str, str]:
        """Version by package, with built ones and conda's."""
        built = (each.partition("==")[::2] for each in self.wheels)
        return {**conda_versions(self.conda), **self.packages, **dict(built)}

    @property
    def sha256(self) -> str:
        """The checksum of the contents: equal environments have equal checksums."""
        facts: tuple[Any, ...]
        facts = (self.python, self.architecture, self.packages, self.hashes, self.wheels)
        if self.conda:
            facts = (*facts, [package.line for package in self.conda], self.installer)
        return hashlib.sha256(as_json({"facts": facts})).hexdigest()

    def __str__(self) -> str:
        """Return a one-line description."""
        return (
            f"{self.name}, {len(self.versions)} packages for Python {self.python} on "
            f"{self.architecture}, SHA-256 {self.sha256}, created {self.created_at} by "
            f"{self.created_by}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        return {**asdict(self), "sha256": self.sha256}


class NamedEnvironments:
    """The named environments of one workspace.

    Permissions needed: ``s3:GetObject`` on ``software/*`` and ``s3:ListBucket``; to change them
    ``s3:PutObject`` and ``s3:DeleteObject`` there, which the policy of ``setup`` allows.
    """

    def __init__(self, aws: Aws, bucket: str) -> None:
        self._store = ObjectStore(aws, bucket, SOFTWARE)

    def names(self) -> list[str]:
        """Return the names of the existing environments."""
        found = (key for key in self._store.names("") if "/" not in key)
        return sorted(
            key.removesuffix(_END)
            for key in found
            if key.endswith(_END) and not key.endswith(_BUILT)
        )

    def read(self, name: str) -> NamedEnvironment:
        """Return an environment. Raises `SoftwareUnusable`, `DocumentFormat`."""
        found = self._store.read(f"{name}{_END}")
        if found is None:
            raise environment_not_found(name, self.names())
        try:
            document = {**parse_json(found.content), "name": name}
            return _adapter().validate_python(document)
        except UNREADABLE as error:
            raise DocumentFormat(
                f"{SOFTWARE}{name}{_END} can't be read.",
                allowed="a document that terradask wrote",
                advice=f"terradask env create {name}",
            ) from error

    def describe(self, name: str) -> str:
        """Return a one-line description of an environment, missing or unreadable ones included."""
        try:
            return str(self.read(name))
        except (AccessDenied, DocumentFormat, SoftwareUnusable) as error:
            return f"{name}, which can't be read: {error.problem}"

    def write(self, environment: NamedEnvironment, lock: SoftwareLock) -> bool:
        """Write an environment, and return whether anything changed."""
        try:
            there = self.read(environment.name)
            if there.sha256 == environment.sha256:
                if there.declaration != environment.declaration:
                    self._put(replace(there, declaration=environment.declaration))
                return False
        except (SoftwareUnusable, DocumentFormat):
            pass
        for key, content in lock.contents.items():
            self._store.write(key, content, content_type="application/zip")
        self._put(environment)
        return True

    def check_writable(self, environment: NamedEnvironment) -> None:
        """Check the permission to write by writing it unchanged. Raises `AccessDenied`."""
        self._put(environment)

    def _put(self, environment: NamedEnvironment) -> None:
        document = {"format": _FORMAT, **environment.as_dict()}
        self._store.write(f"{environment.name}{_END}", as_json(document))

    def delete(self, name: str) -> None:
        """Delete an environment, without wheels: others may use them. Raises `SoftwareUnusable`."""
        self.read(name)
        self._store.delete_all([f"{name}{_END}", f"{name}{_BUILT}"])

    def lock(self, name: str, architecture: str, environ: Mapping[str, str]) -> SoftwareLock:
        """Return the lock of an environment. Raises `SoftwareUnusable`, `DocumentFormat`."""
        found = self.read(name)
        here = python_version() if found.conda else python_for_hosts()
        why = client_mismatch(found.versions)
        if found.architecture != architecture:
            why = f"it is for {found.architecture}; the cluster's hosts are {architecture}"
        if found.python != here:
            why = f"it has Python {found.python}; the client has {here}"
        if why is not None:
            raise _unusable(name, why)
        lock = SoftwareLock(
            found.python,
            found.packages,
            found.hashes,
            wheels=[self._wheel(name, *each) for each in found.wheels.items()],
            **index_fields(read_indexes(environ), found.indexes),
        )
        if found.installer is None:
            return lock
        file, digest, version = found.installer
        return with_conda(
            lock,
            found.conda,
            self._wheel(name, f"{INSTALLER}=={version}", (file, digest)),
            configured_channels(found.channels, environ),
        )

    def _wheel(self, name: str, key: str, about: tuple[str, str]) -> LocalWheel:
        filename, digest = about
        found = self._store.read(f"wheels/{digest}/{filename}")
        if found is None or hashlib.sha256(found.content).hexdigest() != digest:
            raise _unusable(name, f"its wheel {filename} is missing or was replaced")
        package, _, version = key.partition("==")
        return LocalWheel(package, version, filename, found.content)

    def find_archive(self, name: str, identity: str) -> EnvironmentArchive | None:
        """Return the archive built for hosts of this identity, or None."""
        found = self._store.read(f"{name}{_BUILT}")
        try:
            document = {} if found is None else parse_json(found.content)
            return EnvironmentArchive.read(document["archives"][identity])
        except UNREADABLE:
            return None

    def write_archive(self, name: str, identity: str, archive: EnvironmentArchive) -> None:
        """Record an environment's built archive, in place of older ones."""
        document = {"format": _FORMAT, "archives": {identity: asdict(archive)}}
        self._store.write(f"{name}{_BUILT}", as_json(document))


def _about(wheel: LocalWheel) -> tuple[str, str]:
    return wheel.filename, wheel.sha256


@cache
def _adapter() -> TypeAdapter[NamedEnvironment]:
    # pydantic is slow to import
    from pydantic import TypeAdapter

    return TypeAdapter(NamedEnvironment)


def environment_not_found(name: str, existing: Sequence[str]) -> SoftwareUnusable:
    """Return the error for a name without an environment in the workspace."""
    # `default` needs no table: `terradask_stacks.settings.software`.
    table = "" if name == "default" else f"declare [environments.{name}] in terradask.toml, and "
    return SoftwareUnusable(
        f"There is no environment {name!r} in this workspace.",
        given=name,
        allowed=", ".join(existing) or "none exists yet",
        advice=f"{table}run: terradask env create {name}. For the package of this name, "
        f"write software=[{name!r}]",
    )


def _unusable(name: str, why: str) -> SoftwareUnusable:
    return SoftwareUnusable(
        f"Environment {name!r} doesn't fit this cluster.",
        given=why,
        allowed="an environment with the Python, the Dask and the architecture of this cluster",
        advice=f"install its versions locally, or create it again: terradask env create {name}",
    )
