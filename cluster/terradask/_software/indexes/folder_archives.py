"""Packages that pip or uv takes from folders of this machine: indexes with ``file://``, and
``find-links``. Hosts can't look there, and an index that they ask may have another author's package
under the name.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from terradask._common.checksum import sha256_of_file
from terradask._software.indexes.configured import Machine, find_links, of_pip, of_uv
from terradask._software.package_origin import conda_origin, direct_origin
from terradask._software.pylock import DirectPackage
from terradask._software.resolver import Resolver, lacking

_DIGEST = "sha256="


@dataclass(frozen=True)
class Folder:
    """A folder with archives."""

    path: Path
    #: Its own archives, by the package's name. An index has a folder and a page for each package
    #: besides (PEP 503).
    archives: Mapping[str, Sequence[Path]]

    @classmethod
    def read(cls, path: Path) -> Folder:
        """List a folder; one that can't be read is empty."""
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


def folders_here(environ: Mapping[str, str], machine: Machine) -> list[Folder]:
    """Return the folders among uv's and pip's indexes, and in ``find-links``: what is installed
    came by either, whichever of them hosts' indexes are taken from.
    """
    named = [each.url for read in (of_uv, of_pip) for each in read(environ, machine)]
    named += find_links(environ, machine)
    folders = [_folder_of(each, machine.folder) for each in named]
    return [Folder.read(each) for each in dict.fromkeys(folders) if each is not None]


def _folder_of(location: str, relative_to: Path) -> Path | None:
    """Return the folder that an index's URL or an entry of ``find-links`` means; None if it is
    elsewhere.
    """
    if location.startswith("file:"):
        return relative_to / url2pathname(urlsplit(location).path)
    return None if "://" in location else relative_to / Path(location).expanduser()


def only_in_folders(
    packages: Mapping[str, str], folders: Sequence[Folder], resolve: Resolver
) -> dict[str, Path]:
    """Return which of these packages, by name with their version, lie in a folder, and in the
    indexes that hosts ask not at all or as other archives; with the folder.

    Asks no index for what no folder has. Raises as `resolve` does.
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


def only_on_pages(packages: Mapping[str, str], resolve: Resolver) -> tuple[DirectPackage, ...]:
    """Return which of these packages, by name with their version, uv takes from pages of links.

    Raises as `resolve` does.
    """
    pins = [
        f"{name}=={version}"
        for name, version in packages.items()
        # No index may be asked for what came from none.
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
        found.append((Path(unquote(parts.path)), digest))
    return found


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def _named(filename: str) -> tuple[str, Version] | None:
    """Return an archive's name and version; None of other files."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[:2]
        return parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
