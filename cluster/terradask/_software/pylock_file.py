"""Write the hosts' packages as a ``pylock.toml``, which `software` may name and other tools install
(https://packaging.python.org/specifications/pylock-toml), and read conda's packages in one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.markers import Marker
from packaging.pylock import (
    Package,
    PackageArchive,
    PackageWheel,
    Pylock,
    is_valid_pylock_path,
)
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from terradask._software.conda.solver import CondaPackage, subdir_of
from terradask._software.hosts import MACHINES
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import Index, read_indexes, without_user
from terradask._software.lock import SoftwareLock
from terradask._software.pylock import host_tags
from terradask._software.refused import file_refused
from terradask._software.resolver import Resolver
from terradask.errors import InvalidInput, SoftwareNotResolved
from terradask_host.conda_lines import is_conda_line
from terradask_stacks.files import write_whole

#: Of ``[tool.terradask]``.
_FORMAT = 1


def as_pylock(
    lock: SoftwareLock, architecture: str, environ: Mapping[str, str], folder: Path
) -> str:
    """Return a hashed lock as a ``pylock.toml``. The indexes of its packages are asked for the URLs
    of their wheels, with the settings of `folder`.

    Local packages are archives with paths relative to the file; conda's are ``[tool.terradask]``'s.

    Raises `SoftwareNotResolved`, also if an index has other archives than the lock; `SetupError`.
    """
    import tomlkit

    found = _wheels(lock, architecture, environ, folder)
    packages = [
        *(
            Package(
                name=canonicalize_name(name),
                version=Version(version),
                index=_index_url(lock, name),
                wheels=found[name],
            )
            for name, version in lock.packages.items()
        ),
        *(
            Package(
                name=canonicalize_name(wheel.name),
                version=Version(wheel.version),
                archive=PackageArchive(
                    path=wheel.key, size=len(wheel.content), hashes={"sha256": wheel.sha256}
                ),
            )
            for wheel in lock.wheels
        ),
    ]
    ours = {
        "format": _FORMAT,
        "architecture": architecture,
        "channels": list(lock.channels),
        "conda": [
            {"name": one.name, "version": one.version, "url": one.url, "sha256": one.sha256}
            for one in lock.conda
        ],
    }
    document = Pylock(
        lock_version=Version("1.0"),
        environments=[
            Marker(f"sys_platform == 'linux' and platform_machine == '{MACHINES[architecture]}'")
        ],
        requires_python=SpecifierSet(f"=={lock.python}.*"),
        created_by="terradask",
        packages=sorted(packages, key=lambda package: package.name),
        tool={"terradask": {name: each for name, each in ours.items() if each}},
    )
    document.validate()
    return tomlkit.dumps(document.to_dict())


def conda_packages(
    text: str, path: Path, architecture: str
) -> tuple[list[CondaPackage], list[str]]:
    """Return conda's packages in a ``pylock.toml`` of `as_pylock`, and their channels.

    Raises `SoftwareUnusable`.
    """
    try:
        ours = tomllib.loads(text).get("tool", {}).get("terradask", {})
        if ours and ours.get("format") != _FORMAT:
            raise file_refused(path, f"its [tool.terradask] hasn't the format {_FORMAT}")
        channels = [str(each) for each in ours.get("channels", ())]
        packages = [
            CondaPackage(
                str(each["name"]), str(each["version"]), str(each["url"]), str(each["sha256"])
            )
            for each in ours.get("conda", ())
        ]
        unsuited = [p.name for p in packages if not _is_for_hosts(p, architecture)]
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise file_refused(path, "its [tool.terradask] is not terradask's") from error
    if unsuited:
        raise file_refused(
            path,
            f"hosts can't take conda's {', '.join(unsuited)}: "
            f"https://CHANNEL/{subdir_of(architecture)}/FILE without credentials, and a SHA-256",
        )
    return packages, channels


def _is_for_hosts(package: CondaPackage, architecture: str) -> bool:
    subdirs = ("noarch", subdir_of(architecture))
    return is_conda_line(package.line) and package.url.split("/")[-2] in subdirs


def check_pylock_name(path: Path) -> None:
    """Check that a file's name is one of a ``pylock.toml``. Raises `InvalidInput`."""
    if not is_valid_pylock_path(path):
        raise InvalidInput(
            "Tools know a lock of PEP 751 by its name.",
            given=str(path),
            allowed="pylock.toml, or pylock.NAME.toml with a name without dots",
            advice=f"--out {path.with_name('pylock.toml')}",
        )


def write_pylock(path: Path, text: str, lock: SoftwareLock) -> None:
    """Write a ``pylock.toml``, and beside it the wheels of local packages that it names."""
    for wheel in lock.wheels:
        beside = path.parent / wheel.key
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(wheel.content)
    write_whole(path, text)


def _wheels(
    lock: SoftwareLock, architecture: str, environ: Mapping[str, str], folder: Path
) -> Mapping[str, Sequence[PackageWheel]]:
    """Return the wheels for hosts of each package, which have the lock's hashes."""
    if not lock.packages:
        return {}
    machine = replace(Machine.here(environ), folder=folder)
    sources = {
        name: Index(url, "lock", credentials=lock.credentials.get(url))
        for name in lock.packages
        if (url := _index_url(lock, name)) is not None
    }
    resolver = Resolver(
        architecture, read_indexes(environ, machine).environ(environ), folder, sources
    )
    tags = frozenset(host_tags(architecture))
    found = {
        name: [
            _public(wheel)
            for wheel in wheels
            if wheel.hashes.get("sha256") in lock.hashes.get(name, ())
            and tags & parse_wheel_filename(wheel.filename)[3]
        ]
        for name, wheels in resolver.wheels(lock.packages).items()
    }
    if changed := sorted(name for name in lock.packages if not found.get(name)):
        raise SoftwareNotResolved(f"the index has other archives now: {', '.join(changed)}")
    return found


def _index_url(lock: SoftwareLock, name: str) -> str | None:
    """Return a package's index; None for the default one of uv and pip."""
    options = lock.indexes.get(name, ())
    return options[0].partition("=")[2] if options else None


def _public(wheel: PackageWheel) -> PackageWheel:
    """Return a wheel without credentials and signatures in its URL."""
    url = None if wheel.url is None else without_user(wheel.url)[0]
    return PackageWheel(name=wheel.filename, url=url, size=wheel.size, hashes=wheel.hashes)
