"""Read package indexes from the variables and configuration files of uv and pip, unchanged."""

from __future__ import annotations

import configparser
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terradask._software.refused import index_settings_refused

#: pip's settings that variables set too.
_OF_PIP = ("index-url", "extra-index-url", "keyring-provider", "no-index", "find-links")
#: uv's format name of an index that is a page of links.
_PAGE = "flat"
#: uv's settings that may be paths.
_LOCATIONS = frozenset({"index-url", "extra-index-url", "find-links", "cache-dir"})


@dataclass(frozen=True)
class ConfiguredIndex:
    """An index as configured."""

    #: It may have credentials.
    url: str = field(repr=False)
    #: The variable or file that configured it.
    source: str
    name: str | None = None
    #: Asked last.
    is_default: bool = False
    #: Asked only for the packages that a project's settings assign to it.
    explicit: bool = False
    #: Whether the tool asks the keyring for credentials.
    keyring: bool = False


@dataclass(frozen=True)
class Machine:
    """The places of configuration files."""

    #: ``sys.platform``.
    platform: str
    home: Path
    folder: Path
    #: The Python environment.
    prefix: Path
    #: The root of system files; another folder in tests.
    root: Path = Path("/")

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> Machine:
        """Return this machine, in the working directory."""
        # Windows' tools ignore HOME, which Git's shell sets.
        home = environ.get("HOME") if sys.platform != "win32" else None
        return cls(sys.platform, Path(home) if home else Path.home(), Path.cwd(), Path(sys.prefix))


def uv_indexes(environ: Mapping[str, str], machine: Machine) -> Iterator[ConfiguredIndex]:
    """Yield uv's indexes in priority order."""
    files = uv_tables(environ, machine)
    keyring = environ.get("UV_KEYRING_PROVIDER") or next(
        (table["keyring-provider"] for _, table, _ in files if "keyring-provider" in table), ""
    )
    uses_keyring = keyring == "subprocess"
    for variable in ("UV_INDEX", "UV_EXTRA_INDEX_URL"):
        for text in environ.get(variable, "").split():
            yield _named(text, variable, keyring=uses_keyring)
    for variable in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if environ.get(variable):
            yield _named(environ[variable], variable, keyring=uses_keyring, is_default=True)
    for path, table, where in files:
        try:
            for index in table.get("index", ()):
                if index.get("format") == _PAGE:
                    continue
                yield ConfiguredIndex(
                    index["url"],
                    where,
                    index.get("name"),
                    index.get("default", False),
                    index.get("explicit", False),
                    uses_keyring,
                )
            for url in table.get("extra-index-url", ()):
                yield ConfiguredIndex(url, where, keyring=uses_keyring)
            if "index-url" in table:
                yield ConfiguredIndex(
                    table["index-url"], where, is_default=True, keyring=uses_keyring
                )
        except (AttributeError, LookupError, TypeError) as error:
            raise index_settings_refused(str(path), "an index without a URL") from error


def pip_indexes(environ: Mapping[str, str], machine: Machine) -> Iterator[ConfiguredIndex]:
    """Yield pip's indexes, extra ones first: the first one that has a name decides."""
    settings = _pip_settings(environ, machine)
    if settings.get("no-index", ("",))[0].lower() in ("1", "true", "yes", "on"):
        return
    keyring = settings.get("keyring-provider", ("",))[0] in ("import", "subprocess")
    urls, source = settings.get("extra-index-url", ("", ""))
    for url in urls.split():
        yield ConfiguredIndex(url, source, keyring=keyring)
    if "index-url" in settings:
        url, source = settings["index-url"]
        yield ConfiguredIndex(url.strip(), source, is_default=True, keyring=keyring)


def find_links(environ: Mapping[str, str], machine: Machine) -> list[str]:
    """Return the pages of links and folders where uv and pip look for archives beside indexes."""
    found = environ.get("UV_FIND_LINKS", "").split(",")
    for _, table, _ in uv_tables(environ, machine):
        found += map(str, table.get("find-links", ()))
        found += [each["url"] for each in table.get("index", ()) if each.get("format") == _PAGE]
    found += _pip_settings(environ, machine).get("find-links", ("", ""))[0].split()
    return [text for text in found if text]


def is_remote_url(url: str) -> bool:
    """Return whether a URL is not a local folder."""
    return url.startswith(("http:", "https:"))


def uv_tables(
    environ: Mapping[str, str], machine: Machine
) -> list[tuple[Path, dict[str, Any], str]]:
    """Return the settings and name of each uv file, in priority order.

    Raises `SoftwareUnusable`.
    """
    return [(path, *_uv_settings(path)) for path in _uv_files(environ, machine)]


def _pip_settings(environ: Mapping[str, str], machine: Machine) -> dict[str, tuple[str, str]]:
    """Return the effective text of each setting, and its source."""
    settings: dict[str, tuple[str, str]] = {}
    for section in ("global", "install"):
        for path in _pip_files(environ, machine):
            for name, value in _pip_section(path, section):
                settings[name] = (value, str(path))
    for name in _OF_PIP:
        variable = f"PIP_{name.upper().replace('-', '_')}"
        if environ.get(variable):
            settings[name] = (environ[variable], variable)
    return settings


def _named(text: str, variable: str, *, keyring: bool, is_default: bool = False) -> ConfiguredIndex:
    """Return the index of a variable's entry: a URL, or ``name=URL``."""
    found = re.match(r"([A-Za-z0-9._-]+)=(.+)", text)
    name, url = (found[1], found[2]) if found else (None, text)
    return ConfiguredIndex(url, variable, name, is_default, keyring=keyring)


def _uv_files(environ: Mapping[str, str], machine: Machine) -> list[Path]:
    """Return uv's configuration files in priority order."""
    if environ.get("UV_CONFIG_FILE"):
        return [machine.folder / environ["UV_CONFIG_FILE"]]
    if environ.get("UV_NO_CONFIG", "").lower() in ("1", "true", "yes", "on"):
        return []
    found = []
    for folder in (machine.folder, *machine.folder.parents):
        # uv.toml hides the pyproject.toml beside it.
        here = [folder / "uv.toml", folder / "pyproject.toml"]
        has_settings = [path for path in here if path.is_file() and _is_uv_file(path)]
        if has_settings:
            found.append(has_settings[0])
            break
    if machine.platform == "win32":
        folders = (roaming_folder(environ, machine), _program_data(environ))
        found += [folder / "uv" / "uv.toml" for folder in folders]
        return [path for path in found if path.is_file()]
    user = environ.get("XDG_CONFIG_HOME") or machine.home / ".config"
    system = (environ.get("XDG_CONFIG_DIRS") or str(machine.root / "etc/xdg")).split(":")
    found += [Path(each) / "uv" / "uv.toml" for each in (user, *system) if each]
    found.append(machine.root / "etc/uv/uv.toml")
    return [path for path in found if path.is_file()]


def roaming_folder(environ: Mapping[str, str], machine: Machine) -> Path:
    """Return the folder of the user's settings on Windows."""
    return Path(environ.get("APPDATA") or machine.home / "AppData/Roaming")


def _program_data(environ: Mapping[str, str]) -> Path:
    """Return the folder of the machine's settings on Windows."""
    return Path(environ.get("PROGRAMDATA") or "C:/ProgramData")


def _is_uv_file(path: Path) -> bool:
    return path.name == "uv.toml" or "uv" in _toml(path).get("tool", {})


def _uv_settings(path: Path) -> tuple[dict[str, Any], str]:
    document = _toml(path)
    if path.name == "pyproject.toml":
        document = document["tool"]["uv"]
    try:
        # uv's pip interface, which resolves here, has its own table.
        merged = {**document, **document.get("pip", {})}
        return _with_absolute_paths(merged, path.parent), str(path)
    except (AttributeError, TypeError) as error:
        raise index_settings_refused(str(path), "settings that uv can't read") from error


def _with_absolute_paths(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return uv's settings with absolute paths, relative to the folder of the file."""

    def absolute(location: str) -> str:
        return location if re.match(r"[A-Za-z][\w+.-]*:", location) else str(folder / location)

    found = dict(settings)
    for name in _LOCATIONS & settings.keys():
        value = settings[name]
        found[name] = absolute(value) if isinstance(value, str) else list(map(absolute, value))
    if "index" in settings:
        found["index"] = [
            {**index, "url": absolute(index["url"])} if isinstance(index.get("url"), str) else index
            for index in settings["index"]
        ]
    return found


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        # The original error could repeat a line with credentials.
        raise index_settings_refused(str(path), type(error).__name__) from None


def _pip_files(environ: Mapping[str, str], machine: Machine) -> list[Path]:
    """Return pip's configuration files, in ascending priority."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    # pip ignores the user's files then.
    is_own_read = not (named and Path(named).exists())
    home, root = machine.home, machine.root
    if machine.platform == "win32":
        user = [home / "pip", roaming_folder(environ, machine) / "pip"] if is_own_read else []
        folders = [_program_data(environ) / "pip", *user, machine.prefix]
        found = [*(folder / "pip.ini" for folder in folders), *([Path(named)] if named else [])]
        return [path for path in found if path.is_file()]
    if machine.platform == "darwin":
        found = [root / "Library/Application Support/pip/pip.conf"]
        support = home / "Library/Application Support"
        config = support if (support / "pip").is_dir() else home / ".config"
    else:
        system = (environ.get("XDG_CONFIG_DIRS") or str(root / "etc/xdg")).split(":")
        found = [Path(each) / "pip" / "pip.conf" for each in system if each]
        found.append(root / "etc/pip.conf")
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if is_own_read:
        found += [home / ".pip/pip.conf", config / "pip" / "pip.conf"]
    found += [machine.prefix / "pip.conf", *([Path(named)] if named else [])]
    return [path for path in found if path.is_file()]


def _pip_section(path: Path, section: str) -> list[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error) as error:
        raise index_settings_refused(str(path), type(error).__name__) from None
    items = parser.items(section) if parser.has_section(section) else []
    return [(name.lower().replace("_", "-").removeprefix("--"), value) for name, value in items]
