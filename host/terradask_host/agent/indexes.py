"""The package indexes that a run's lock names, and their credentials, which its secret has: also
those of channels for conda, which `conda_install` uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from terradask_host.channel_credentials import secret_of

_PUBLIC = "public"
#: Options of a line: an index's URL, in which credentials can't stand, or uv's own default index.
INDEX_OPTIONS = re.compile(rf" --(default-)?index=(https?://[^\s@\"'\\]+|{_PUBLIC})")
_DEFAULTS = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
_OTHERS = ("UV_INDEX", "UV_EXTRA_INDEX_URL")


def by_indexes(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines without their indexes, by these: each group is one installation, since uv
    knows no index of a package alone.
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        options = "".join(match[0] for match in INDEX_OPTIONS.finditer(line))
        found.setdefault(options, []).append(INDEX_OPTIONS.sub("", line))
    return found


def index_environ(
    options: str, environ: Mapping[str, str], credentials: Mapping[str, str]
) -> dict[str, str]:
    """Return uv's variables for packages with these options; without any, the image decides.

    Indexes are asked in their order; the first that has a name decides about it. A default index is
    that of the image, if it has one. Credentials stand in variables of the installer's process
    alone: others' can't be read, and command lines are seen by everybody.
    """
    if not options:
        return dict(environ)
    named = [
        (default, _with_user(url, credentials)) for default, url in INDEX_OPTIONS.findall(options)
    ]
    asked = [url for default, url in named if not default]
    defaults = [url for default, url in named if default]
    kept = {name: value for name, value in environ.items() if name not in _DEFAULTS + _OTHERS}
    if not defaults:
        # Only those: the last is the one that uv would otherwise take the public index for.
        *asked, last = asked
        return kept | _of_uv(asked) | {"UV_DEFAULT_INDEX": last}
    own = {name: environ[name] for name in _DEFAULTS if environ.get(name)}
    if own:
        asked += " ".join(environ.get(name, "") for name in _OTHERS).split()
    if not own and defaults[0] != _PUBLIC:
        own = {"UV_DEFAULT_INDEX": defaults[0]}
    return kept | _of_uv(asked) | own


def without_credentials(text: str, credentials: Mapping[str, str]) -> str:
    """Return the installer's text without what only it may know."""
    for each in credentials.values():
        secret = secret_of(each)
        for form in filter(None, (secret, unquote(secret))):
            text = text.replace(form, "***")
    return text


def _of_uv(asked: list[str]) -> dict[str, str]:
    return {"UV_INDEX": " ".join(asked)} if asked else {}


def _with_user(url: str, credentials: Mapping[str, str]) -> str:
    user = credentials.get(url)
    return url if not user else url.replace("://", f"://{user}@", 1)
