"""Packages from local folders (``file://`` indexes and ``find-links``), which hosts can't read and
whose names may belong to another author in an index.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from terradask._common.checksum import sha256_of_file
from terradask._software.indexes.configured import Machine, find_links, pip_indexes, uv_indexes
from terradask._software.package_origin import conda_origin, direct_origin
from terradask._software.pylock import DirectPackage
from terradask._software.resolver import Resolver, lacking

_DIGEST = "sha256="


@dataclass(frozen=True)
class Folder:
    """A folder with archives."""

    path: Path
    #: The folder's archives by package name. A folder index also has a folder and a page per
    #: package (PEP 503).
    archives: Mapping[str, Sequence[Path]]

    @classmethod
    def read(cls, path: Path) -> Folder:
        """List a folder; an unreadable one is empty."""
        archives: dict[str, list[Path]] = {}
        for archive in _files(path):
            named = _named(archive.name)
            if named is not None:
                archives.setdefault(named[0], []).append(archive)
        return cls(path, archives)

    def hashes(self, name: str, version: str) -> frozenset[str]:
        """Return the SHA-256 of a version's archives."""
        beside = [(path, "") for path in [*self.archives.get(name, ()), *_files(self.path / name)]]
        return frozenset(
            digest or sha256_of_file(path)
            for path, digest in [*_links(self.path / name / "index.html"), *beside]
            if _named(path.name) == (name, Version(version)) and (digest or path.is_file())
        )


def local_folders(environ: Mapping[str, str], machine: Machine) -> list[Folder]:
    """Return the local folders in uv's and pip's indexes and ``find-links``. Installed packages may
    come from either tool, whichever one provides the hosts' indexes.
    """
    named = [each.url for read in (uv_indexes, pip_indexes) for each in read(environ, machine)]
    named += find_links(environ, machine)
    folders = [_folder_of(each, machine.folder) for each in named]
    return [Folder.read(each) for each in dict.fromkeys(folders) if each is not None]


def _folder_of(location: str, relative_to: Path) -> Path | None:
    """Return the local folder of an index URL or ``find-links`` entry; None for a remote one."""
    if location.startswith("file:"):
        return relative_to / url2pathname(urlsplit(location).path)
    return None if "://" in location else relative_to / Path(location).expanduser()


def find_only_in_folders(
    packages: Mapping[str, str], folders: Sequence[Folder], resolve: Resolver
) -> dict[str, Path]:
    """Return the packages (name -> version) that a folder has and the hosts' indexes lack, or have
    with other hashes, each with its folder.

    Sends no request for packages that no folder has. Raises the resolver's errors.
    """
    there: dict[str, tuple[Path, frozenset[str]]] = {}
    for name, version in packages.items():
        for folder in folders:
            if name not in there and (hashes := folder.hashes(name, version)):
                there[name] = folder.path, hashes
    pins = [f"{name}=={packages[name]}" for name in there]
    absent = lacking(resolve, pins)
    known = [pin for pin in pins if pin not in absent]
    asked = resolve(known, deps=False).hashes if known else {}
    return {
        name: path
        for name, (path, hashes) in there.items()
        if hashes.isdisjoint(asked.get(name, ()))
    }


def find_only_on_pages(packages: Mapping[str, str], resolve: Resolver) -> tuple[DirectPackage, ...]:
    """Return the packages (name -> version) that uv takes from pages of links.

    Raises the resolver's errors.
    """
    pins = [
        f"{name}=={version}"
        for name, version in packages.items()
        # No index may be asked for a package that came from none.
        if not (direct_origin(one := importlib.metadata.distribution(name)) or conda_origin(one))
    ]
    absent = lacking(resolve, pins)
    known = [pin for pin in pins if pin not in absent]
    return resolve(known, deps=False).direct if known else ()


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _links(page: Path) -> Iterable[tuple[Path, str]]:
    try:
        text = page.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    reader = _Links()
    reader.feed(text)
    found = []
    for target in reader.found:
        parts = urlsplit(urljoin(page.as_uri(), target))
        digest = parts.fragment.removeprefix(_DIGEST) if _DIGEST in parts.fragment else ""
        found.append((Path(url2pathname(parts.path)), digest))
    return found


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def _named(filename: str) -> tuple[str, Version] | None:
    """Return an archive's name and version; None for other files."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[:2]
        return parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
