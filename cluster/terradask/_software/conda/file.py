"""What an ``environment.yml`` says: channels, packages of conda, and requirements for pip."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote, urlsplit

from terradask._software.indexes.configured import Found, Machine
from terradask._software.indexes.credentials import credentials_for
from terradask._software.indexes.indexes import is_loopback_url, without_user
from terradask._software.refused import file_refused
from terradask._software.software_file import unreadable

#: What conda and conda-lock know; of a prefix and a name hosts need nothing.
_KEYS = ("name", "channels", "dependencies", "platforms", "prefix")
_SHAPE = "names of channels and dependencies, such as channels: [conda-forge]"


@dataclass(frozen=True)
class CondaFile:
    """What the file says."""

    channels: tuple[str, ...]
    #: Each as conda's match specification.
    dependencies: tuple[str, ...]
    #: Lines of a requirements file.
    pip: tuple[str, ...] = ()


def read_conda_file(path: Path, subdir: str) -> CondaFile:
    """Read the file, for hosts of this subdirectory of channels. Raises `SoftwareUnusable`."""
    document = _parsed(path)
    unknown = sorted(str(key) for key in document if key not in _KEYS)
    if "variables" in unknown:
        raise file_refused(
            path,
            "it has `variables`, which hosts don't read",
            advice="move them to `environ` of the cluster",
        )
    if unknown:
        raise file_refused(path, f"it has {', '.join(unknown)}, and may have {', '.join(_KEYS)}")
    platforms = _texts(path, document, "platforms")
    if platforms and subdir not in platforms:
        raise file_refused(path, f"it is for {', '.join(platforms)}, and hosts are {subdir}")
    channels = _texts(path, document, "channels")
    if not channels:
        raise file_refused(
            path,
            "it names no channels, and those that are configured here hosts don't know",
            advice="write them into it, such as channels: [conda-forge]",
        )
    return CondaFile(channels, *_dependencies(path, document))


def _parsed(path: Path) -> Mapping[Any, Any]:
    import yaml  # type: ignore[import-untyped]  # PyYAML carries no types

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except yaml.YAMLError as error:
        # Its own text repeats lines, which may have credentials.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise file_refused(path, f"it is no YAML{where}") from None
    if document is None:
        raise file_refused(path, "it is empty", advice=f"write {_SHAPE}")
    if not isinstance(document, dict):
        raise file_refused(path, f"it has no {_SHAPE}")
    return document


def _texts(path: Path, document: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    found = document.get(key) or ()
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise file_refused(path, f"its {key} are no list of texts")
    return tuple(each.strip() for each in found)


def _dependencies(
    path: Path, document: Mapping[Any, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    entries = document.get("dependencies")
    if not isinstance(entries, list) or not entries:
        raise file_refused(path, "it has no list of dependencies")
    conda: list[str] = []
    pip: list[str] = []
    for entry in entries:
        if isinstance(entry, str) and entry.strip():
            conda.append(entry.strip())
        elif isinstance(entry, dict) and list(entry) == ["pip"]:
            pip += _texts(path, entry, "pip")
        else:
            raise file_refused(
                path,
                f"its dependencies have {entry!r}, which is neither a package nor pip's list",
                advice="write each as a text, such as - numpy>=2, and those of pip as - pip: [...]",
            )
    return tuple(conda), tuple(pip)


# ---- the channels that it names, with their credentials ------------------------------------------
# Credentials leave this process in the cluster's secret alone.


#: Where names of channels are looked for, unless conda's variable says otherwise.
_ALIAS = "https://conda.anaconda.org"
_ALIAS_VARIABLE = "CONDA_CHANNEL_ALIAS"
_ANACONDA = "https://repo.anaconda.com"
#: What conda takes for `defaults` on Linux.
_DEFAULTS = (f"{_ANACONDA}/pkgs/main", f"{_ANACONDA}/pkgs/r")
_TOKEN = re.compile(r"^(?P<shared>.*?)(?P<token>/t/[^/]+)(?P<rest>/.*)?$")
_SUBDIR = re.compile(r"/(?:noarch|(?:linux|osx|win)-[a-z0-9]+)$")
#: What can stand in a line of ``software.lock``.
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~!+%-]+)*")


@dataclass(frozen=True)
class CondaChannel:
    """One channel."""

    #: Without credentials and token.
    url: str
    #: ``user:password`` as in a URL, ``Bearer TOKEN``, or ``/…/t/TOKEN`` with the path before it.
    credentials: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can ask it."""
        return is_loopback_url(self.url)


def read_channels(
    path: Path, named: Iterable[str], environ: Mapping[str, str], machine: Machine
) -> tuple[CondaChannel, ...]:
    """Return the channels that a file names, in its order, once each. Asks none.

    Raises `SoftwareUnusable`.
    """
    found: dict[str, CondaChannel] = {}
    for text in named:
        for url in _urls(path, text, environ):
            channel = _channel(path, url, environ, machine)
            found.setdefault(channel.url, channel)
    if not found:
        raise file_refused(
            path,
            "it names no channel but nodefaults",
            advice="write channels: [conda-forge], or others",
        )
    return tuple(found.values())


def channels_here(urls: Iterable[str], environ: Mapping[str, str]) -> list[CondaChannel]:
    """Return channels, by their URLs without credentials, with those that are configured here.

    Raises `SoftwareUnusable`.
    """
    machine = Machine.here(environ)
    return [_channel(machine.folder, url, environ, machine) for url in urls]


def _urls(path: Path, text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the URLs that conda takes for a channel's text, which may have variables."""
    full = Template(text).safe_substitute(environ)
    if unset := re.search(r"\$\{?(\w+)", full):
        raise file_refused(
            path,
            f"a channel has the variable {unset[1]}, which isn't set",
            advice=f"set {unset[1]} where the cluster is made",
        )
    if full == "nodefaults":
        return ()
    if full == "defaults":
        return _DEFAULTS
    if "://" in full:
        return (full,)
    if re.match(r"[./~]|[A-Za-z]:|.*\\", full):
        raise file_refused(
            path,
            f"the channel {full} is a folder of this machine, which hosts don't have",
            advice="name a channel that hosts reach by its URL",
        )
    base = _ANACONDA if full.startswith("pkgs/") else environ.get(_ALIAS_VARIABLE, _ALIAS)
    return (f"{base.rstrip('/')}/{full}",)


def _channel(path: Path, url: str, environ: Mapping[str, str], machine: Machine) -> CondaChannel:
    try:
        bare, user = without_user(url)
        parts = urlsplit(bare)
    except ValueError:
        # Its error repeats the URL.
        raise file_refused(path, "the URL of a channel is malformed") from None
    token = _TOKEN.match(parts.path)
    if token is not None:
        parts = parts._replace(path=token["shared"] + (token["rest"] or ""))
    bare = parts._replace(path=_SUBDIR.sub("", parts.path)).geturl()
    if not _URL.fullmatch(bare):
        raise file_refused(
            path,
            # The rest may have credentials in a wrong place.
            f"the channel {parts.scheme}://{parts.hostname or ''}… is none that hosts can ask",
            advice="name a channel of conda-forge's kind, or one by its http or https URL",
        )
    if token is not None:
        return CondaChannel(bare, token["shared"] + token["token"])
    known = credentials_for(bare, user, Found(url, str(path)), environ, machine, of_uv=False).text
    return CondaChannel(bare, known or _of_rattler(parts.hostname or "", environ, machine))


def _of_rattler(host: str, environ: Mapping[str, str], machine: Machine) -> str | None:
    """Return what ``pixi auth login`` or ``rattler auth login`` has written to its file."""
    file = environ.get("RATTLER_AUTH_FILE") or machine.home / ".rattler/credentials.json"
    try:
        stored = json.loads(Path(file).read_text(encoding="utf-8"))
        labels = host.split(".")
        wild = [f"*.{'.'.join(labels[n:])}" for n in range(len(labels))]
        entry: dict[str, Any] = next((stored[key] for key in [host, *wild] if key in stored), {})
        if token := entry.get("CondaToken"):
            return f"/t/{token}"
        if bearer := entry.get("BearerToken"):
            return f"Bearer {bearer}"
        basic = entry.get("BasicHTTP") or {}
        if basic:
            user, password = (quote(basic[key], safe="") for key in ("username", "password"))
            return f"{user}:{password}"
    except (OSError, LookupError, TypeError, ValueError, AttributeError):
        # rattler too passes over a file that it can't read.
        return None
    return None
