"""The package indexes that uv or pip is configured with here, which hosts are to ask too.

uv's settings count where they name an index, else pip's: uv resolves, and most who configure it
have told it all. Files are read as their tools' documentation says where they lie:
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
    Found,
    Machine,
    find_links,
    is_remote_url,
    of_pip,
    of_uv,
)
from terradask._software.indexes.credentials import Credentials, credentials_for
from terradask._software.refused import index_settings_refused

#: In place of a URL: uv's and pip's own default index, or the one that hosts' image names.
PUBLIC = "public"
#: https://pip.pypa.io/en/stable/reference/requirements-file-format/#using-environment-variables
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


@dataclass(frozen=True)
class Index:
    """One package index."""

    #: Without credentials.
    url: str
    #: Where it was configured: a variable, or a file.
    source: str
    name: str | None = None
    #: The one that is asked last.
    is_default: bool = False
    #: Asked only for packages that a project's settings assign to it.
    explicit: bool = False
    #: Whether hosts could ask it: a folder of this machine they can't.
    is_remote: bool = True
    #: ``user:password`` as in a URL.
    credentials: str | None = field(default=None, repr=False)
    #: Where the credentials are from.
    credentials_from: str | None = None

    @property
    def option(self) -> str:
        """How it stands in a line of ``software.lock``."""
        return f"--{'default-' if self.is_default else ''}index={self.url}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can ask it."""
        return is_loopback_url(self.url)

    @property
    def with_credentials(self) -> str:
        """Its URL, as installers take it."""
        if self.credentials is None:
            return self.url
        return self.url.replace("://", f"://{self.credentials}@", 1)


@dataclass(frozen=True)
class Indexes:
    """The indexes of one tool, in the order in which they are asked; the default one is last."""

    #: ``uv``, ``pip``, or None if neither names an index.
    tool: str | None
    every: Sequence[Index]

    @property
    def for_hosts(self) -> tuple[Index, ...]:
        """Those that hosts ask for any name; empty if the image decides alone."""
        asked = tuple(each for each in self.every if each.is_remote and not each.explicit)
        return () if all(each.url == PUBLIC for each in asked) else asked

    def options(self, url: str | None = None) -> tuple[str, ...]:
        """Return the options of a package's line: of the index that has it, else of all."""
        if url is None:
            return tuple(each.option for each in self.for_hosts)
        if self.tool is None:
            return ()
        known = next((each for each in self.every if each.url == url), None)
        # Only the tool's own default index is asked without being configured.
        return (f"--default-index={url}" if known is None else known.option,)

    def credentials(self, options: Iterable[str]) -> dict[str, str]:
        """Return the credentials of the indexes that lines name, by URL."""
        named = {option.partition("=")[2] for option in options}
        return {
            each.url: each.credentials
            for each in self.every
            if each.url in named and each.credentials is not None
        }

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return uv's variables: pip's indexes as its own; its own settings stay as they are."""
        if self.tool != "pip":
            return {**environ, **self._default_of_uv()}
        own = [each for each in self.every if each.is_remote and each.url != PUBLIC]
        asked = " ".join(each.with_credentials for each in own if not each.is_default)
        default = [each.with_credentials for each in own if each.is_default]
        named = {"UV_INDEX": asked, "UV_DEFAULT_INDEX": "".join(default)}
        return {**environ, **{name: value for name, value in named.items() if value}}

    def _default_of_uv(self) -> dict[str, str]:
        """Return the variable of the default index, which uv takes over that of a file."""
        default = next((each for each in self.every if each.is_default), None)
        if default is None or default.url == PUBLIC or not default.is_remote:
            return {}
        name = "" if default.name is None else f"{default.name}="
        return {"UV_DEFAULT_INDEX": f"{name}{default.with_credentials}"}

    def as_dicts(self) -> list[dict[str, object]]:
        """Return each as JSON has it, without credentials."""
        return [
            {
                "url": each.url,
                "name": each.name,
                "default": each.is_default,
                "explicit": each.explicit,
                "tool": self.tool,
                "source": each.source,
                "credentials": each.credentials_from,
                "hosts": "never" if not each.is_remote else self._asked_by_hosts(each),
            }
            for each in self.every
        ]

    def _asked_by_hosts(self, index: Index) -> str:
        if index.explicit:
            return "explicit"
        return "asked" if index in self.for_hosts else "image"


def read_indexes(
    environ: Mapping[str, str], machine: Machine | None = None, more: Sequence[Found] = ()
) -> Indexes:
    """Return the indexes that are configured here, with their credentials; first those that a
    requirements file names.

    Asks no index. Raises `SoftwareUnusable`.
    """
    machine = machine or Machine.here(environ)
    for tool, read in (("uv", of_uv), ("pip", of_pip)):
        found = _unique(read(environ, machine))
        if found:
            return Indexes(tool, _ordered(_unique([*more, *found]), environ, machine))
    return Indexes("uv" if more else None, _ordered(_unique(more), environ, machine))


def pages_here(environ: Mapping[str, str], machine: Machine) -> frozenset[str]:
    """Return the pages of links that uv and pip are configured with, without credentials."""
    return frozenset(without_user(each)[0] for each in find_links(environ, machine))


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """Return a line of requirements with the values of its variables, as uv and pip read it."""
    return _VARIABLE.sub(lambda found: environ.get(found[1]) or found[0], text)


def is_index(url: str, pages: Container[str]) -> bool:
    """Return whether hosts can ask for names there: it is no page of links, and no folder."""
    return is_remote_url(url) and without_user(url)[0] not in pages


def is_loopback_url(url: str) -> bool:
    """Return whether only this machine can ask what is there."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def without_user(url: str) -> tuple[str, str | None]:
    """Return a URL without its credentials, and these."""
    parts = urlsplit(url)
    user, has_user, host = parts.netloc.rpartition("@")
    # An at sign elsewhere would look like credentials to those who search for them.
    path = parts.path.replace("@", "%40").rstrip("/")
    bare = urlunsplit((parts.scheme, host.lower(), path, "", ""))
    return bare, user if has_user else None


def _unique(found: Iterable[Found]) -> list[Found]:
    """Return the first of each URL and of each name, and one default: as uv does."""
    kept: list[Found] = []
    for each in found:
        if each.is_default and any(other.is_default for other in kept):
            continue
        if any(each.url == other.url or (each.name and each.name == other.name) for other in kept):
            continue
        kept.append(each)
    return kept


def _ordered(
    found: Sequence[Found], environ: Mapping[str, str], machine: Machine
) -> tuple[Index, ...]:
    default = [each for each in found if each.is_default]
    others = [each for each in found if not each.is_default]
    every = [*others, *(default or [Found(PUBLIC, "default", is_default=True)])]
    return tuple(_read(each, environ, machine) for each in every)


def _read(found: Found, environ: Mapping[str, str], machine: Machine) -> Index:
    try:
        url, user = without_user(found.url)
    except ValueError:
        # Its error repeats the URL.
        raise index_settings_refused(found.source, "an index whose URL is malformed") from None
    if unset := re.search(r"\$\{([^}]*)\}", found.url):
        raise index_settings_refused(
            found.source, f"an index with the variable {unset[1]}, which has no value there"
        )
    is_remote = url == PUBLIC or is_remote_url(url)
    known = credentials_for(url, user, found, environ, machine) if is_remote else Credentials()
    return Index(
        url,
        found.source,
        found.name,
        found.is_default,
        found.explicit,
        is_remote,
        known.text,
        known.source,
    )


# ---- which index a uv project takes a package from: [tool.uv.sources] ----------------------------
# Others may have another author's package under the name:
# https://docs.astral.sh/uv/concepts/indexes/#pinning-a-package-to-an-index


def index_sources(
    indexes: Indexes, machine: Machine, markers: Mapping[str, str]
) -> dict[str, Index]:
    """Return the index of each package that the project in the working directory, or one above it,
    takes from a certain one.

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
                raise index_settings_refused(str(path), f"no index has the name {index!r}")
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
    """Return the index of the source that holds on hosts."""
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
