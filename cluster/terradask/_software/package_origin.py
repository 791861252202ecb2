"""Find the origin of an installed package outside package indexes.

A host asks the index for a name and a version. A package from elsewhere may be missing there, or
be another author's.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from packaging.direct_url import DirectUrl, DirectUrlValidationError
from packaging.utils import canonicalize_name

#: Channels that rebuild the index's packages. Mirrors have the same last path component.
_PUBLIC_CHANNELS = ("/conda-forge", "/pkgs/main")

_RECORD = "direct_url.json"
_METADATA = re.compile(r"([^/]+)-[^-/]+\.dist-info/METADATA$")
#: A channel's access token, as conda writes it into URLs.
_TOKEN = re.compile(r"/t/[^/]+")


@dataclass(frozen=True)
class Origin:
    """The origin of a package from no index, without secrets."""

    #: ``source``: found in a source folder on the path. ``unknown``: its record can't be read.
    kind: Literal["editable", "folder", "archive", "repository", "conda", "source", "unknown"]
    description: str

    @property
    def is_buildable(self) -> bool:
        """Whether the installer recorded the origin."""
        return self.kind in ("editable", "folder", "archive", "repository")


def direct_origin(distribution: importlib.metadata.Distribution) -> Origin | None:
    """Return the folder, file, repository or URL that a package was installed from; None for an
    index or conda.

    Installers record it (PEP 610: https://peps.python.org/pep-0610/). A source folder on the path
    has no installation record.
    """
    if _is_of_conda(distribution):
        # Many conda packages contain the folder that they were built in:
        # https://github.com/conda/conda/issues/11580
        return None
    record = _direct_url(distribution)
    if record is not None:
        return _describe(record)
    if distribution.read_text(_RECORD) is not None:
        return Origin("unknown", f"its {_RECORD} can't be read")
    if any(distribution.read_text(name) is not None for name in ("RECORD", "installed-files.txt")):
        return None
    return Origin("source", f"found, not installed, in {distribution.locate_file('')}")


def conda_origin(distribution: importlib.metadata.Distribution) -> Origin | None:
    """Return a package's conda channel; None if it rebuilds the index's packages."""
    if not _is_of_conda(distribution):
        return None
    found = _channels(Path(str(distribution.locate_file("")))).get(
        canonicalize_name(distribution.metadata["Name"])
    )
    if found is None:
        return Origin("conda", "installed by conda, from an unknown channel")
    if urlsplit(found).path.endswith(_PUBLIC_CHANNELS):
        return None
    return Origin("conda", f"installed by conda, from {found}")


def folder_origin(folder: Path) -> Origin:
    """Return the origin of a package that only a folder's archive has."""
    return Origin("archive", f"from an archive in {folder}, which the hosts' indexes lack")


def came_from(distribution: importlib.metadata.Distribution, url: str) -> bool:
    """Return whether a package was installed from this URL, and its revision if it has one."""
    record = _direct_url(distribution)
    if record is None:
        return False
    vcs, revision = record.vcs_info, ""
    asked = _without_secrets(url if vcs is None else url.removeprefix(f"{vcs.vcs}+"))
    if vcs is not None and "@" in urlsplit(asked).path:
        asked, _, revision = asked.rpartition("@")
    known = ("",) if vcs is None else ("", vcs.requested_revision, vcs.commit_id)
    return asked.rstrip("/") == _without_secrets(record.url).rstrip("/") and revision in known


def editable_folder(distribution: importlib.metadata.Distribution) -> Path | None:
    """Return the folder of an editable package, or None."""
    record = _direct_url(distribution)
    if record is None or record.dir_info is None or not record.dir_info.editable:
        return None
    return Path(unquote(urlsplit(record.url).path)) / (record.subdirectory or "")


def _direct_url(distribution: importlib.metadata.Distribution) -> DirectUrl | None:
    """Return the installer's record; None if there is none, or none that can be read."""
    try:
        record = DirectUrl.from_dict(json.loads(distribution.read_text(_RECORD) or "null"))
        urlsplit(record.url)
    except (ValueError, AttributeError, DirectUrlValidationError):
        return None
    return record


def _is_of_conda(distribution: importlib.metadata.Distribution) -> bool:
    return (distribution.read_text("INSTALLER") or "").strip() == "conda"


def _describe(record: DirectUrl) -> Origin:
    url = _without_secrets(record.url)
    if record.vcs_info is not None:
        return Origin("repository", f"from {record.vcs_info.vcs}+{url}")
    if record.dir_info is None:
        return Origin("archive", f"from {url}")
    if record.dir_info.editable:
        return Origin("editable", f"editable, from {url}")
    return Origin("folder", f"from {url}")


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(
        netloc=parts.netloc.rpartition("@")[2],
        path=_TOKEN.sub("", parts.path),
        query="",
        fragment="",
    ).geturl()


@cache
def _channels(site: Path) -> Mapping[str, str]:
    """Return the channel URL of each Python package that conda installed, from its records
    (https://conda.github.io/rattler/py-rattler/repo_data_record).
    """
    records = next((p / "conda-meta" for p in site.parents if (p / "conda-meta").is_dir()), None)
    channels: dict[str, str] = {}
    for path in [] if records is None else records.glob("*.json"):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            channel = _without_secrets(record["url"].rsplit("/", 2)[0])
            names = [found[1] for each in record["files"] if (found := _METADATA.search(each))]
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            continue
        channels |= {canonicalize_name(name): channel for name in names}
    return channels
