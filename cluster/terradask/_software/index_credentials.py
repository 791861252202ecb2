"""Credentials of package indexes: from URLs, uv's variables, netrc and the keyring.

They leave this process in the cluster's secret alone.
"""

from __future__ import annotations

import netrc
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from terradask._software.configured import Found, Machine

_SECONDS = 20


@dataclass(frozen=True)
class Credentials:
    """``user:password`` as in a URL, and where it is from."""

    text: str | None = field(default=None, repr=False)
    source: str | None = None


def credentials_for(
    url: str, user: str | None, found: Found, environ: Mapping[str, str], machine: Machine
) -> Credentials:
    """Return an index's credentials; `user` is what stands in front of its host."""
    if user and (":" in user or not found.keyring):
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
        if (known := _in_netrc(path, host)) is not None:
            return Credentials(known, str(path))
    if user and found.keyring:
        kept = _in_keyring(url, host, unquote(user), environ)
        if kept is not None:
            return Credentials(_joined(unquote(user), kept), "keyring")
    return Credentials(user, found.source) if user else Credentials()


def _joined(user: str, password: str) -> str:
    return f"{quote(user, safe='')}:{quote(password, safe='')}"


def _netrc_files(environ: Mapping[str, str], machine: Machine) -> list[Path]:
    if environ.get("NETRC"):
        return [Path(environ["NETRC"])]
    return [machine.home / ".netrc", machine.home / "_netrc"]


def _in_netrc(path: Path, host: str) -> str | None:
    try:
        found = netrc.netrc(str(path)).authenticators(host)
    except (OSError, ValueError, netrc.NetrcParseError):
        # Its parser's error repeats what it has read. uv and pip pass over such a file too.
        return None
    return _joined(found[0], found[2] or "") if found else None


def _in_keyring(url: str, host: str, user: str, environ: Mapping[str, str]) -> str | None:
    """Ask the keyring's program, as uv does: for the URL, then for its host."""
    program = shutil.which("keyring", path=environ.get("PATH"))
    if program is None:
        return None
    for service in (url, host):
        try:
            done = subprocess.run(
                [program, "get", service, user],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            return None
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.rstrip("\n")
    return None
