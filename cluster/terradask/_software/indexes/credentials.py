"""Find credentials of package indexes in URLs, uv's variables and store, netrc and the keyring.

Credentials leave this process only in the cluster's secret.
"""

from __future__ import annotations

import base64
import json
import netrc
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from terradask._software.indexes.configured import ConfiguredIndex, Machine, roaming_folder
from terradask._software.uv import run_uv
from terradask_modules.programs import environ_for_programs, find_program

_SECONDS = 20


@dataclass(frozen=True)
class Credentials:
    """``user:password`` as in a URL, and its source."""

    text: str | None = field(default=None, repr=False)
    source: str | None = None


def credentials_for(
    url: str,
    user: str | None,
    found: ConfiguredIndex,
    environ: Mapping[str, str],
    machine: Machine,
    *,
    of_uv: bool = True,
) -> Credentials:
    """Return an index's credentials; `user` is the user name in its URL."""
    if user and ":" in user:
        return Credentials(user, found.source)
    if found.name:
        variable = f"UV_INDEX_{re.sub(r'[^A-Za-z0-9]', '_', found.name).upper()}"
        login, password = (
            environ.get(f"{variable}_{part}", "") for part in ("USERNAME", "PASSWORD")
        )
        if login or password:
            return Credentials(_joined(login, password), f"{variable}_…")
    host = urlsplit(url).hostname or ""
    for path in _netrc_files(environ, machine):
        if (known := _netrc_credentials(path, host, user)) is not None:
            return Credentials(known, str(path))
    if of_uv and (stored := _stored_credentials(url, user, environ, machine)) is not None:
        return Credentials(stored, "uv auth login")
    if user and found.keyring:
        kept = _keyring_credentials(url, host, unquote(user), environ)
        if kept is not None:
            return Credentials(_joined(unquote(user), kept), "keyring")
    return Credentials(user, found.source) if user else Credentials()


def _joined(user: str, password: str) -> str:
    return f"{quote(user, safe='')}:{quote(password, safe='')}"


def _netrc_files(environ: Mapping[str, str], machine: Machine) -> list[Path]:
    if environ.get("NETRC"):
        return [Path(environ["NETRC"])]
    return [machine.home / ".netrc", machine.home / "_netrc"]


def _netrc_credentials(path: Path, host: str, user: str | None) -> str | None:
    try:
        found = netrc.netrc(str(path)).authenticators(host)
    except (OSError, ValueError, netrc.NetrcParseError):
        # The parser's error repeats the file's text. uv and pip ignore such a file too.
        return None
    if found is None or (user and unquote(user) != found[0]):
        return None
    return _joined(found[0], found[2] or "")


def _stored_credentials(
    url: str, user: str | None, environ: Mapping[str, str], machine: Machine
) -> str | None:
    """Ask uv for the credentials that ``uv auth login`` stored, if its file exists."""
    if machine.platform == "win32":
        data = roaming_folder(environ, machine) / "uv/data"
    else:
        data = Path(environ.get("XDG_DATA_HOME") or machine.home / ".local/share", "uv")
    folder = environ.get("UV_CREDENTIALS_DIR") or data / "credentials"
    if not Path(folder, "credentials.toml").is_file():
        return None
    named = url if user is None else url.replace("://", f"://{user}@", 1)
    result = run_uv(
        ["auth", "helper", "--protocol=bazel", "--preview-features=auth-helper", "get"],
        {**environ, "UV_CREDENTIALS_DIR": str(folder)},
        seconds=_SECONDS,
        text=json.dumps({"uri": named}),
    )
    try:
        (header,) = json.loads(result.output)["headers"]["Authorization"]
        login, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    except (AttributeError, LookupError, TypeError, ValueError):
        # Nothing stored for this index, or a uv without this command.
        return None
    return _joined(login, password) if header.startswith("Basic ") else None


def _keyring_credentials(url: str, host: str, user: str, environ: Mapping[str, str]) -> str | None:
    """Ask the keyring program for the URL, then for its host, as uv does."""
    program = find_program("keyring", environ)
    if program is None:
        return None
    for service in (url, host):
        try:
            done = subprocess.run(
                [program, "get", service, user],
                env=environ_for_programs(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            return None
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.rstrip("\n")
    return None
