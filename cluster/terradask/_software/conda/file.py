"""Read an ``environment.yml``: channels with credentials, conda packages, requirements for pip."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote, urlsplit

from terradask._software.indexes.configured import ConfiguredIndex, Machine
from terradask._software.indexes.credentials import credentials_for
from terradask._software.indexes.indexes import is_loopback_url, without_user
from terradask._software.refused import file_refused
from terradask._software.software_file import read_file

#: Keys of conda and conda-lock; hosts ignore prefix and name.
_KEYS = ("name", "channels", "dependencies", "platforms", "prefix")
_SHAPE = "names of channels and dependencies, such as channels: [conda-forge]"


@dataclass(frozen=True)
class CondaFile:
    """The contents of an environment file that hosts use."""

    channels: tuple[str, ...]
    #: Match specifications of conda.
    dependencies: tuple[str, ...]
    #: Lines of a requirements file.
    pip: tuple[str, ...] = ()


def read_conda_file(path: Path, subdir: str) -> CondaFile:
    """Read the file for hosts of this channel subdirectory. Raises `SoftwareUnusable`."""
    document = _parsed(path)
    unknown = sorted(str(key) for key in document if key not in _KEYS)
    if "variables" in unknown:
        raise file_refused(
            path,
            "it has `variables`, which hosts don't read",
            advice="move them to `environ` of the cluster",
        )
    if unknown:
        raise file_refused(path, f"it has {', '.join(unknown)}; known keys: {', '.join(_KEYS)}")
    platforms = _texts(path, document, "platforms")
    if platforms and subdir not in platforms:
        raise file_refused(path, f"it is for {', '.join(platforms)}; hosts are {subdir}")
    channels = _texts(path, document, "channels")
    if not channels:
        raise file_refused(
            path,
            "it names no channels; channels from .condarc aren't sent to hosts",
            advice="add channels to the file, such as channels: [conda-forge]",
        )
    return CondaFile(channels, *_dependencies(path, document))


def _parsed(path: Path) -> Mapping[Any, Any]:
    import yaml  # type: ignore[import-untyped]  # PyYAML carries no types

    try:
        document = yaml.safe_load(read_file(path))
    except yaml.YAMLError as error:
        # YAML's error repeats lines, which may have credentials.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise file_refused(path, f"it is not valid YAML{where}") from None
    if document is None:
        raise file_refused(path, "it is empty", advice=f"write {_SHAPE}")
    if not isinstance(document, dict):
        raise file_refused(path, f"it has no {_SHAPE}")
    return document


def _texts(path: Path, document: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    found = document.get(key) or ()
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise file_refused(path, f"its {key} must be a list of strings")
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
                f"its dependencies have {entry!r}, which is neither a package nor a pip list",
                advice="write packages as strings, such as - numpy>=2, and pip's as - pip: [...]",
            )
    return tuple(conda), tuple(pip)


# ---- channels, with their credentials ------------------------------------------------------------
# Credentials leave this process only in the cluster's secret.


#: Base URL of channel names, unless conda's variable overrides it.
_ALIAS = "https://conda.anaconda.org"
_ALIAS_VARIABLE = "CONDA_CHANNEL_ALIAS"
_ANACONDA = "https://repo.anaconda.com"
#: conda's meaning of `defaults` on Linux.
_DEFAULTS = (f"{_ANACONDA}/pkgs/main", f"{_ANACONDA}/pkgs/r")
_TOKEN = re.compile(r"^(?P<shared>.*?)(?P<token>/t/[^/]+)(?P<rest>/.*)?$")
_SUBDIR = re.compile(r"/(?:noarch|(?:linux|osx|win)-[a-z0-9]+)$")
#: The characters that a line of ``software.lock`` may contain.
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
        """Whether only this machine can reach the channel."""
        return is_loopback_url(self.url)


def file_channels(
    path: Path, named: Iterable[str], environ: Mapping[str, str], machine: Machine
) -> tuple[CondaChannel, ...]:
    """Return the channels of a file in its order, without duplicates. Sends no request.

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
            "it names no channel except nodefaults",
            advice="write channels: [conda-forge], or others",
        )
    return tuple(found.values())


def configured_channels(urls: Iterable[str], environ: Mapping[str, str]) -> list[CondaChannel]:
    """Return channels for URLs without credentials, with the locally configured credentials.

    Raises `SoftwareUnusable`.
    """
    machine = Machine.here(environ)
    return [_channel(machine.folder, url, environ, machine) for url in urls]


def _urls(path: Path, text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the URLs of a channel's text, which may have variables, as conda expands it."""
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
            f"the channel {full} is a local folder, which hosts don't have",
            advice="use a channel that hosts can reach by URL",
        )
    base = _ANACONDA if full.startswith("pkgs/") else environ.get(_ALIAS_VARIABLE, _ALIAS)
    return (f"{base.rstrip('/')}/{full}",)


def _channel(path: Path, url: str, environ: Mapping[str, str], machine: Machine) -> CondaChannel:
    try:
        bare, user = without_user(url)
        parts = urlsplit(bare)
    except ValueError:
        # The original error repeats the URL.
        raise file_refused(path, "the URL of a channel is malformed") from None
    token = _TOKEN.match(parts.path)
    if token is not None:
        parts = parts._replace(path=token["shared"] + (token["rest"] or ""))
    bare = parts._replace(path=_SUBDIR.sub("", parts.path)).geturl()
    if not _URL.fullmatch(bare):
        raise file_refused(
            path,
            # The remainder may contain misplaced credentials.
            f"hosts can't use the channel {parts.scheme}://{parts.hostname or ''}…",
            advice="use a channel name such as conda-forge, or an http or https URL",
        )
    if token is not None:
        return CondaChannel(bare, token["shared"] + token["token"])
    known = credentials_for(
        bare, user, ConfiguredIndex(url, str(path)), environ, machine, of_uv=False
    ).text
    return CondaChannel(bare, known or _rattler_credentials(parts.hostname or "", environ, machine))


def _rattler_credentials(host: str, environ: Mapping[str, str], machine: Machine) -> str | None:
    """Return the credentials that ``pixi auth login`` or ``rattler auth login`` stored."""
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
        # rattler too ignores an unreadable file.
        return None
    return None
