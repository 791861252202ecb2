"""What a cluster's hosts install, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from terradask._software.conda.file import CondaChannel
from terradask._software.conda.solver import CondaPackage
from terradask._software.local_wheels import LocalWheel

#: conda's name for the package dask: under that of the index it has one that brings more along.
CONDA_DASK = "dask-core"

#: SHA-256 of each archive, by package name.
Hashes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class SoftwareLock:
    """Exact versions for the hosts."""

    #: The client's Python, as ``major.minor``.
    python: str
    #: Version by package name.
    packages: Mapping[str, str] = field(default_factory=dict)
    #: SHA-256 of each archive of the version, by package name; for all packages, or none.
    hashes: Hashes = field(default_factory=dict)
    #: The glibc that the client's wheel needs, by package name, where hosts have an older one.
    newer_glibc: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: With `package_sync`: package that hosts don't get -> why.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: With `package_sync`: package -> the version here, and the other one of hosts.
    changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: With `package_sync`: package whose version its index has withdrawn -> the reason.
    yanked: Mapping[str, str] = field(default_factory=dict)
    #: With `package_sync`: package that isn't for hosts -> why.
    dropped: Mapping[str, str] = field(default_factory=dict)
    #: Of packages that came from no index.
    wheels: Sequence[LocalWheel] = ()
    #: Of conda, Python among them; hosts' own Python is not used then.
    conda: Sequence[CondaPackage] = ()
    #: What installs them.
    installer: LocalWheel | None = None
    #: URLs of the channels that they are from.
    channels: Sequence[str] = ()
    #: Options of each package's line: the indexes that are asked for it, if not the image's.
    indexes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Indexes and channels that only this machine can ask.
    loopback: Sequence[str] = ()
    #: Of each index and channel, by its URL; hosts get them in the cluster's secret.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def contents(self) -> dict[str, bytes]:
        """The wheels by their names among the cluster's objects."""
        every = self.wheels if self.installer is None else (*self.wheels, self.installer)
        return {wheel.key: wheel.content for wheel in every}

    @property
    def versions(self) -> dict[str, str]:
        """Version by package name, also of what is built here, and of conda under its names."""
        built = {wheel.name: wheel.version for wheel in self.wheels}
        return {**conda_versions(self.conda), **self.packages, **built}

    @property
    def is_hashed(self) -> bool:
        """Whether hosts take no other archives than these."""
        return bool(self.hashes or self.conda)

    def to_requirements(self) -> str:
        """Return the lock as a requirements file: ``name==version`` and its ``--hash`` options.

        Wheels that were built here stand in it by their names among the cluster's objects, and
        conda's packages by the URLs of their archives.
        """
        conda = "" if self.installer is None else f"conda-installer {self.installer.key}\n"
        conda += "".join(f"{package.line}\n" for package in self.conda)
        wheels = "".join(f"{wheel.name} @ {wheel.key}\n" for wheel in self.wheels)
        return (
            conda
            + wheels
            + "".join(
                " ".join(
                    [
                        f"{name}=={version}",
                        *self.indexes.get(name, ()),
                        *(f"--hash=sha256:{digest}" for digest in self.hashes.get(name, ())),
                    ]
                )
                + "\n"
                for name, version in sorted(self.packages.items())
            )
        )


def conda_versions(packages: Iterable[CondaPackage]) -> dict[str, str]:
    """Return the version of each by its name; of Dask also by that of the index."""
    found = {package.name: package.version for package in packages}
    return {**found, "dask": found[CONDA_DASK]} if CONDA_DASK in found else found


def with_conda(
    lock: SoftwareLock,
    packages: Sequence[CondaPackage],
    installer: LocalWheel,
    channels: Iterable[CondaChannel],
) -> SoftwareLock:
    """Return a lock with packages of conda, what installs them, and their channels' credentials."""
    used = [one for one in channels if any(p.url.startswith(f"{one.url}/") for p in packages)]
    credentials = {one.url: one.credentials for one in used if one.credentials is not None}
    return replace(
        lock,
        conda=tuple(packages),
        installer=installer,
        channels=tuple(one.url for one in used),
        loopback=[*lock.loopback, *(one.url for one in used if one.is_loopback)],
        credentials={**lock.credentials, **credentials},
    )
