"""`SoftwareLock`: the exact packages that a cluster's hosts install."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from terradask._software.conda.file import CondaChannel
from terradask._software.conda.solver import CondaPackage
from terradask._software.local_wheels import LocalWheel

#: conda's name of the package dask; conda's package `dask` brings more dependencies.
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
    #: SHA-256 of each archive by package name, of all packages, or empty.
    hashes: Hashes = field(default_factory=dict)
    #: The glibc of the client's wheel by package name, where the hosts' is older.
    newer_glibc: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: With `package_sync`: missing package -> reason.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: With `package_sync`: package -> local version, hosts' version.
    changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: With `package_sync`: package with a yanked version -> the index's reason.
    yanked: Mapping[str, str] = field(default_factory=dict)
    #: With `package_sync`: package that hosts don't need -> reason.
    dropped: Mapping[str, str] = field(default_factory=dict)
    #: Wheels of local packages.
    wheels: Sequence[LocalWheel] = ()
    #: Conda packages, Python among them, which replaces the hosts' Python.
    conda: Sequence[CondaPackage] = ()
    #: The installer of conda packages.
    installer: LocalWheel | None = None
    #: URLs of the conda packages' channels.
    channels: Sequence[str] = ()
    #: Index options of each package's line, unless the image's index is used.
    indexes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Indexes and channels that only this machine can reach.
    loopback: Sequence[str] = ()
    #: Credentials of each index and channel by URL; hosts get them in the cluster's secret.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def contents(self) -> dict[str, bytes]:
        """The wheels by their names among the cluster's objects."""
        every = self.wheels if self.installer is None else (*self.wheels, self.installer)
        return {wheel.key: wheel.content for wheel in every}

    @property
    def versions(self) -> dict[str, str]:
        """Version by package name; locally built ones too, and conda's by their conda names."""
        built = {wheel.name: wheel.version for wheel in self.wheels}
        return {**conda_versions(self.conda), **self.packages, **built}

    @property
    def is_hashed(self) -> bool:
        """Whether hosts accept only archives with these hashes."""
        return bool(self.hashes or self.conda)

    def to_requirements(self) -> str:
        """Return the lock as a requirements file: ``name==version`` and its ``--hash`` options.

        Locally built wheels are entries with their names among the cluster's objects, conda
        packages with the URLs of their archives.
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
    """Return the version of each package by name; Dask also by its index name."""
    found = {package.name: package.version for package in packages}
    return {**found, "dask": found[CONDA_DASK]} if CONDA_DASK in found else found


def with_conda(
    lock: SoftwareLock,
    packages: Sequence[CondaPackage],
    installer: LocalWheel,
    channels: Iterable[CondaChannel],
) -> SoftwareLock:
    """Return a lock with conda packages, their installer and the credentials of their channels."""
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
