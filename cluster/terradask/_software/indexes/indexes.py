"""The package indexes that uv or pip is configured with locally, which hosts use too.

uv's settings take precedence if they name an index, else pip's: uv resolves, and users of uv
usually configure all indexes there. The places of files are documented at
https://docs.astral.sh/uv/concepts/configuration-files and
https://pip.pypa.io/en/stable/topics/configuration.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from terradask._software.indexes.configured import (
    ConfiguredIndex,
    Machine,
    find_links,
    is_remote_url,
    pip_indexes,
    uv_indexes,
)
from terradask._software.indexes.credentials import Credentials, credentials_for
from terradask._software.refused import index_settings_refused

#: In place of a URL: the default index of uv and pip, or the one that the hosts' image names.
PUBLIC = "public"
#: https://pip.pypa.io/en/stable/reference/requirements-file-format/#using-environment-variables
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


@dataclass(frozen=True)
class Index(ConfiguredIndex):
    """One package index; its URL has no credentials."""

    #: Whether hosts can reach it; false for a local folder.
    is_remote: bool = True
    #: ``user:password`` as in a URL.
    credentials: str | None = field(default=None, repr=False)
    #: Source of the credentials.
    credentials_from: str | None = None

    @property
    def option(self) -> str:
        """The index as an option in a line of ``software.lock``."""
        return f"--{'default-' if self.is_default else ''}index={self.url}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the index."""
        return is_loopback_url(self.url)

    @property
    def with_credentials(self) -> str:
        """The URL with credentials, as installers take it."""
        if self.credentials is None:
            return self.url
        return self.url.replace("://", f"://{self.credentials}@", 1)


@dataclass(frozen=True)
class Indexes:
    """The indexes of one tool in priority order, the default one last."""

    #: ``uv``, ``pip``, or None if neither names an index.
    tool: str | None
    every: Sequence[Index]

    @property
    def for_hosts(self) -> tuple[Index, ...]:
        """The indexes that hosts use for any name; empty if only the image decides."""
        asked = tuple(each for each in self.every if each.is_remote and not each.explicit)
        return () if all(each.url == PUBLIC for each in asked) else asked

    def options(self, url: str | None = None) -> tuple[str, ...]:
        """Return the options of a package's line: its index if `url` is given, else all indexes."""
        if url is None:
            return tuple(each.option for each in self.for_hosts)
        if self.tool is None:
            return ()
        known = next((each for each in self.every if each.url == url), None)
        # The tool's own default index alone is used without configuration.
        return (f"--default-index={url}" if known is None else known.option,)

    def credentials(self, options: Iterable[str]) -> dict[str, str]:
        """Return the credentials of the indexes in lines, by URL."""
        named = {option.partition("=")[2] for option in options}
        return {
            each.url: each.credentials
            for each in self.every
            if each.url in named and each.credentials is not None
        }

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return uv's variables, with pip's indexes added; uv's own settings stay unchanged."""
        if self.tool != "pip":
            default = next((each for each in self.every if each.is_default), None)
            if default is None or default.url == PUBLIC or not default.is_remote:
                return dict(environ)
            # The variable overrides a file's default index.
            name = "" if default.name is None else f"{default.name}="
            return {**environ, "UV_DEFAULT_INDEX": f"{name}{default.with_credentials}"}
        own = [each for each in self.every if each.is_remote and each.url != PUBLIC]
        asked = " ".join(each.with_credentials for each in own if not each.is_default)
        defaults = [each.with_credentials for each in own if each.is_default]
        named = {"UV_INDEX": asked, "UV_DEFAULT_INDEX": "".join(defaults)}
        return {**environ, **{name: value for name, value in named.items() if value}}

    def as_dicts(self) -> list[dict[str, object]]:
        """Return each index as JSON, without credentials."""
        return [
            {
                "url": each.url,
                "name": each.name,
                "default": each.is_default,
                "explicit": each.explicit,
                "tool": self.tool,
                "source": each.source,
                "credentials": each.credentials_from,
                "hosts": "never" if not each.is_remote else self._host_use(each),
            }
            for each in self.every
        ]

    def _host_use(self, index: Index) -> str:
        if index.explicit:
            return "explicit"
        return "asked" if index in self.for_hosts else "image"


def read_indexes(
    environ: Mapping[str, str], machine: Machine | None = None, more: Sequence[ConfiguredIndex] = ()
) -> Indexes:
    """Return the locally configured indexes with credentials, after those in `more`, such as a
    requirements file's.

    Sends no request. Raises `SoftwareUnusable`.
    """
    machine = machine or Machine.here(environ)
    for tool, read in (("uv", uv_indexes), ("pip", pip_indexes)):
        found = _unique(read(environ, machine))
        if found:
            return Indexes(tool, _ordered(_unique([*more, *found]), environ, machine))
    return Indexes("uv" if more else None, _ordered(_unique(more), environ, machine))


def link_pages(environ: Mapping[str, str], machine: Machine) -> frozenset[str]:
    """Return the pages of links in the configuration of uv and pip, without credentials."""
    return frozenset(without_user(each)[0] for each in find_links(environ, machine))


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """Expand the variables in a line of requirements, as uv and pip do."""
    return _VARIABLE.sub(lambda found: environ.get(found[1]) or found[0], text)


def is_index(url: str, pages: Container[str]) -> bool:
    """Return whether hosts can use a URL as an index: neither a page of links nor a folder."""
    return is_remote_url(url) and without_user(url)[0] not in pages


def is_loopback_url(url: str) -> bool:
    """Return whether only this machine can reach a URL."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def without_user(url: str) -> tuple[str, str | None]:
    """Split a URL into the URL without credentials, and the credentials."""
    parts = urlsplit(url)
    user, has_user, host = parts.netloc.rpartition("@")
    # A search for credentials would match an at sign elsewhere.
    path = parts.path.replace("@", "%40").rstrip("/")
    bare = urlunsplit((parts.scheme, host.lower(), path, "", ""))
    return bare, user if has_user else None


def _unique(found: Iterable[ConfiguredIndex]) -> list[ConfiguredIndex]:
    """Return the first index of each URL and name, and one default, as uv does."""
    kept: list[ConfiguredIndex] = []
    for each in found:
        if each.is_default and any(other.is_default for other in kept):
            continue
        if any(each.url == other.url or (each.name and each.name == other.name) for other in kept):
            continue
        kept.append(each)
    return kept


def _ordered(
    found: Sequence[ConfiguredIndex], environ: Mapping[str, str], machine: Machine
) -> tuple[Index, ...]:
    default = [each for each in found if each.is_default]
    others = [each for each in found if not each.is_default]
    every = [*others, *(default or [ConfiguredIndex(PUBLIC, "default", is_default=True)])]
    return tuple(_read(each, environ, machine) for each in every)


def _read(found: ConfiguredIndex, environ: Mapping[str, str], machine: Machine) -> Index:
    try:
        url, user = without_user(found.url)
    except ValueError:
        # The original error repeats the URL.
        raise index_settings_refused(found.source, "an index whose URL is malformed") from None
    if unset := re.search(r"\$\{([^}]*)\}", found.url):
        raise index_settings_refused(
            found.source, f"an index with the variable {unset[1]}, which has no value there"
        )
    is_remote = url == PUBLIC or is_remote_url(url)
    known = credentials_for(url, user, found, environ, machine) if is_remote else Credentials()
    own = {"is_remote": is_remote, "credentials": known.text, "credentials_from": known.source}
    return Index(**{**vars(found), "url": url, **own})


# ---- the index that a uv project takes a package from: [tool.uv.sources] -------------------------
# Other indexes may have another author's package of the name:
# https://docs.astral.sh/uv/concepts/indexes/#pinning-a-package-to-an-index


def index_sources(
    indexes: Indexes, machine: Machine, markers: Mapping[str, str]
) -> dict[str, Index]:
    """Return the pinned index of each package in the project of the working directory or of a
    folder above it.

    Raises `SoftwareUnusable`.
    """
    by_name = {index.name: index for index in indexes.every if index.name is not None}
    found: dict[str, Index] = {}
    for folder in (machine.folder, *machine.folder.parents):
        path = folder / "pyproject.toml"
        for name, source in _sources(path).items():
            index = _index_name(source, markers)
            if index is None or canonicalize_name(name) in found:
                continue
            if index not in by_name:
                raise index_settings_refused(str(path), f"no index is named {index!r}")
            found[canonicalize_name(name)] = by_name[index]
    return found


def _sources(path: Path) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        sources = document.get("tool", {}).get("uv", {}).get("sources", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise index_settings_refused(str(path), type(error).__name__) from None
    return sources if isinstance(sources, dict) else {}


def _index_name(source: Any, markers: Mapping[str, str]) -> str | None:
    """Return the index of the source that applies on hosts."""
    every: Iterable[Any] = source if isinstance(source, list) else [source]
    for each in every:
        if isinstance(each, dict) and "index" in each and _holds(each.get("marker"), markers):
            return str(each["index"])
    return None


def _holds(marker: object, markers: Mapping[str, str]) -> bool:
    try:
        return marker is None or Marker(str(marker)).evaluate(dict(markers))
    except InvalidMarker:
        return False
